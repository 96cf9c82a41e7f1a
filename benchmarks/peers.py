"""What is measured on SQLite and in memory: the bare SQL, and locks of files, threads and tasks."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from math import ceil
from pathlib import Path
from urllib.parse import quote

from benchmarks.contenders import TTL, AsyncPair, Pair, pair_with
from holdfast.drivers.common import clock, new_holder
from holdfast.engines.sql.dialect import MICROSECONDS, Text
from holdfast.engines.sql.sqlite import commands as statements
from holdfast.engines.sql.sqlite.connection import boot_id, connect, relax


def sqlite_url(folder: Path, name: str = "locks") -> str:
    """A database in this folder."""
    return f"sqlite://{quote(str(folder / name))}.db"


class BareSql:
    """The statements that holdfast executes for an uncontended pair, by sqlite3 directly: the same
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
        _, values = text(
            key=key, holder="bare", shares=1, ttl=TTL * MICROSECONDS, now=now, boot=self.boot
        )
        cursor = self.connection.execute(text.sql, values)
        assert cursor.fetchall() or cursor.rowcount == 1

    def pair(self, key: str = "holdfast:bench") -> Pair:
        execute, boot = self.connection.execute, self.boot
        ttl = TTL * MICROSECONDS
        acquire, release = statements.ACQUIRE, statements.RELEASE

        def acquire_and_release() -> None:
            holder = new_holder()  # as every holder needs one
            now = ceil(clock() * MICROSECONDS)
            taking = {
                "key": key,
                "holder": holder,
                "shares": 1,
                "ttl": ttl,
                "now": now,
                "boot": boot,
            }
            ((_fence, *_),) = execute(acquire, taking).fetchall()
            now = ceil(clock() * MICROSECONDS)
            releasing = {"key": key, "holder": holder, "now": now, "boot": boot}
            assert execute(release, releasing).rowcount == 1

        return acquire_and_release


def bare_sql(folder: Path, stack: ExitStack) -> Pair:
    bare = BareSql(folder)
    stack.callback(bare.close)
    return bare.pair()


def file_lock(folder: Path, stack: ExitStack) -> Pair:
    from filelock import FileLock

    return pair_with(FileLock(folder / "filelock.lock"))


def thread_lock(stack: ExitStack) -> Pair:
    return pair_with(threading.Lock())


async def task_lock(stack: AsyncExitStack) -> Sequence[AsyncPair]:
    lock = asyncio.Lock()

    async def acquire_and_release() -> None:
        await lock.acquire()
        lock.release()

    return [acquire_and_release]
