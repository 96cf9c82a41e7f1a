"""The controlling terminal: which group is in its foreground, and lending it to the command.

Only the foreground group may read from a terminal; any other is stopped by its first read. A shell
made holdfast's own group the foreground one, so holdfast hands it on to the command's group, and
takes it back when the command is over or suspended.
"""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress


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
