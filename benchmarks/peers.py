"""What is measured: an acquire and a release, by holdfast and by its peers."""

import importlib
import threading
import warnings
from collections.abc import Awaitable, Callable
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import quote

from filelock import FileLock

from benchmarks.measure import Target, Values, faster
from holdfast.drivers.surroundings import clock, new_holder
from holdfast.engines.sql.scripts import MICROSECONDS, Text
from holdfast.engines.sql.sqlite import statements
from holdfast.engines.sql.sqlite.file import boot_id, connect, relax

Pair = Callable[[], object]
"""Acquires and releases, once."""

AsyncPair = Callable[[], Awaitable[object]]
"""The same for a task."""

TTL = 30


def find(module: str) -> Any:
    """A peer's module; None if it is not installed, or does not run on this Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what will go from Python: that is theirs to see to
        try:
            return importlib.import_module(module)
        except ImportError:
            return None


def not_slower(values: Values, peer: str) -> Target:
    """A promise: at least as fast as a peer, which may not be installed here."""
    if peer in values:
        return faster(values, "holdfast", peer, 1.0)
    return Target(f"holdfast: at least 1 times as fast as {peer}", "it is not installed", None)


def sqlite_url(folder: Path, name: str = "locks") -> str:
    """A database in this folder."""
    return f"sqlite://{quote(str(folder / name))}.db"


class BareSql:
    """The statements that holdfast says for an uncontended pair, said to sqlite3 directly: the same
    file set-up, the same texts, the same parameters, nothing else."""

    def __init__(self, folder: Path) -> None:
        self.connection = connect(folder / "bare.db")
        self.boot = boot_id()
        self.connection.executescript(statements.SCHEMA)
        self.connection.execute(
            statements.FIRST_USE, {"version": statements.VERSION, "boot": self.boot}
        )
        relax(self.connection)

    def close(self) -> None:
        self.connection.close()

    def take(self, key: str) -> None:
        self._run(statements.DIALECT.acquire, key)

    def extend(self, keys: list[str]) -> None:
        """In one transaction."""
        self.connection.execute("BEGIN IMMEDIATE")
        for key in keys:
            self._run(statements.DIALECT.extend, key)
        self.connection.execute("COMMIT")

    def _run(self, text: Text, key: str) -> None:
        now = ceil(clock() * MICROSECONDS)
        statement = text(key, "bare", TTL * MICROSECONDS, now, self.boot)
        ((_done,),) = self.connection.execute(*statement).fetchall()

    def pair(self, key: str = "holdfast:bench") -> Pair:
        execute, boot = self.connection.execute, self.boot
        ttl = TTL * MICROSECONDS
        # Plain tuples below: to put values into their places is not the database's work.
        acquire, places = statements.DIALECT.acquire("key", "holder", "ttl", "now", "boot")
        assert places == ("key", "holder", "ttl", "now", "ttl", "boot")
        release, places = statements.DIALECT.release("key", "holder", "now", "boot")
        assert places == ("now", "boot", "key", "holder")

        def acquire_and_release() -> None:
            holder = new_holder()  # as anybody must who does not want to be taken for another
            now = ceil(clock() * MICROSECONDS)
            ((_fence,),) = execute(acquire, (key, holder, ttl, now, ttl, boot)).fetchall()
            now = ceil(clock() * MICROSECONDS)
            ((_done,),) = execute(release, (now, boot, key, holder)).fetchall()

        return acquire_and_release


def file_lock_pair(folder: Path) -> Pair:
    lock = FileLock(folder / "filelock.lock")

    def acquire_and_release() -> None:
        lock.acquire()
        lock.release()

    return acquire_and_release


def thread_lock_pair() -> Pair:
    lock = threading.Lock()

    def acquire_and_release() -> None:
        lock.acquire()
        lock.release()

    return acquire_and_release
