"""How a waiter of any process on the host is woken: its client listens at a named pipe beside the
database file.

A waiter is woken by a line in the pipe: its holder id. A pipe that is not read any more (its
process died) cannot be opened for writing. That shows that the waiter is dead.
"""

import errno
import os
import stat
import threading
import time
from contextlib import suppress
from glob import escape
from pathlib import Path

from holdfast.core.ports import Clock, Notify
from holdfast.engines.sql.connection import wait_for
from holdfast.engines.sql.waiters import Waiters

INFIX = "-wakeup-"
ABANDONED = 60.0
"""Seconds after which a pipe that is not read is removed. A young one may be about to be read."""


class PipeWaiters(Waiters):
    """The waiters of one client. The first of them makes the pipe."""

    def __init__(self, database: Path, clock: Clock, notify: Notify) -> None:
        super().__init__(clock, notify)
        self._database = database
        self._pipe: Pipe | None = None

    def listener(self) -> tuple[str, int]:
        """The pipe's name; '' where there is none, or no thread to read it: then waiters poll."""
        with suppress(OSError, RuntimeError):
            if self._pipe is None:
                self._pipe = Pipe(self._database, self._notify)
            self._pipe.listen()
            return self._pipe.name, 0
        return "", 0

    def wake(self, holder: str, listener: str) -> bool:
        """Wake a waiter of any process; False if its process died."""
        return wake(self._database, listener, holder)

    def close(self) -> None:
        """Stop listening. Of two threads that close, one has the pipe."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()

    def forget(self) -> None:
        """In a forked child: the pipe is the parent's."""
        if self._pipe is not None:
            self._pipe.forget()
            self._pipe = None
        super().forget()


class Pipe:
    """A named pipe, and the thread that reads it."""

    def __init__(self, database: Path, notify: Notify) -> None:
        self.name = os.urandom(8).hex()
        self._path = Path(_path(database, self.name))
        self._notify = notify
        self._thread: threading.Thread | None = None
        self._ends: list[int] = []
        """To read from, and to write to, or reading would end by itself."""
        try:
            os.mkfifo(self._path, 0o600)
            self._ends.append(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK))
            self._ends.append(os.open(self._path, os.O_WRONLY))
            os.chmod(self._path, stat.S_IMODE(database.stat().st_mode) & 0o666)
        except BaseException:
            self.close()
            raise

    def listen(self) -> None:
        """Start the thread that reads, unless it runs: an interruption may have come before."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._listen, name="holdfast-listener", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Stop listening and remove the pipe."""
        thread, self._thread = self._thread, None
        self._path.unlink(missing_ok=True)
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            os.write(self._ends[1], b"\n")
            thread.join()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipe, and nothing else."""
        while self._ends:
            os.close(self._ends.pop())

    def _listen(self) -> None:
        rest = b""
        while self._thread is threading.current_thread():
            reading = self._ends[0]
            wait_for([reading])  # a read that blocks would stop all greenlets
            with suppress(BlockingIOError):
                rest += os.read(reading, 65536)
            *lines, rest = rest.split(b"\n")
            for line in lines:
                self._notify(line.decode(errors="replace"))


def wake(database: Path, name: str, line: str) -> bool:
    """Write a line to the client that reads that pipe; False if it does not any more. True also if
    that is unknown: then an offer lapses, and the next waiter moves it on."""
    try:
        pipe = _open(_path(database, name))
        if pipe is None:
            return False
        try:
            os.write(pipe, line.encode() + b"\n")
        finally:
            os.close(pipe)
    except BrokenPipeError:
        return False
    except OSError:  # not ours to open, no descriptor left, or full: then it has plenty to read
        return True
    return True


def is_alive(database: Path, name: str) -> bool:
    """Whether that pipe is read; True if that is unknown."""
    try:
        pipe = _open(_path(database, name))
    except OSError:
        return True
    if pipe is not None:
        os.close(pipe)
    return pipe is not None


def sweep(database: Path) -> None:
    """Remove the pipes of processes that died."""
    prefix = database.name + INFIX
    for path in database.parent.glob(escape(prefix) + "*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - ABANDONED:
                is_alive(database, path.name.removeprefix(prefix))


def _open(path: str) -> int | None:
    """Open a pipe for writing; None, and it is removed, if it is not read."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        with suppress(OSError):  # it may be another user's
            os.unlink(path)
        return None


def _path(database: Path, name: str) -> str:
    return f"{database}{INFIX}{name}"
