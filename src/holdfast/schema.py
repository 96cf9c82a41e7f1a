"""The tables that holdfast needs in a database, for those who make them by migrations.

>>> from holdfast import schema
>>> print(schema.ddl("sqlite:///var/lib/shop.db"))
-- What holdfast.fence.check has seen, for locks that are kept elsewhere.
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name TEXT NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
);
"""

import os

from holdfast.engines import default_url, open_engine
from holdfast.engines.sql import fences
from holdfast.engines.sql.borrowed import MYSQL, POSTGRESQL, SQLITE
from holdfast.options import read_options

__all__ = ["ddl"]

_DATABASES = {
    "postgresql": POSTGRESQL,
    "postgres": POSTGRESQL,
    "mariadb": MYSQL,
    "mysql": MYSQL,
    "sqlite": SQLITE,
}


def ddl(url: str | None = None) -> str:
    """What makes the tables in the database that a URL names (default: as for a client). Nothing is
    connected. A URL that names no database is a `ValueError`."""
    url = url or os.environ.get("HOLDFAST_URL") or default_url()
    options = read_options(url, prefix=None, ttl=None, retry=None, engine={})
    engine = open_engine(options.url, options.engine)
    database = _DATABASES.get(options.url.scheme)
    if database is None:
        raise ValueError(f"url: {options.shown} is no database with tables to make")
    parts = [
        "-- What holdfast.fence.check has seen, for locks that are kept elsewhere.",
        fences.ddl(database),
    ]
    if engine.ddl:
        parts = ["-- Locks and cells.", engine.ddl, "", *parts]
    return "\n".join(parts)
