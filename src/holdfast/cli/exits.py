"""The exit codes of the command line, after sysexits.h and the shells, and the way out."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import click

from holdfast.cli.output import Output

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
