"""`holdfast elect`: run a command while this candidate leads, and campaign again afterwards.

1. Each term is a process of its own, which does what `holdfast run` does; so is the HTTP server.
   Their parent never has a client or a thread, so that it can fork again (see `child`).
2. The parent blocks the signals that it forwards, and waits for them and for the end of its
   processes. Ctrl-Z stops it as it stops any program.
3. When the parent dies, even by SIGKILL, its processes die with it (Linux), and their commands.
4. A term is followed by the next one, unless it reports that it cannot go on: an invalid option, an
   engine that is unreachable, a command that cannot be executed.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from holdfast.cli import exits
from holdfast.cli.child import die_with
from holdfast.cli.hold import Request, run_locked
from holdfast.cli.http import listen, serve
from holdfast.cli.output import Output
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
  126  the command cannot be executed
  127  the command was not found
If a signal ended it, holdfast ends by the same signal.

\b
The command finds in its environment:
  HOLDFAST_NAME    the election's name
  HOLDFAST_HOLDER  the holder id of this lease
  HOLDFAST_FENCE   the term: pass it on with every write
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
    heeded = {
        signum for signum in FORWARDED - _STOPS if signal.getsignal(signum) is not signal.SIG_IGN
    }
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave no exit code of a term
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, heeded | {signal.SIGCHLD})
    parent = _Parent(frozenset(heeded), frozenset(mask), output)
    server = 0
    try:
        if listener is not None:
            server = parent.fork(lambda: serve(listener, request, output))
            listener.close()
        return parent.terms(request, server)
    finally:
        if server:  # it holds nothing
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@dataclass(frozen=True, slots=True)
class _Parent:
    heeded: frozenset[int]
    mask: frozenset[int]
    output: Output

    def terms(self, request: Request, server: int) -> int:
        while True:
            began = time.monotonic()
            code, again = self._term(request, server)
            if not again:
                return code
            end = f"exit code {code}" if code >= 0 else f"signal {-code}"
            self.output.detail(f"the term is over ({end}); campaigning again")
            left = max(0.0, began + PAUSE - time.monotonic())
            if arrived := signal.sigtimedwait(self.heeded & ENDING, left):
                return -arrived.si_signo

    def _term(self, request: Request, server: int) -> tuple[int, bool]:
        """One term: its exit code, and whether to campaign again."""
        stuck = mmap.mmap(-1, 1)  # memory that a forked process shares

        def run() -> int:
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
            try:
                code, executed = run_locked(request, self.output)
            except BaseException:
                stuck[0] = True
                raise
            stuck[0] = not executed and code != exits.LOST
            return code

        term = self.fork(run)
        sent, lost_server = set[int](), False
        while (code := _end_of(term)) is None:
            signum = signal.sigwait(self.heeded | {signal.SIGCHLD})
            if signum == signal.SIGCHLD:
                if not server or lost_server or _end_of(server) is None:
                    continue
                self.output.error("the HTTP server has ended; stopping")
                lost_server, signum = True, signal.SIGTERM
            sent.add(signum)
            os.kill(term, signum)
        os.waitpid(term, 0)
        if lost_server:
            return exits.UNAVAILABLE, False
        ended = sent & _FINAL or -code in sent
        return code, not ended and not stuck[0]

    def fork(self, work: Callable[[], int]) -> int:
        """A process that does this, and ends with what it returns as its exit code. The signals
        that its parent heeds are blocked in it: a signal to the whole group is not for the server,
        which ends with its parent."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = exits.UNAVAILABLE
            try:
                die_with(parent)
                code = exits.code_of(work)
                if code < 0:
                    exits.leave(code)
            except BaseException:  # noqa: BLE001 - must not return into the parent's code
                traceback.print_exc()
            finally:
                exits.leave_at_once(code if code >= 0 else exits.UNAVAILABLE)
        return pid


def _end_of(pid: int) -> int | None:
    """The exit code of a process of ours, if it has ended; -n: signal n ended it. It is still to be
    waited for."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
