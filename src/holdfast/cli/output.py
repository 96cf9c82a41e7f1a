"""Messages for people: on stderr, one line each, which begins with `holdfast: `; and times."""

from __future__ import annotations

import logging
import select
from contextlib import suppress
from math import inf

import click

from holdfast.options import printable

__all__ = ["Output", "duration", "printable", "show_log", "stderr_is_ready", "time_left"]


class Output:
    """`error` always; `note` unless quiet; `detail` when verbose."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False, waits: bool = True) -> None:
        self.quiet = quiet
        self._verbose = verbose
        self._waits = waits

    def without_waiting(self) -> Output:
        """The same, but a message that would have to wait is dropped.

        A stopped terminal (Ctrl-S) or a full pipe must not delay a renewal or a kill.
        """
        return Output(quiet=self.quiet, verbose=self._verbose, waits=False)

    def error(self, text: str) -> None:
        if not self._waits and not stderr_is_ready():
            return
        with suppress(OSError):  # the reader has gone: the command goes on
            click.echo(f"holdfast: {text}", err=True)

    def note(self, text: str) -> None:
        if not self.quiet:
            self.error(text)

    def detail(self, text: str) -> None:
        if self._verbose:
            self.error(text)


def stderr_is_ready() -> bool:
    """Whether a message can be written without waiting."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    return bool(poll.poll(0))


def show_log(output: Output) -> None:
    """Show what the library logs: errors always, failed tries unless quiet, the rest when
    verbose."""
    from holdfast.events import AcquireFailed, RenewalFailed  # not above: help must be quick

    class LogToPeople(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            about = record.args[0] if isinstance(record.args, tuple) and record.args else None
            if record.levelno >= logging.ERROR:
                output.error(self.format(record))
            elif isinstance(about, (AcquireFailed, RenewalFailed)):
                output.note(self.format(record))
            else:
                output.detail(self.format(record))

    logging.getLogger("holdfast").addHandler(LogToPeople())
    logging.getLogger("kazoo").addHandler(logging.NullHandler())  # what it has to say is said here


def duration(seconds: float) -> str:
    """A time in at most six characters."""
    if seconds == inf:  # of a lease: another program took it, without an expiry
        return "no end"
    for unit, length in (("s", 1), ("min", 60), ("h", 3600)):
        if (count := round(seconds / length)) < 100:
            return f"{count} {unit}"
    return f"{seconds / 86400:.0f} d"


def time_left(seconds: float) -> str:
    """What is left of a lease."""
    return duration(seconds) + (", unless it is renewed" if seconds < inf else "")
