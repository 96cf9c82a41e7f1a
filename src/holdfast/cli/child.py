"""The command's process, its process group, and the watchdog that ends both with holdfast.

1. The process is forked before holdfast has a thread, and waits at a gate (a pipe). Forking a
   threaded process can deadlock, and a process that already exists misses no signal.
2. `start` opens the gate: the process executes the command. If the gate closes unopened, because
   holdfast gave up or died, the process exits.
3. Signals are blocked at the gate. One that arrives there acts on the command once it runs.
4. The process leads a process group of its own, and every signal goes to that group.
5. When holdfast dies, even by SIGKILL, the kernel kills the command (Linux) and the watchdog kills
   its group: what the command has started must not outlive the lease.
"""

from __future__ import annotations

import errno
import mmap
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from holdfast.cli import console
from holdfast.cli.signals import all_signals_blocked

_OPEN = b"open"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Stopped:
    """The command is suspended, by this signal."""

    signum: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The command has ended. `code` is its exit code; -n: signal n ended it."""

    code: int


class Child:
    """A process that waits to execute `argv`. Create it before any thread."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        holdfast = os.getpid()
        gate, self._gate = os.pipe()
        self._executed = mmap.mmap(-1, 1)  # memory that is shared with the process
        with all_signals_blocked() as mask:
            self.pid = os.fork()
            if self.pid == 0:
                os.close(self._gate)
                _wait_at_gate(argv, gate, self._executed, mask, holdfast)
            os.close(gate)
            os.setpgid(self.pid, self.pid)  # in both processes, since either may be first
            lifeline, self._lifeline = os.pipe()
            self._watchdog = os.fork()
            if self._watchdog == 0:
                os.close(self._gate)
                os.close(self._lifeline)
                _watch(lifeline, self.pid)
            os.close(lifeline)
        self._ended: Ended | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self, environment: Mapping[str, str]) -> None:
        """Execute the command, with these variables added to holdfast's environment."""
        pairs = (os.fsencode(f"{key}={value}\0") for key, value in environment.items())
        message = memoryview(b"".join(pairs) + _OPEN)
        with suppress(BrokenPipeError):  # it was killed at the gate: `poll` reports that
            while message:
                message = message[os.write(self._gate, message) :]
        os.close(self._gate)
        self._gate = -1

    @property
    def executed(self) -> bool:
        """Whether the command was executed. To be asked when the process has ended."""
        return bool(self._executed[0])

    def send(self, signum: int) -> bool:
        """Send `signum` to the command's group.

        False if that is not permitted, as with a command that has changed its user.
        """
        try:
            os.killpg(self.pid, signum)
        except ProcessLookupError:
            pass
        except PermissionError:
            return False
        return True

    def poll(self) -> Ended | Stopped | None:
        """Whether the command has ended or was stopped; None: neither."""
        if self._ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return None
            if os.WIFSTOPPED(status):
                return Stopped(os.WSTOPSIG(status))
            self._ended = Ended(os.waitstatus_to_exitcode(status))
        return self._ended

    def group_lives(self) -> bool:
        """Whether any process of the group still exists."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def close(self) -> None:
        """Kill the command if it still runs. Leaves no process and no descriptor."""
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1
        if self._ended is None:
            self.send(signal.SIGKILL)
            self._ended = Ended(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))
        if self._lifeline >= 0:
            os.kill(self._watchdog, signal.SIGKILL)
            os.waitpid(self._watchdog, 0)
            os.close(self._lifeline)
            self._lifeline = -1


def _wait_at_gate(
    argv: tuple[str, ...], gate: int, executed: mmap.mmap, mask: set[signal.Signals], holdfast: int
) -> NoReturn:
    """The forked process: wait until the gate opens, then execute the command."""
    code = console.NOT_EXECUTABLE
    try:
        os.setpgid(0, 0)
        die_with(holdfast)
        *pairs, last = _read_all(gate).split(b"\0")
        if last != _OPEN:
            os._exit(0)
        environment = dict(os.environb)
        for pair in pairs:
            key, _, value = pair.partition(b"=")
            environment[key] = value
        _restore_signals(mask)
        executed[0] = True
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - that is the purpose
    except BaseException as error:  # noqa: BLE001 - must not return into holdfast
        executed[0] = False
        if isinstance(error, FileNotFoundError):
            code = console.NOT_FOUND
        _complain(argv[0], error)
    finally:
        os._exit(code)


def die_with(holdfast: int) -> None:
    """Have the kernel kill this process when holdfast's main thread ends (Linux only)."""
    if sys.platform != "linux":
        return
    with suppress(ImportError):  # a Python without it has the watchdog still
        import ctypes  # here, not above: only this process pays for it

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != holdfast:  # it died before we could ask
        os._exit(0)


def _restore_signals(mask: set[signal.Signals]) -> None:
    """Restore the signal handlers that holdfast was started with: what was ignored stays so."""
    for signum in signal.valid_signals():
        if callable(signal.getsignal(signum)):
            signal.signal(signum, signal.SIG_DFL)
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python itself, at its start
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _complain(command: str, error: BaseException) -> None:
    reason = error.strerror if isinstance(error, OSError) else repr(error)
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        reason = f"{reason}; a script needs a first line such as #!/bin/sh"
    with suppress(OSError):
        os.write(2, f"holdfast: cannot run {command!r}: {reason}\n".encode(errors="replace"))


def _watch(lifeline: int, group: int) -> NoReturn:
    """The watchdog: when holdfast dies its end of the lifeline closes; then kill the group."""
    try:
        os.setpgid(0, 0)  # a kill of holdfast's own group must not take the watchdog along
        _read_all(lifeline)
        os.killpg(group, signal.SIGKILL)
    finally:
        os._exit(0)


def _read_all(descriptor: int) -> bytes:
    chunks = []
    while chunk := os.read(descriptor, 65536):
        chunks.append(chunk)
    return b"".join(chunks)
