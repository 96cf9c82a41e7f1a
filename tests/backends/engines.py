"""The engines that the contract runs over here. A new engine adds one entry to `ENGINES`."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.contract import Backend, EngineUnderTest

from .etcd import debian_backend, wheel_backend
from .mysql import mariadb_backend, mysql_backend
from .redis import (
    cluster_backend,
    getset_backend,
    redlock_backend,
    sentinel_backend,
    single_backend,
    valkey_backend,
)
from .sql import pgbouncer_backend, postgres_backend
from .toy import ToyBackend
from .zookeeper import zookeeper_backend

VARIANT = frozenset({"basic", "fences", "order", "store", "waiting"})
"""What `make test` plays on the variants of an engine, by turns."""

OLD_CLIENTS = "it is for the locks of old clients"


class MemoryBackend(Backend):
    """A space of its own within this process."""

    _numbers = itertools.count()

    def __init__(self, folder: Path) -> None:
        self.url = f"memory://contract-{next(self._numbers)}"


class SqliteBackend(Backend):
    """A file alone in its folder, so that whatever else appears there was left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "store"
        self.folder.mkdir()
        self.path = self.folder / "locks.db"
        self.url = f"sqlite://{self.path}"

    def untouched(self) -> bool:
        return not any(self.folder.iterdir())

    @contextmanager
    def outage(self) -> Iterator[None]:
        with self._connection() as blocker:
            blocker.execute("BEGIN EXCLUSIVE")
            try:
                yield
            finally:
                blocker.execute("ROLLBACK")

    def restart(self) -> None:
        # What a backup would restore, in a new file: nothing but the rows comes back.
        copy = self.path.with_suffix(".restored")
        with self._connection() as db:
            db.execute("VACUUM INTO ?", (str(copy),))
        with closing(sqlite3.connect(copy, isolation_level=None)) as restored:
            restored.execute("PRAGMA journal_mode = WAL")
        copy.replace(self.path)

    def residue(self) -> list[str]:
        files = sorted(path.name for path in self.folder.iterdir())
        with self._connection() as db:
            tables = [
                row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            count = 'SELECT count(*) FROM "{}"'
            rows = [f"{t}: {db.execute(count.format(t)).fetchone()[0]} rows" for t in tables]
        return files + sorted(rows)

    def _connection(self) -> closing[sqlite3.Connection]:
        return closing(
            sqlite3.connect(self.path, isolation_level=None, timeout=10, check_same_thread=False)
        )


ENGINES = (
    EngineUnderTest(
        "memory",
        MemoryBackend,
        quick=True,
        cannot={
            "processes": "it lives in one process",
            "outage": "a dictionary always answers",
            "restart": "it ends with its process",
        },
    ),
    EngineUnderTest("sqlite", SqliteBackend),
    EngineUnderTest("postgres", postgres_backend, server="postgres"),
    EngineUnderTest(
        "pgbouncer",
        pgbouncer_backend,
        server="postgres",
        variant_of="postgres",
        only=VARIANT,
    ),
    EngineUnderTest("mariadb", mariadb_backend, server="mariadb"),
    EngineUnderTest(
        "mysql",  # its statements, on MariaDB
        mysql_backend,
        server="mariadb",
        variant_of="mariadb",
        only=VARIANT,
    ),
    EngineUnderTest("redis", single_backend),
    EngineUnderTest("valkey", valkey_backend, variant_of="redis", only=VARIANT),
    EngineUnderTest(
        "redlock",
        redlock_backend,
        unit=1.0,
        cannot={
            "cells": "its nodes are independent",
            "order": "its nodes may wake different waiters",
            "slots": "majorities cannot count",
        },
    ),
    EngineUnderTest(
        "sentinel",
        sentinel_backend,
        server="sentinel",
        variant_of="redis",
        only=VARIANT,
        cannot={
            "trying_once_says_that_nobody_answered": "to look for another master, it closes the "
            "connection to a silent one, so a late request is undone a moment after it is done"
        },
    ),
    EngineUnderTest(
        "cluster",
        cluster_backend,
        server="cluster",
        variant_of="redis",
        only=VARIANT | {"cells", "shares"},
    ),
    EngineUnderTest(
        "getset",
        getset_backend,
        only=VARIANT,
        cannot={
            "order": "its waiters poll",
            "cells": OLD_CLIENTS,
            "shares": OLD_CLIENTS,
            "slots": OLD_CLIENTS,
        },
    ),
    EngineUnderTest("etcd", wheel_backend, unit=1.0, server="etcd"),
    EngineUnderTest(
        "etcd 3.4",
        debian_backend,
        unit=1.0,
        server="etcd 3.4",
        variant_of="etcd",
        only=VARIANT,
    ),
    EngineUnderTest(
        "zookeeper",
        zookeeper_backend,
        unit=1.0,
        server="zookeeper",
        cannot={
            "a_killed_waiter_blocks_nobody": "a dead waiter has its place until its session ends"
        },
    ),
    EngineUnderTest(
        "toy",  # that of docs/new-engine.md
        ToyBackend,
        only=VARIANT | {"cells", "inspection"},
        cannot={
            "processes": "it lives in one process",
            "outage": "a dictionary always answers",
            "restart": "it ends with its process",
            "order": "its waiters poll",
            "shares": "it grants each lock to one holder",
            "slots": "it grants each lock to one holder",
        },
    ),
)
