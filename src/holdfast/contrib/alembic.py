"""Alembic: migrations run once, however many replicas start at the same time.

The lock is kept in the database that is migrated, in tables of its own; for SQLite, in a file
beside it. In env.py:

>>> import sqlalchemy, tempfile
>>> from holdfast.contrib.alembic import include_name, migration_lock
>>> folder = tempfile.TemporaryDirectory()
>>> engine = sqlalchemy.create_engine(f"sqlite:///{folder.name}/shop.db")
>>> with migration_lock(engine) as lease, engine.connect() as connection:
...     # context.configure(connection=connection, include_name=include_name, ...)
...     # with context.begin_transaction():
...     #     context.run_migrations()
...     print("migrating under fence", lease.fence)
migrating under fence 1
>>> engine.dispose(); folder.cleanup()
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine

from holdfast.client import Client
from holdfast.lease import Lease

__all__ = ["include_name", "migration_lock"]


@contextmanager
def migration_lock(
    engine: Engine,
    name: str = "alembic",
    *,
    timeout: float | None = None,
    ttl: float | None = None,
) -> Iterator[Lease]:
    """Hold a lock in the database that an `Engine` of SQLAlchemy connects to.

    Others wait, up to `timeout` seconds (default: without a limit), and then find that there is
    nothing left to migrate. If the lease is lost meanwhile, leaving the block raises `LockLost`.
    """
    with _client(engine) as client, client.lock(name, timeout=timeout, ttl=ttl) as lease:
        yield lease


def _client(engine: Engine) -> Client:
    if engine.dialect.name != "sqlite":
        return Client.from_sqlalchemy(engine)
    # A migration locks the whole file of SQLite, and no lease in it could be renewed.
    file = engine.url.database
    if not file or file == ":memory:":
        return Client("memory://")
    return Client(f"sqlite://{quote(str(Path(file).absolute()))}.locks")


def include_name(name: str | None, kind: str, parents: Any) -> bool:
    """For `context.configure`, so that `--autogenerate` does not drop the tables of the locks."""
    return not (kind == "table" and (name or "").startswith("holdfast_"))
