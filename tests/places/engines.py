"""The engines that the contract runs over here. A new engine adds one entry to `ENGINES`."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.contract import Engine, Place

from .etcd import debian_place, wheel_place
from .lent import lent_mariadb_place, lent_postgres_place
from .mysql import mariadb_place, mysql_place
from .redis import (
    cluster_place,
    getset_place,
    redlock_place,
    sentinel_place,
    single_place,
    valkey_place,
)
from .sql import pgbouncer_place, postgres_place
from .toy import ToyPlace
from .zookeeper import zookeeper_place

VARIANT = frozenset({"basic", "fences", "order", "store", "waiting"})
"""What `make test` plays on the variants of an engine, by turns."""

OLD_CLIENTS = "it is for the locks of old clients"


class MemoryPlace(Place):
    """A space of its own within this process."""

    _numbers = itertools.count()

    def __init__(self, folder: Path) -> None:
        self.url = f"memory://contract-{next(self._numbers)}"


class SqlitePlace(Place):
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
    Engine(
        "memory",
        MemoryPlace,
        quick=True,
        cannot={
            "processes": "it lives in one process",
            "outage": "a dictionary always answers",
            "restart": "it ends with its process",
        },
    ),
    Engine("sqlite", SqlitePlace),
    Engine("postgres", postgres_place, server="postgres"),
    Engine(
        "pgbouncer",
        pgbouncer_place,
        server="postgres",
        variant_of="postgres",
        only=VARIANT,
    ),
    Engine("mariadb", mariadb_place, server="mariadb"),
    Engine(
        "mysql",  # its statements, on MariaDB
        mysql_place,
        server="mariadb",
        variant_of="mariadb",
        only=VARIANT,
    ),
    Engine(
        "lent postgres",  # by a user's own pool
        lent_postgres_place,
        server="postgres",
        variant_of="postgres",
        only=VARIANT,
    ),
    Engine(
        "lent mariadb",
        lent_mariadb_place,
        server="mariadb",
        variant_of="mariadb",
        only=VARIANT,
    ),
    Engine("redis", single_place),
    Engine("valkey", valkey_place, variant_of="redis", only=VARIANT),
    Engine(
        "redlock",
        redlock_place,
        unit=1.0,
        cannot={
            "cells": "its nodes are independent",
            "order": "its nodes may wake different waiters",
            "slots": "majorities cannot count",
        },
    ),
    Engine(
        "sentinel",
        sentinel_place,
        server="sentinel",
        variant_of="redis",
        only=VARIANT,
        cannot={
            "trying_once_says_that_nobody_answered": "to look for another master, it closes the "
            "connection to a silent one, so a late request is undone a moment after it is done"
        },
    ),
    Engine(
        "cluster",
        cluster_place,
        server="cluster",
        variant_of="redis",
        only=VARIANT | {"cells", "shares"},
    ),
    Engine(
        "getset",
        getset_place,
        only=VARIANT,
        cannot={
            "order": "its waiters poll",
            "cells": OLD_CLIENTS,
            "shares": OLD_CLIENTS,
            "slots": OLD_CLIENTS,
        },
    ),
    Engine("etcd", wheel_place, unit=1.0, server="etcd"),
    Engine(
        "etcd 3.4",
        debian_place,
        unit=1.0,
        server="etcd 3.4",
        variant_of="etcd",
        only=VARIANT,
    ),
    Engine(
        "zookeeper",
        zookeeper_place,
        unit=1.0,
        server="zookeeper",
        cannot={
            "a_killed_waiter_blocks_nobody": "a dead waiter has its place until its session ends"
        },
    ),
    Engine(
        "toy",  # that of docs/new-engine.md
        ToyPlace,
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
