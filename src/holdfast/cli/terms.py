"""One `holdfast elect`: a process for each term, and one for HTTP.

1. Each term is a process of its own, which does what `holdfast run` does. Its parent never has a
   client or a thread, so that it can fork again (see `child`).
2. The parent blocks the signals that it forwards, and waits for them and for the end of its
   processes. Ctrl-Z stops it as it stops any program.
3. When the parent dies, even by SIGKILL, its processes die with it (Linux), and their commands.
4. A term that ran its command, or whose lease was lost, is followed by the next one. Any other end
   is the end of all: an invalid option, an engine that is unreachable.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import click

from holdfast.cli import exits
from holdfast.cli.child import die_with
from holdfast.cli.hold import Request, run_locked
from holdfast.cli.output import Output
from holdfast.cli.signals import FORWARDED

PAUSE = 1.0
"""Seconds between the beginnings of two terms, at least: a command that ends at once must not
keep the engine busy."""

_ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGQUIT})
_STOPS = frozenset({signal.SIGTSTP, signal.SIGCONT})
_FINAL = frozenset({exits.NOT_EXECUTABLE, exits.NOT_FOUND})


def lead_forever(request: Request, http: str | None, output: Output) -> int:
    """Campaign, run the command, and again. Returns the exit code; -n: end by signal n."""
    listener = listen(http) if http is not None else None
    heeded = {
        signum for signum in FORWARDED - _STOPS if signal.getsignal(signum) is not signal.SIG_IGN
    }
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, heeded | {signal.SIGCHLD})
    parent = _Parent(frozenset(heeded), frozenset(mask), output)
    server = 0
    try:
        if listener is not None:
            server = parent.fork(lambda: _serve(listener, request, output))
            listener.close()
        return parent.terms(request, server)
    finally:
        if server:
            parent.end(server)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def listen(address: str) -> socket.socket:
    """A socket that listens on `HOST:PORT`; without a host, on all addresses of this one."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family)
    except (OSError, ValueError, OverflowError) as error:
        raise click.UsageError(f"--http {address!r}: cannot listen there: {error}") from None


def _serve(listener: socket.socket, request: Request, output: Output) -> int:
    from holdfast.cli.http import serve

    return serve(listener, request, output)


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
            self.output.detail(f"the term is over (exit code {code}); campaigning again")
            left = max(0.0, began + PAUSE - time.monotonic())
            if arrived := signal.sigtimedwait(self.heeded, left):
                return -arrived.si_signo

    def _term(self, request: Request, server: int) -> tuple[int, bool]:
        """One term: its exit code, and whether to campaign again."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as ran:
            os.set_blocking(reader, False)
            term = self.fork(
                lambda: run_locked(request, self.output, lambda: os.write(writer, b"."))
            )
            os.close(writer)
            ended, lost_server = False, False
            while (code := _ended(term)) is None:
                signum = signal.sigwait(self.heeded | {signal.SIGCHLD})
                if signum == signal.SIGCHLD:
                    if server and not lost_server and _ended(server, keep=True) is not None:
                        self.output.error("the HTTP server has ended; stopping")
                        lost_server, signum = True, signal.SIGTERM
                    else:
                        continue
                ended = ended or signum in _ENDING
                os.kill(term, signum)
            if lost_server:
                return exits.UNAVAILABLE, False
            did_run = bool(ran.read())
        return code, not ended and (code == exits.LOST or (did_run and code not in _FINAL))

    def fork(self, work: Callable[[], int]) -> int:
        """A process that does this, and ends with what it returns as its exit code."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = exits.UNAVAILABLE
            try:
                die_with(parent)
                signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
                code = work()
            except click.exceptions.Exit as end:
                code = end.exit_code
            except click.UsageError as error:
                error.show()
                code = exits.USAGE
            except BaseException:  # noqa: BLE001 - must not return into the parent's code
                traceback.print_exc()
            finally:
                _leave(code)
        return pid

    def end(self, pid: int) -> None:
        """Kill a process that holds nothing."""
        if _ended(pid, keep=True) is None:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _ended(pid: int, *, keep: bool = False) -> int | None:
    """The exit code of a process of ours, if it has ended; `keep`: it is waited for later."""
    options = os.WEXITED | os.WNOHANG | (os.WNOWAIT if keep else 0)
    found = os.waitid(os.P_PID, pid, options)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        if code < 0:
            exits.leave(code)
    finally:
        os._exit(code if code >= 0 else exits.UNAVAILABLE)
