"""Backends on a real MariaDB server, which is emptied for each test."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.equipment.servers.mariadb import USER, MariaDbServer

from .server import SqlBackend, started


class MariaDbBackend(SqlBackend):
    def for_each_table(self, statement: str) -> dict[str, list[tuple[Any, ...]]]:
        with self.server.connection() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES LIKE 'holdfast%'")
            found = {}
            for (table,) in cursor.fetchall():
                cursor.execute(statement.format(table))
                found[table] = list(cursor.fetchall())
            return found


def mariadb_backend(folder: Path) -> MariaDbBackend:
    return _backend("mariadb")


def mysql_backend(folder: Path) -> MariaDbBackend:
    return _backend("mysql")


def _backend(scheme: str) -> MariaDbBackend:
    server = _mariadb()
    return MariaDbBackend(server, server.url_for(USER, scheme))


@cache
def _mariadb() -> MariaDbServer:
    return started(MariaDbServer())
