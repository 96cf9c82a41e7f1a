"""Places on a real MariaDB server, which is started once for each test process."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from holdfast.lab.servers.mariadb import USER, MariaDbServer

from .place import Place
from .sockets import connections_to

TABLES = ("holdfast_leases", "holdfast_cells")


class MariaDbPlace(Place):
    """A server without the tables: whoever comes first makes them."""

    def __init__(self, server: MariaDbServer, scheme: str) -> None:
        self.server, self.url = server, server.url_for(USER, scheme)
        server.query(f"DROP TABLE IF EXISTS {', '.join(TABLES)}")

    def untouched(self) -> bool:
        return not connections_to(self.url) and not self._rows()

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
        return [f"{connections_to(self.url)} connections", *self._rows()]

    def _rows(self) -> list[str]:
        there = [table for (table,) in self.server.query("SHOW TABLES")]
        return [f"{t}: {self.server.query(f'SELECT COUNT(*) FROM {t}')}" for t in there]


def mariadb_place(folder: Path) -> MariaDbPlace:
    return MariaDbPlace(_mariadb(), "mariadb")


def mysql_place(folder: Path) -> MariaDbPlace:
    return MariaDbPlace(_mariadb(), "mysql")


@cache
def _mariadb() -> MariaDbServer:
    server = MariaDbServer().start()
    atexit.register(server.close)
    return server
