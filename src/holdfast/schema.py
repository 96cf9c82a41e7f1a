"""The DDL of the tables that holdfast needs in a database, for migrations.

>>> from holdfast import schema
>>> print(schema.ddl("sqlite:///var/lib/shop.db"))
-- The greatest fences seen by holdfast.fence.check.
CREATE TABLE IF NOT EXISTS holdfast_fences (
    name TEXT NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
);
"""

import os

from holdfast.engines import default_url, open_engine
from holdfast.engines.sql.adapters import MYSQL, POSTGRESQL, SQLITE
from holdfast.fence import DDL
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
    """The DDL for the database that `url` names (default: as for a client). Makes no connection. A
    URL of an engine without tables is a `ValueError`."""
    url = url or os.environ.get("HOLDFAST_URL") or default_url()
    options = read_options(url, prefix=None, ttl=None, retry=None, engine={})
    engine = open_engine(options.url, options.engine)
    database = _DATABASES.get(options.url.scheme)
    if database is None:
        raise ValueError(f"url: {options.shown} is not a database with tables")
    parts = [
        "-- The greatest fences seen by holdfast.fence.check.",
        DDL[database],
    ]
    if engine.ddl:
        parts = ["-- Locks and cells.", engine.ddl, "", *parts]
    return "\n".join(parts)
