"""A terminal of the test's own, with a program on it, and the least of a shell with job control."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from .processes import PATIENCE, end_session

CTRL_C, CTRL_Z = "\x03", "\x1a"

JOB_SHELL = """
import os, signal, sys

place, *argv = sys.argv[1:]
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    if place == "orphan" and os.fork():
        os._exit(0)
    if place == "fg":
        os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(argv[0], argv)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    os.tcsetpgrp(0, os.getpgrp())
    print("[stopped by %d]" % os.WSTOPSIG(status), flush=True)
    if sys.stdin.readline() == "fg\\n":
        os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
os.tcsetpgrp(0, os.getpgrp())
print("[exit %d]" % os.waitstatus_to_exitcode(status), flush=True)
if place == "orphan":
    signal.pause()
"""
"""Runs one job and asks `fg` or `bg` when it stops. It begins in the foreground, in the
background, or there as an orphan, which no shell will ever continue."""


class Console:
    """The keyboard and the screen of a terminal."""

    def __init__(self, master: int, pid: int) -> None:
        self._master = master
        self._pid = self._session = pid
        self._screen = ""

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    @property
    def foreground(self) -> int:
        """The group of processes in the foreground."""
        return os.tcgetpgrp(self._master)

    def expect(self, text: str) -> str:
        """Wait until this is on the screen; what was written up to its end."""
        give_up_at = time.monotonic() + PATIENCE
        while text not in self._screen:
            left = give_up_at - time.monotonic()
            heard = left > 0 and self._read(left)
            assert heard, f"no {text!r} in {self._screen!r}"
        before, _, self._screen = self._screen.partition(text)
        return before

    def expect_exit(self) -> int:
        """Wait for the program to end; its exit code."""
        while self._read(PATIENCE):
            pass
        pid, self._pid = self._pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None:
        """Hang up."""
        end_session(self._session)
        if self._pid:
            os.waitpid(self._pid, 0)
        os.close(self._master)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self._master, 4096)
        except OSError:  # Linux: everybody has closed the other end
            return False
        self._screen += chunk.decode(errors="replace").replace("\r\n", "\n")
        return bool(chunk)


@contextmanager
def console(argv: Sequence[str], environment: Mapping[str, str]) -> Iterator[Console]:
    """Run a program as the leader of a session on a new terminal."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(argv[0], list(argv), {**os.environ, **environment})
    screen = Console(master, pid)
    try:
        yield screen
    finally:
        screen.close()


@contextmanager
def job(
    argv: Sequence[str], environment: Mapping[str, str], place: str = "fg"
) -> Iterator[Console]:
    """Run a program under a shell with job control, on a new terminal."""
    shell = [sys.executable, "-c", JOB_SHELL, place]
    with console([*shell, *argv], environment) as screen:
        yield screen
