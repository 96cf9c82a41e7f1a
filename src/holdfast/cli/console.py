"""What the command line shows besides its results: messages, one line each on stderr, which begin
with `holdfast: `; times; and the exit codes, after sysexits.h and the shells, with the way out.
"""

from __future__ import annotations

import logging
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import NoReturn

import click


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


FREE = 1
"""`show`, `break`: the lock is free (or the operator answered no)."""

UNEXPECTED = 1
"""`lab`: a run did not end as expected."""

WARNINGS, CRITICAL = 1, 2
"""`doctor`: the worst that it found."""

USAGE = 64
"""An invalid option, name, URL or time."""

UNAVAILABLE = 69
"""The engine is unreachable, or something that the command needs is not installed."""

LOST = 70
"""The lease was lost, or about to be, and the command was stopped."""

OS_ERROR = 71
"""The operating system refused: no more processes or files, or no space for the answer."""

CONFLICT = 75
"""Another client holds the lock."""

NOT_EXECUTABLE = 126
NOT_FOUND = 127


def code_of(command: Callable[[], object]) -> int:
    """Run a command; the exit code that it returns, or that stands for what it raised. A usage
    error is 64, as in sysexits.h, not click's 2."""
    try:
        code = command()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return USAGE if isinstance(error, click.UsageError) else error.exit_code
    except click.Abort as error:  # Ctrl-C; or the end of the input instead of an answer
        return FREE if isinstance(error.__context__, EOFError) else -signal.SIGINT
    except OSError as error:
        Output().error(str(error))
        return OS_ERROR
    return code if isinstance(code, int) else 0


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for anything. For a command that holds nothing."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader has gone
            stream.flush()
    os._exit(code)


def leave(code: int) -> NoReturn:
    """End the process: with this exit code, or, if it is -n, by signal n.

    A shell reports 128 + n for the latter. A loop around holdfast ends on Ctrl-C only if it sees
    that holdfast was ended by the signal; systemd takes an end by SIGTERM for a clean one.
    """
    if code >= 0:
        sys.exit(code)
    signum = -code
    with suppress(OSError):  # the reader has gone
        sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):  # SIGKILL has no handler
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    os.kill(os.getpid(), signum)
    sys.exit(128 + signum)  # as the first process of a container it is spared
