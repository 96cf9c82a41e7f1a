"""What several commands share: the --url option, times, and opening the client."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import click

from holdfast.cli import exits
from holdfast.cli.say import Say, printable

if TYPE_CHECKING:
    from holdfast import Client, LeaseInfo


OnLost = Literal["term", "kill", "warn"]
"""What is done to the command when its lease cannot be renewed."""


class Seconds(click.ParamType):
    """A time: a finite number of seconds, 0 or more (or more than 0)."""

    name = "seconds"

    def __init__(self, *, zero: bool = True) -> None:
        self._zero = zero

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or a usage error that says what is wrong with it."""
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = math.nan
        least = 0.0 if self._zero else math.ulp(0.0)
        if not least <= seconds < math.inf:
            bound = "0 or more" if self._zero else "more than 0"
            self.fail(f"{value!r} is not a number of seconds, {bound}.", param, ctx)
        return seconds


url_option = click.option(
    "--url",
    metavar="URL",
    help="The engine. Default: $HOLDFAST_URL, else an SQLite file in your state folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


@contextmanager
def open_client(url: str | None, say: Say | None = None) -> Iterator[Client]:
    """The client; a URL that makes no sense is a usage error, a dead engine exit code 69."""
    from holdfast import Client, EngineUnavailable  # not above: `holdfast --help` must be quick
    from holdfast.cli.log import show_log

    say = say or Say()
    show_log(say)
    try:
        with bad_arguments_are_usage_errors():
            client = Client(url)
        with client:
            yield client
    except EngineUnavailable as error:
        say.error(str(error))
        raise click.exceptions.Exit(exits.UNAVAILABLE) from error


@contextmanager
def bad_arguments_are_usage_errors() -> Iterator[None]:
    """Turn what the library says of a bad argument into a usage error."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


def describe_holder(info: LeaseInfo) -> str:
    """Who holds it, as a person would say it."""
    if info.label is None:
        return printable(info.holder)
    return printable(f"{info.label.program} on {info.label.host}, pid {info.label.pid}")
