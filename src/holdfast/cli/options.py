"""Shared by several commands: the --url option, times, and opening the client.

The commands' modules `import holdfast`, which loads each public name when it is first used: help
must be quick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

import holdfast
from holdfast.cli import console
from holdfast.cli.console import Output, show_log
from holdfast.options import printable

if TYPE_CHECKING:
    from holdfast.breaking import Audit

MOST_COMPLETIONS = 100

OnLost = Literal["term", "kill", "warn"]
"""What is done to the command if its lease cannot be renewed."""


def number_that(what: str, fits: Callable[[float], bool]) -> Callable[[object], float]:
    """The type of an option: a number that fits. (What compares with "not a number" is False.)"""

    def number(value: object) -> float:
        with suppress(ValueError):
            found = float(str(value))
            if fits(found):
                return found
        raise click.BadParameter(f"{value!r} is not a number {what}.")

    return number


seconds = number_that("of seconds >= 0", lambda found: 0 <= found < math.inf)
positive_seconds = number_that("of seconds > 0", lambda found: 0 < found < math.inf)

url_option = click.option(
    "--url",
    metavar="URL",
    help="The engine. Default: $HOLDFAST_URL, else an SQLite file in your state folder.",
)
audit_log_option = click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file to which a line of JSON is appended for each lock that is broken.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


@contextmanager
def open_client(url: str | None, output: Output | None = None) -> Iterator[holdfast.Client]:
    """The client. An invalid URL is a usage error, an unreachable engine exit code 69."""
    output = output or Output()
    show_log(output.without_waiting())
    with bad_arguments_are_usage_errors():
        client = holdfast.Client(url)
    try:
        with client:
            yield client
    except holdfast.EngineUnavailable as error:
        output.error(str(error))
        raise click.exceptions.Exit(console.UNAVAILABLE) from error


@contextmanager
def bad_arguments_are_usage_errors() -> Iterator[None]:
    """Turn the library's errors about a bad argument or a missing extra into usage errors."""
    try:
        yield
    except (ValueError, TypeError, ModuleNotFoundError) as error:
        raise click.UsageError(str(error)) from error


def open_audit(path: Path | None) -> Audit:
    """The record of broken locks. A file that cannot be written is a usage error."""
    from holdfast.breaking import Audit  # not above: help must be quick

    try:
        return Audit(path)
    except OSError as error:
        raise click.UsageError(f"--audit-log: {error}") from error


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of held locks that begin so, for the completion of a shell."""
    try:
        with holdfast.Client(ctx.params.get("url")) as client:
            return [info.name for info in islice(client.leases(incomplete), MOST_COMPLETIONS)]
    except (holdfast.LockError, ValueError, ModuleNotFoundError):
        return []


def label_as_dict(label: holdfast.Label | None) -> dict[str, object]:
    """Who a holder is, for JSON."""
    return {
        "host": label.host if label else None,
        "pid": label.pid if label else None,
        "program": label.program if label else None,
        "label": label.text if label else None,
    }


def describe_holder(holder: str) -> str:
    """The holder of this id, for people."""
    label = holdfast.Label.of(holder)
    if label is None:
        return printable(holder)
    text = f" ({label.text})" if label.text else ""
    return printable(f"{label.program}{text} on {label.host}, pid {label.pid}")


def describe_holders(info: holdfast.LeaseInfo) -> str:
    """All holders of a lock, for people."""
    others = len(info.members) - 1
    more = f" and {others} other{'s' if others > 1 else ''}" if others > 0 else ""
    return describe_holder(info.holder) + more
