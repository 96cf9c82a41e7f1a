"""`holdfast run`: hold a lock while a command runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar, get_args

import click

from holdfast.cli import console
from holdfast.cli.console import Output
from holdfast.cli.hold import Request, run_locked
from holdfast.cli.options import (
    OnLost,
    complete_name,
    positive_seconds,
    seconds,
    url_option,
)

F = TypeVar("F", bound=Callable[..., Any])


class RunCommand(click.Command):
    """Options stand before or after NAME; the command begins at `--`, or at the next word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the options first, as click reads them."""
        ctx.allow_interspersed_args = False
        before, rest = self._split(ctx, args)
        if rest:
            after, command = self._split(ctx, rest[1:])
            args = [*before, *after, "--", rest[0], *command]
        return super().parse_args(ctx, args)

    def _split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str]]:
        """The options at the front, and the words that follow them."""
        found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        first, others = found.get("name"), found.get("command")
        words = [first] if isinstance(first, str) else []
        words += others if isinstance(others, tuple) else ()
        options = args[: len(args) - len(words)]
        if options and options[-1] == "--":
            options.pop()
        return options, words


name_argument = click.argument("name", shell_complete=complete_name)
command_argument = click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARG]..."
)
_SUPERVISION = (
    click.option(
        "--ttl",
        type=positive_seconds,
        metavar="SECONDS",
        help="How long the lock stays held after a crash; it is renewed while the command runs."
        " Default: 30.",
    ),
    click.option(
        "--max-hold",
        type=positive_seconds,
        metavar="SECONDS",
        help="Stop the command when it has held the lock for this long. Default: no limit.",
    ),
    click.option(
        "--label",
        metavar="TEXT",
        help="What `ls` and `show` print beside host, pid and program. Default: the command's"
        " name.",
    ),
    click.option(
        "--on-lost",
        type=click.Choice(get_args(OnLost)),
        default="term",
        show_default=True,
        help="What to do if the lease cannot be renewed: send TERM and then KILL, send KILL at"
        " once, or only print a warning.",
    ),
    click.option(
        "--kill-after",
        type=positive_seconds,
        metavar="SECONDS",
        help="Send TERM this long before the lease expires; KILL follows before it expires. Less"
        " than 2/3 of the ttl. Default: the smaller of 5 and ttl/3.",
    ),
    click.option("-c", "shell_line", metavar="LINE", help="Run LINE with /bin/sh -c instead."),
    click.option("-v", "--verbose", is_flag=True, help="Print each step: wait, acquire, release."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
    url_option,
)


def supervision(function: F) -> F:
    """Add the options about the lease, and about the command that runs under it."""
    for option in reversed(_SUPERVISION):
        function = option(function)
    return function


_EXIT_CODES = """\b
Exit codes:
  the command's own
  64   usage: an invalid option, name, URL or time
  69   the engine is unreachable
  70   the lease was lost, and the command was stopped
  71   the operating system refused: no more processes or open files
  75   another client holds the lock (or the code given with -E)
  126  the command cannot be executed
  127  the command was not found
If signal n ended the command, or the wait for the lock, holdfast ends by
the same signal, which a shell reports as 128 + n.

\b
The command finds in its environment:
  HOLDFAST_NAME    the lock's name
  HOLDFAST_HOLDER  the holder id of this lease
  HOLDFAST_FENCE   the fencing token: pass it on with every write
  HOLDFAST_FENCES  the fences of all names (see --also), as JSON
HOLDFAST_URL is left as it is.
"""


@click.command(
    cls=RunCommand,
    options_metavar="[OPTIONS]",
    epilog=_EXIT_CODES,
)
@name_argument
@command_argument
@click.option(
    "--also",
    multiple=True,
    metavar="NAME",
    help="Hold this lock as well: all of them, or none. Can be given several times.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Hold it for reading: with others that do so, and with no writer (a run without it).",
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Up to N runs at once: a semaphore. Give the same N everywhere. Default: 1.",
)
@click.option("-n", "--nonblock", is_flag=True, help="Do not wait: exit 75 if the lock is held.")
@click.option(
    "-w",
    "--timeout",
    "--wait",
    "timeout",
    type=seconds,
    metavar="SECONDS",
    help="Wait at most this long, then exit 75. Default: forever.",
)
@click.option(
    "-E",
    "--conflict-exit-code",
    type=click.IntRange(0, 255),
    default=console.CONFLICT,
    show_default=True,
    metavar="N",
    help="Exit code when another client holds the lock.",
)
@click.option(
    "--min-hold",
    type=seconds,
    metavar="SECONDS",
    default=0.0,
    help="Keep the lock at least this long, even if the command ends sooner.",
)
@supervision
def run(
    nonblock: bool,
    timeout: float | None,
    also: tuple[str, ...],
    shared: bool,
    slots: int,
    **options: Any,
) -> None:
    """Run COMMAND while holding the lock NAME.

    The lock is renewed while the command runs and released when it ends. If it cannot be renewed,
    the command is stopped before the lease ends.
    """
    if nonblock and timeout is not None:
        raise click.UsageError("-n does not wait, and -w does: give only one of them.")
    if sum((bool(also), shared, slots != 1)) > 1:
        raise click.UsageError("--also, --shared and --slots exclude each other: give one of them.")
    request, output = read_request(
        {
            **options,
            "timeout": 0.0 if nonblock else timeout,
            "also": also,
            "shared": shared,
            "slots": slots,
        }
    )
    click.get_current_context().exit(run_locked(request, output))


def read_request(options: dict[str, Any]) -> tuple[Request, Output]:
    """What to do, and what to print meanwhile, from the options of the command line."""
    quiet, verbose = options.pop("quiet"), options.pop("verbose")
    if quiet and verbose:
        raise click.UsageError("-q and -v exclude each other: give only one of them.")
    argv: tuple[str, ...] = options.pop("command")
    shell_line: str | None = options.pop("shell_line")
    if shell_line is not None and argv:
        raise click.UsageError("-c takes the whole command as one line: give it, or -- COMMAND.")
    if shell_line is not None:
        argv = ("/bin/sh", "-c", shell_line)
    if not argv:
        raise click.UsageError("there is no command to run: give NAME -- COMMAND [ARG]...")
    if options["label"] is None:
        options["label"] = program_of(shell_line or argv[0])
    return Request(argv=argv, **options), Output(quiet=quiet, verbose=verbose)


def program_of(line: str) -> str:
    """What to show of a command: its program, without its folder and its arguments."""
    name = PurePath((line.split() or [""])[0].rstrip(";")).name
    return "".join(c for c in name if c.isascii() and c.isprintable())[:30]
