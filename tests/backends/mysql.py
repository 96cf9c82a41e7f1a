"""Backends on a real MariaDB server, which is started once for each test process."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.contract import Backend
from tests.equipment.servers.mariadb import USER, MariaDbServer

from .sockets import connections_to


class MariaDbBackend(Backend):
    """A server with nothing in the tables. The first test finds none at all."""

    def __init__(self, server: MariaDbServer, scheme: str) -> None:
        self.server, self.url = server, server.url_for(USER, scheme)
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
        counted = self._for_each_table("SELECT COUNT(*) FROM {}")
        return {table: count for table, [(count,)] in counted.items()}

    def _for_each_table(self, statement: str) -> dict[str, list[tuple[Any, ...]]]:
        """On one connection: to connect costs more than all that is said."""
        with self.server.connection() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES LIKE 'holdfast%'")
            found = {}
            for (table,) in cursor.fetchall():
                cursor.execute(statement.format(table))
                found[table] = list(cursor.fetchall())
            return found


def mariadb_backend(folder: Path) -> MariaDbBackend:
    return MariaDbBackend(_mariadb(), "mariadb")


def mysql_backend(folder: Path) -> MariaDbBackend:
    return MariaDbBackend(_mariadb(), "mysql")


@cache
def _mariadb() -> MariaDbServer:
    server = MariaDbServer().start()
    atexit.register(server.close)
    return server
