"""How a process on the same host is woken: it listens at a named pipe beside the database file.

A bell is called by writing a holder id into its pipe. One that nobody listens at any more (its
process died) cannot be opened for writing, which is how a dead waiter is told from a living one.
"""

import errno
import os
import stat
import threading
import time
from contextlib import suppress
from glob import escape
from pathlib import Path

from holdfast.core.ports import Notify

INFIX = "-bell-"
UNNAMED = ".new"
FORGOTTEN = 60.0
"""Seconds after which a pipe that never got its name belongs to nobody."""


class Bell:
    """A named pipe, and the thread that listens at it."""

    def __init__(self, database: Path, notify: Notify) -> None:
        """Make the pipe. It gets its name once somebody listens, or it would be taken for dead."""
        self.name = os.urandom(8).hex()
        self._path = _path(database, self.name)
        self._notify = notify
        unnamed = self._path.with_name(self._path.name + UNNAMED)
        os.mkfifo(unnamed, 0o600)
        try:
            self._reading = os.open(unnamed, os.O_RDONLY | os.O_NONBLOCK)
            self._writing = os.open(unnamed, os.O_WRONLY)  # ours, or reading would end by itself
            os.set_blocking(self._reading, True)
            os.chmod(unnamed, stat.S_IMODE(database.stat().st_mode) & 0o666)
            os.rename(unnamed, self._path)
        except OSError:
            unnamed.unlink(missing_ok=True)
            raise
        self._listener = threading.Thread(target=self._listen, name="holdfast-bell", daemon=True)
        self._listener.start()

    def close(self) -> None:
        """Stop listening and take the pipe away."""
        self._path.unlink(missing_ok=True)
        os.write(self._writing, b"\n")
        if self._listener is not threading.current_thread():
            self._listener.join()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipe, and nothing else."""
        os.close(self._reading)
        os.close(self._writing)

    def _listen(self) -> None:
        rest = b""
        while True:
            *lines, rest = (rest + os.read(self._reading, 65536)).split(b"\n")
            for line in lines:
                if not line:
                    return
                self._notify(line.decode(errors="replace"))


def call(database: Path, name: str, holder: str) -> bool:
    """Wake `holder`, who listens at that bell; False if nobody listens there any more.

    True also if that cannot be told: then an offer lapses, and whoever waits behind moves it on.
    """
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
    except OSError:  # not ours to open, no descriptor left, or full: then it has plenty to wake for
        return True
    return True


def is_alive(database: Path, name: str) -> bool:
    """Whether anybody listens at that bell, as far as that can be told."""
    try:
        pipe = _open(_path(database, name))
    except OSError:
        return True
    if pipe is not None:
        os.close(pipe)
    return pipe is not None


def sweep(database: Path) -> None:
    """Take away the bells of processes that died."""
    prefix = database.name + INFIX
    for path in database.parent.glob(escape(prefix) + "*"):
        if path.suffix != UNNAMED or _age(path) > FORGOTTEN:
            is_alive(database, path.name.removeprefix(prefix))


def _open(path: Path) -> int | None:
    """Open a bell for calling; None, and it is taken away, if nobody listens there."""
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
