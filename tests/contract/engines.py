"""The engines that the contract runs over. A new engine adds one entry to `ENGINES`, no more.

An engine makes a `Place` for each test: a fresh, empty store with its URL, and the few things that
a test does to a store from outside. What an engine cannot keep, it says in `cannot`, by the name
of a scenario (its function without `test_`) or of a need, each with the reason:

    processes   other processes can share the store
    outage      the store can be made unavailable for a while
    restart     the store can be stopped and started again
    cells       there are cells beside the locks
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .etcd_places import debian_place, wheel_place
from .lent_places import lent_mariadb_place, lent_postgres_place
from .mysql_places import mariadb_place, mysql_place
from .place import Place
from .redis_places import (
    cluster_place,
    getset_place,
    redlock_place,
    sentinel_place,
    single_place,
    valkey_place,
)
from .sql_places import pgbouncer_place, postgres_place
from .toy_places import ToyPlace
from .zookeeper_places import zookeeper_place

NEEDS = ("processes", "outage", "restart", "cells")

VARIANT = frozenset({"basic", "fences", "order", "store", "waiting"})
"""What `make test` plays on an engine whose code another one plays in full."""


@dataclass(frozen=True)
class Engine:
    """One engine under contract. `unit` is the shortest ttl that a busy machine can keep."""

    name: str
    place: Callable[[Path], Place]
    unit: float = 0.5
    cannot: Mapping[str, str] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    """The parts of the contract that `make test` plays on it; none: all."""
    plays_core: bool = False
    """Whether `make test` plays on it what depends on the core alone: `pytest.mark.core`."""
    both: bool = False
    """Whether `make test` plays each scenario sync and async on it, and not by turns."""
    server: str = ""
    """What is slow to start: scenarios with the same one go to the same test process."""

    def plays(self, part: str, core: bool) -> bool:
        """Whether `make test` plays on it a scenario of this part of the contract: a module without
        `test_`. `make contract` plays everything."""
        return (self.plays_core or not core) and (not self.only or part in self.only)

    def refusal(self, scenario: str, needs: tuple[str, ...]) -> str | None:
        """Why this engine does not run a scenario, or None: it does."""
        for thing in (scenario, *needs):
            if thing in self.cannot:
                return f"{self.name}: {self.cannot[thing]}"
        return None


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
        plays_core=True,
        both=True,
        cannot={
            "processes": "it lives in one process",
            "outage": "a dictionary always answers",
            "restart": "it ends with its process",
        },
    ),
    Engine("sqlite", SqlitePlace, plays_core=True),
    Engine("postgres", postgres_place, server="postgres"),
    Engine("pgbouncer", pgbouncer_place, server="postgres", only=VARIANT),
    Engine("mariadb", mariadb_place, server="mariadb"),
    Engine("mysql", mysql_place, server="mariadb", only=VARIANT),  # its statements, on MariaDB
    Engine(
        "lent postgres",  # by a user's own pool
        lent_postgres_place,
        server="postgres",
        only=VARIANT,
    ),
    Engine(
        "lent mariadb",
        lent_mariadb_place,
        server="mariadb",
        only=VARIANT,
    ),
    Engine("redis", single_place, both=True),
    Engine("valkey", valkey_place, only=VARIANT),
    Engine(
        "redlock",
        redlock_place,
        unit=1.0,
        cannot={"cells": "its nodes are independent"},
    ),
    Engine(
        "sentinel",
        sentinel_place,
        server="sentinel",
        only=VARIANT,
        cannot={
            "trying_once_says_that_nobody_answered": "to look for another master, it closes the "
            "connection to a silent one, so a late request is undone a moment after it is done"
        },
    ),
    Engine("cluster", cluster_place, server="cluster", only=VARIANT | {"cells"}),
    Engine(
        "getset",
        getset_place,
        only=VARIANT,
        cannot={"cells": "it is for the locks of old clients"},
    ),
    Engine("etcd", wheel_place, unit=1.0, server="etcd"),
    Engine("etcd 3.4", debian_place, unit=1.0, server="etcd 3.4", only=VARIANT),
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
        },
    ),
)
