"""Backends on real PostgreSQL servers, which are emptied for each test."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.equipment.servers.pgbouncer import PgBouncer
from tests.equipment.servers.postgres import PostgresServer

from .server import SqlBackend, started

TABLES = [
    "holdfast_leases",
    "holdfast_leases_waiters",
    "holdfast_leases_members",
    "holdfast_cells",
]


class PostgresBackend(SqlBackend):
    def for_each_table(self, statement: str) -> dict[str, list[tuple[Any, ...]]]:
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
    return started(PostgresServer())


@cache
def _pgbouncer() -> PgBouncer:
    return started(PgBouncer(started(PostgresServer())))
