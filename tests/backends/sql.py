"""Backends on real SQL servers. They are started once for each test process, and emptied for each
test."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.contract import Backend
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.equipment.servers.postgres import PostgresServer

from .sockets import connections_to

TABLES = [
    "holdfast_leases",
    "holdfast_leases_waiters",
    "holdfast_leases_members",
    "holdfast_cells",
]


class PostgresBackend(Backend):
    """A server with nothing in the tables. The first test finds none at all."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self.server, self.url = server, url
        self._for_each_table("DELETE FROM {}")

    def untouched(self) -> bool:
        return not connections_to(self.url) and not any(self._rows().values())

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.server.freeze()
        try:
            yield
        finally:
            self.server.thaw()

    def restart(self) -> None:
        self.server.restart()

    def residue(self) -> list[str]:
        rows = [f"{table}: {count} rows" for table, count in self._rows().items()]
        return [f"{connections_to(self.url)} connections", *rows]

    def _rows(self) -> dict[str, int]:
        counted = self._for_each_table("SELECT count(*) FROM {}")
        return {table: count for table, [(count,)] in counted.items()}

    def _for_each_table(self, statement: str) -> dict[str, list[tuple[Any, ...]]]:
        """On one connection: to connect costs the server more than all that is said."""
        with self.server.connection() as connection:
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE tablename = ANY(%s)", (TABLES,)
            )
            cursors = {t: connection.execute(statement.format(t).encode()) for (t,) in found}
            return {t: each.fetchall() if each.description else [] for t, each in cursors.items()}


def postgres_backend(folder: Path) -> PostgresBackend:
    server = _postgres()
    return PostgresBackend(server, server.url)


def pgbouncer_backend(folder: Path) -> PostgresBackend:
    pooler = _pgbouncer()
    return PostgresBackend(pooler.server, pooler.url)


@cache
def _postgres() -> PostgresServer:
    server = PostgresServer().start()
    atexit.register(server.close)
    return server


@cache
def _pgbouncer() -> PgBouncer:
    server = PostgresServer().start()
    atexit.register(server.close)
    pooler = PgBouncer(server).start()
    atexit.register(pooler.close)
    return pooler
