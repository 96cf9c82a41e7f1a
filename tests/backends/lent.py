"""Backends on real SQL servers to which a user's own pool leads.

The pools keep nothing: what is given back to them is closed, so that a connection that is left is
one that was not given back.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from .mysql import MariaDbBackend, mariadb_backend
from .sql import PostgresBackend, postgres_backend

_DRIVERS = {
    ("postgresql", "sync"): "psycopg",
    ("postgresql", "async"): "psycopg",
    ("mariadb", "sync"): "pymysql",
    ("mariadb", "async"): "asyncmy",
}


class LentPostgresBackend(PostgresBackend):
    """Clients share an engine, which does not mind in which loop it is used."""

    def given(self, mode: str) -> Any:
        return _engine(self.url, mode)


class LentMariaDbBackend(MariaDbBackend):
    """The same on MariaDB."""

    def given(self, mode: str) -> Any:
        return _engine(self.url, mode)


def lent_postgres_backend(folder: Path) -> LentPostgresBackend:
    backend = postgres_backend(folder)
    return LentPostgresBackend(backend.server, backend.url)


def lent_mariadb_backend(folder: Path) -> LentMariaDbBackend:
    backend = mariadb_backend(folder)
    return LentMariaDbBackend(backend.server, backend.url)


@cache  # the first connection that an engine makes is a slow one
def _engine(url: str, mode: str) -> Any:
    scheme, where = url.split("://")
    driver = _DRIVERS[scheme, mode]
    make = sqlalchemy.create_engine if mode == "sync" else create_async_engine
    # Left to itself, PyMySQL reads all authorities of the system for each connection.
    arguments = {"ssl_disabled": True} if driver == "pymysql" else {}
    return make(f"{scheme}+{driver}://{where}", connect_args=arguments, poolclass=NullPool)
