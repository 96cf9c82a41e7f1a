"""Places on real SQL servers. They are started once for each test process, and emptied for each
test."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.lab.servers.pgbouncer import PgBouncer
from holdfast.lab.servers.postgres import PostgresServer

from .place import Place

TABLES = ("holdfast_leases", "holdfast_cells")


class PostgresPlace(Place):
    """A server without the tables: whoever comes first makes them."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self.server, self.url = server, url
        for table in TABLES:
            server.query(f"DROP TABLE IF EXISTS {table}")

    def untouched(self) -> bool:
        return not self._connections() and not self._rows()

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
        return [f"{self._connections()} connections", *self._rows()]

    def _connections(self) -> int:
        """How many sockets are connected to the port of the URL: our servers have it alone."""
        port = f":{urlsplit(self.url).port:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(remote.endswith(port) and state == "01" for _, _, remote, state, *_ in lines)

    def _rows(self) -> list[str]:
        found = "SELECT to_regclass(%s) IS NOT NULL"
        there = [table for table in TABLES if self.server.query(found, (table,)) == [(True,)]]
        rows = [f"{t}: {self.server.query(f'SELECT count(*) FROM {t}')}" for t in there]
        if TABLES[0] in there:
            rows += [f"queues: {self.server.query(f'SELECT DISTINCT queue FROM {TABLES[0]}')}"]
        return rows


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
