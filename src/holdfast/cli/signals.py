"""Signals to holdfast: they end the wait for the lock, and are forwarded once the command runs.

The operating system's handler writes each signal's number into a pipe (`set_wakeup_fd`), so one
`poll` waits for signals, for the end of the command (SIGCHLD) and for anything else that wakes.

Then the controlling terminal: which group is in its foreground, and lending it to the command. Only
the foreground group may read from a terminal; any other is stopped by its first read. A shell made
holdfast's own group the foreground one, so holdfast hands it on to the command's group, and takes
it back when the command is over or suspended.
"""

from __future__ import annotations

import math
import os
import select
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

TERMINAL_STOPS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})

# Not forwarded: they cannot be caught, report a fault in holdfast, or are about its own input and
# output.
_OURS = frozenset(
    {
        *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD),
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP),
        *(signal.SIGSYS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTIN, signal.SIGTTOU),
    }
)
FORWARDED = frozenset(signal.valid_signals()) - _OURS
ENDING = FORWARDED - {signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGTSTP}
"""Those that end a process which does not handle them."""

_NO_SIGNAL = 0
_LONGEST_WAIT = 3600.0


@contextmanager
def all_signals_blocked() -> Iterator[set[signal.Signals]]:
    """Block all signals, also in threads and processes started within. Yields the old mask."""
    mask: set[signal.Signals] = signal.pthread_sigmask(  # type: ignore[assignment]
        signal.SIG_BLOCK, signal.valid_signals()
    )
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Signals:
    """Receives every signal that the command should get. A signal found ignored stays ignored."""

    def __init__(self) -> None:
        self._continued = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self._handle)
        for signum in FORWARDED - {signal.SIGTSTP}:
            self._catch(signum)

    def __enter__(self) -> Signals:
        return self

    def __exit__(self, *exc: object) -> None:
        # A second Ctrl-C must not change how holdfast ends. Python removes its own handlers before
        # it exits, so these signals are ignored instead.
        for signum in ENDING:
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        writer, self._writer = self._writer, -1
        os.close(writer)
        os.close(self._reader)

    @contextmanager
    def catching_stops(self) -> Iterator[None]:
        """Forward Ctrl-Z to the command within; else it stops holdfast."""
        handler = signal.getsignal(signal.SIGTSTP)
        self._catch(signal.SIGTSTP)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, handler)

    def received(self) -> list[int]:
        """The signals since the last call, in order; SIGCHLD and wakes are not among them."""
        numbers: list[int] = []
        while chunk := self._read():
            numbers.extend(chunk)
        return [n for n in numbers if n in FORWARDED]

    def ending(self) -> int | None:
        """The first signal since the last call that would have ended a process, if any."""
        return next((n for n in self.received() if n in ENDING), None)

    def wait(self, seconds: float) -> None:
        """Sleep until a signal, a change of the command, a `wake`, or the timeout."""
        self._poll.poll(math.ceil(1000 * min(max(0.0, seconds), _LONGEST_WAIT)))

    def wake(self) -> None:
        """End the present or the next `wait`; from any thread."""
        with suppress(OSError):  # a full pipe wakes as well; after closing nothing waits
            os.write(self._writer, bytes([_NO_SIGNAL]))

    def stop_holdfast(self, signum: int) -> bool:
        """Suspend holdfast's whole group. True: it was suspended, and has been continued.

        False: the group is orphaned, and the kernel suspends no such group. SIGCONT must be handled
        by this thread for that, so all other threads are started with signals blocked.
        """
        handler = signal.signal(signum, signal.SIG_DFL)
        self._continued = False
        os.kill(0, signum)
        signal.signal(signum, handler)
        return self._continued

    def _catch(self, signum: int) -> None:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, self._handle)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGCONT:
            self._continued = True

    def _read(self) -> bytes:
        try:
            return os.read(self._reader, 4096)
        except BlockingIOError:
            return b""


class Terminal:
    """The terminal that holdfast was started from, if any; open until the process ends."""

    def __init__(self) -> None:
        self._fd: int | None = None
        with suppress(OSError):
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        self._to_lend = not _in_a_pipeline()
        # While the command has the terminal, holdfast is in the background: the kernel would stop
        # it for taking the terminal back, and with `stty tostop` for a message on stderr.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    @property
    def present(self) -> bool:
        return self._fd is not None

    def in_foreground(self) -> bool:
        return self._foreground() == os.getpgrp()

    def lent_to(self, group: int) -> bool:
        return self._foreground() == group

    def lend(self, group: int, *, asked: bool = False) -> None:
        """Make `group` the foreground, if holdfast is.

        In a pipeline (`holdfast run … | less`) the other programs need the terminal as well: there
        only once the command has asked for it.
        """
        self._to_lend = self._to_lend or asked
        if self._to_lend and self.in_foreground():
            self._set_foreground(group)

    def take_back(self, group: int) -> None:
        """Make holdfast the foreground again, if `group` has it."""
        if self.lent_to(group):
            self._set_foreground(os.getpgrp())

    def _foreground(self) -> int | None:
        if self._fd is None:
            return None
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:  # hung up
            return None

    def _set_foreground(self, group: int) -> None:
        if self._fd is not None:
            with suppress(OSError):  # hung up
                os.tcsetpgrp(self._fd, group)


def _in_a_pipeline() -> bool:
    """Whether holdfast's group may have other programs of a pipeline in it."""
    below_a_shell = os.getsid(0) != os.getpid()
    return below_a_shell and any(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (0, 1))
