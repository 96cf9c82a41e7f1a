"""`holdfast elect`: run a command while this candidate leads, and campaign again afterwards.

1. Each term is a process of its own, which does what `holdfast run` does; so is the HTTP server.
   Their parent never has a client or a thread, so that it can fork again (see `child`).
2. The parent blocks the signals that it forwards, and waits for them and for the end of its
   processes. Ctrl-Z stops it as it stops any program.
3. When the parent dies, even by SIGKILL, its processes die with it (Linux), and their commands.
4. A term is followed by the next one, unless it cannot go on: an invalid option, an engine that is
   unreachable, a command that cannot be executed; or unless the HTTP server has ended.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

import click

from holdfast.cli import console
from holdfast.cli.child import die_with
from holdfast.cli.console import Output
from holdfast.cli.hold import Request, run_locked
from holdfast.cli.http import listen, serve
from holdfast.cli.run import RunCommand, command_argument, name_argument, read_request, supervision
from holdfast.cli.signals import ENDING, FORWARDED

PAUSE = 1.0
"""Seconds between the beginnings of two terms, at least: a command that ends at once must not
keep the engine busy."""

_FINAL = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGQUIT})
"""They end the election as soon as the command has ended, even if the command handles them."""

_STOPS = frozenset({signal.SIGTSTP, signal.SIGCONT})

_EXIT_CODES = """\b
It runs until it gets INT, TERM or QUIT, or another signal that ends the
command, such as HUP when the terminal is closed: it passes them on to the
command, and then ends with it. Otherwise it ends only if it cannot continue:
  64   usage: an invalid option, name, URL, address or time
  69   the engine is unreachable, or the HTTP server has ended
  71   the operating system refused: no more processes or open files
  126  the command cannot be executed
  127  the command was not found
If a signal ended it, holdfast ends by the same signal.

The command finds in its environment what `run` gives it. HOLDFAST_FENCE is the term.
"""


@click.command(
    cls=RunCommand,
    options_metavar="[OPTIONS]",
    epilog=_EXIT_CODES,
)
@name_argument
@command_argument
@click.option(
    "--value", default="", metavar="TEXT", help="What to publish while leading: an address."
)
@click.option(
    "--http",
    metavar="[HOST]:PORT",
    help="Answer who leads: GET / as JSON, GET /events as server-sent events. It is open to all"
    " that can reach it: 127.0.0.1:PORT is this host alone.",
)
@supervision
def elect(http: str | None, **options: Any) -> None:
    """Campaign for NAME, and run COMMAND while leading.

    When the command has ended, or was stopped because the lease was lost, it campaigns again.
    """
    request, output = read_request(options)
    click.get_current_context().exit(lead_forever(request, http, output))


def lead_forever(request: Request, http: str | None, output: Output) -> int:
    """Campaign, run the command, and again. Returns the exit code; -n: end by signal n."""
    listener = listen(http) if http is not None else None
    heeded: set[int] = {
        signum for signum in FORWARDED - _STOPS if signal.getsignal(signum) is not signal.SIG_IGN
    }
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave no exit code of a term
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, heeded | {signal.SIGCHLD})
    server = 0
    stuck = mmap.mmap(-1, 1)  # memory that is shared with the terms

    def term() -> int:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            return run_locked(request, output)
        except BaseException:
            stuck[0] = True
            raise

    try:
        if listener is not None:
            server = _fork(lambda: serve(listener, request, output))
            listener.close()
        while True:
            began = time.monotonic()
            code, sent = _forward_until_its_end(_fork(term), server, heeded)
            if server and not stuck[0] and _has_ended(server):
                output.error("the HTTP server has ended, and so does this candidate")
                return console.UNAVAILABLE
            if sent & _FINAL or -code in sent or stuck[0]:
                return code
            end = f"exit code {code}" if code >= 0 else f"signal {-code}"
            output.detail(f"the term is over ({end}); campaigning again")
            left = max(0.0, began + PAUSE - time.monotonic())
            if arrived := signal.sigtimedwait(heeded & ENDING, left):
                return -arrived.si_signo
    finally:
        if server:  # it holds nothing
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _forward_until_its_end(term: int, server: int, heeded: set[int]) -> tuple[int, set[int]]:
    """Forward signals to a process of ours, and TERM if the server has ended; the exit code of the
    process, and what it was sent."""
    sent = set[int]()
    while True:
        pid, status = os.waitpid(term, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), sent
        if server and signal.SIGTERM not in sent and _has_ended(server):
            signum: int = signal.SIGTERM
        else:
            signum = signal.sigwait(heeded | {signal.SIGCHLD})
        if signum != signal.SIGCHLD:
            sent.add(signum)
            os.kill(term, signum)


def _has_ended(pid: int) -> bool:
    """Whether a process of ours has ended. It is still to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _fork(work: Callable[[], int]) -> int:
    """A process that does this, and ends with what it returns as its exit code. The signals that
    its parent heeds are blocked in it: a signal to the whole group is not for the server, which
    ends with its parent."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = console.UNAVAILABLE
        try:
            die_with(parent)
            code = console.code_of(work)
            if code < 0:
                console.leave(code)
        except BaseException:  # noqa: BLE001 - must not return into the parent's code
            traceback.print_exc()
        finally:
            console.leave_at_once(code if code >= 0 else console.UNAVAILABLE)
    return pid
