"""How a waiter of any process on the host is woken: its client listens at a named pipe beside the
database file.

A waiter is woken by writing its holder id into the pipe. A pipe that is not read any more (its
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

INFIX = "-bell-"
UNNAMED = ".new"
ABANDONED = 60.0
"""Seconds after which a pipe that never got its name is removed."""


class PipeWaiters(Waiters):
    """The waiters of one client. The first of them makes the pipe."""

    def __init__(self, database: Path, clock: Clock, notify: Notify) -> None:
        super().__init__(clock, notify)
        self._database = database
        self._pipe: Pipe | None = None

    def listener(self) -> tuple[str, int]:
        """The pipe's name; where none can be made it is '', and waiters poll."""
        if self._pipe is None and hasattr(os, "mkfifo"):
            with suppress(OSError):
                self._pipe = Pipe(self._database, self._notify)
        return ("" if self._pipe is None else self._pipe.name), 0

    def wake(self, listener: str, holder: str) -> bool:
        """Wake a waiter of any process; False if its process died."""
        return wake(self._database, listener, holder)

    def close(self) -> None:
        """Stop listening."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def forget(self) -> None:
        """In a forked child: the pipe is the parent's."""
        if self._pipe is not None:
            self._pipe.forget()
            self._pipe = None
        super().forget()


class Pipe:
    """A named pipe, and the thread that reads it."""

    def __init__(self, database: Path, notify: Notify) -> None:
        """Make the pipe. It gets its name once it is read, or it would be taken for dead."""
        self.name = os.urandom(8).hex()
        self._path = _path(database, self.name)
        self._notify = notify
        unnamed = self._path.with_name(self._path.name + UNNAMED)
        os.mkfifo(unnamed, 0o600)
        try:
            self._reading = os.open(unnamed, os.O_RDONLY | os.O_NONBLOCK)
            self._writing = os.open(unnamed, os.O_WRONLY)  # ours, or reading would end by itself
            os.chmod(unnamed, stat.S_IMODE(database.stat().st_mode) & 0o666)
            os.rename(unnamed, self._path)
        except OSError:
            unnamed.unlink(missing_ok=True)
            raise
        self._thread = threading.Thread(target=self._listen, name="holdfast-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and remove the pipe."""
        self._path.unlink(missing_ok=True)
        os.write(self._writing, b"\n")
        if self._thread is not threading.current_thread():
            self._thread.join()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipe, and nothing else."""
        os.close(self._reading)
        os.close(self._writing)

    def _listen(self) -> None:
        rest = b""
        while True:
            wait_for([self._reading])  # to block in a read would stop all greenlets under gevent
            with suppress(BlockingIOError):
                rest += os.read(self._reading, 65536)
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if not line:
                    return
                self._notify(line.decode(errors="replace"))


def wake(database: Path, name: str, holder: str) -> bool:
    """Wake `holder`, whose client reads that pipe; False if it does not any more. True also if that
    is unknown: then an offer lapses, and the next waiter moves it on."""
    try:
        pipe = _open(_path(database, name))
        if pipe is None:
            return False
        try:
            os.write(pipe, holder.encode() + b"\n")
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
        if path.suffix != UNNAMED or _age(path) > ABANDONED:
            is_alive(database, path.name.removeprefix(prefix))


def _open(path: Path) -> int | None:
    """Open a pipe for writing; None, and it is removed, if it is not read."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        with suppress(OSError):  # it may be another user's
            path.unlink()
        return None


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _path(database: Path, name: str) -> Path:
    return database.with_name(database.name + INFIX + name)
