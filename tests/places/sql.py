"""Places on real SQL servers. They are started once for each test process, and emptied for each
test."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tests.contract import Place
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.equipment.servers.postgres import PostgresServer

TABLES = [
    "holdfast_leases",
    "holdfast_leases_waiters",
    "holdfast_leases_members",
    "holdfast_cells",
]


class PostgresPlace(Place):
    """A server with nothing in the tables. The first test finds none at all."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self.server, self.url = server, url
        for table in self._tables():
            server.query(f"DELETE FROM {table}")

    def untouched(self) -> bool:
        return not self._connections() and not any(self._rows().values())

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
        return [f"{self._connections()} connections", *rows]

    def _connections(self) -> int:
        """How many sockets are connected to the port of the URL: our servers have it alone."""
        port = f":{urlsplit(self.url).port:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(remote.endswith(port) and state == "01" for _, _, remote, state, *_ in lines)

    def _tables(self) -> list[str]:
        found = self.server.query(
            "SELECT tablename FROM pg_tables WHERE tablename = ANY(%s)", (TABLES,)
        )
        return [table for (table,) in found]

    def _rows(self) -> dict[str, int]:
        return {t: self.server.query(f"SELECT count(*) FROM {t}")[0][0] for t in self._tables()}


def postgres_place(folder: Path) -> PostgresPlace:
    server = _postgres()
    return PostgresPlace(server, server.url)


def pgbouncer_place(folder: Path) -> PostgresPlace:
    pooler = _pgbouncer()
    return PostgresPlace(pooler.server, pooler.url)


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
