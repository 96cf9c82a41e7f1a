"""No contention: what does an acquire and a release cost on an SQL database?"""

from functools import partial
from pathlib import Path

import holdfast
from benchmarks import pairs, servers
from benchmarks.contenders import compare
from benchmarks.measure import Case, Effort, Target, Values, at_most, faster, rows
from benchmarks.pairs import pair_of
from benchmarks.sql import floors, peers
from benchmarks.sql.statements import advisory_lock, mariadb_lease, named_lock, postgres_lease

OURS, FLOOR, CROWDED = "holdfast", "bare statements", "holdfast, a million rows"
ADVISORY, NAMED = "advisory lock", "GET_LOCK"
MOST_OVER_STATEMENTS = 1.4
MOST_OVER_FEW_ROWS = 1.1

TABLE = "crowded"
FILL_POSTGRES = f"""
INSERT INTO {TABLE} (name, fence, expires)
SELECT decode('holdfast:idle ' || n, 'escape'), n, 0 FROM generate_series(1, %s) AS n
"""
FILL_MARIADB = f"""
INSERT INTO {TABLE} (name, fence, expires)
SELECT CONCAT('holdfast:idle ', seq), seq, 0 FROM seq_%s_to_%s
"""

AT_ONCE = 20_000
"""How many rows one statement makes: the server may be slow, and a statement has its time."""

LESS = (
    "knows neither ttl nor fence, and is lost with its connection; the peers' locks are made of it."
)


def measure_postgres(effort: Effort, folder: Path) -> Case:
    server = servers.postgres()
    crowded = f"{server.url}?table={TABLE}"
    _make_tables(server.url, crowded)
    server.query(FILL_POSTGRES, (effort.idle_rows,))
    server.query(f"VACUUM ANALYZE {TABLE}")
    openings = {
        FLOOR: partial(floors.through_psycopg, server.url, postgres_lease),
        OURS: partial(pairs.by_thread, server.url),
        CROWDED: partial(pairs.by_thread, crowded),
        ADVISORY: partial(floors.through_psycopg, server.url, advisory_lock),
        peers.DLOCK: partial(peers.dlock_as_documented, server.url),
        peers.KEPT: partial(peers.dlock_kept, server.url),
        peers.PALS: partial(peers.pals, server.url),
    }
    values = compare(openings, effort.batch // 4 + 1, effort.rounds)
    server.query(f"DROP TABLE {TABLE}")
    return Case(
        "postgres-sync",
        "Uncontended acquire and release, PostgreSQL",
        f"One uncontended pair by a thread. *{FLOOR}* are the same ones, prepared, through a "
        f"cursor of psycopg. *a million rows* has as many idle ones in its table. An advisory "
        f"lock {LESS}",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (*_targets(values), faster(values, OURS, peers.PALS), _not_slowed_down(values)),
    )


def measure_mariadb(effort: Effort, folder: Path) -> Case:
    server = servers.mariadb()
    crowded = f"{server.url}?table={TABLE}"
    _make_tables(server.url, crowded)
    for first in range(1, effort.idle_rows, AT_ONCE):
        server.query(FILL_MARIADB, (first, min(first + AT_ONCE - 1, effort.idle_rows)))
    server.query(f"ANALYZE TABLE {TABLE}")
    openings = {
        FLOOR: partial(floors.through_pymysql, server.port, mariadb_lease),
        OURS: partial(pairs.by_thread, server.url),
        CROWDED: partial(pairs.by_thread, crowded),
        NAMED: partial(floors.through_pymysql, server.port, named_lock),
        peers.DLOCK: partial(peers.dlock_as_documented, server.url),
        peers.KEPT: partial(peers.dlock_kept, server.url),
    }
    values = compare(openings, effort.batch // 4 + 1, effort.rounds)
    server.query(f"DROP TABLE {TABLE}")
    return Case(
        "mariadb-sync",
        "Uncontended acquire and release, MariaDB",
        f"One uncontended pair by a thread. *{FLOOR}* are the same ones through a cursor of "
        "PyMySQL. *a million rows* has as many idle ones in its table. GET_LOCK makes a lock "
        f"that {LESS}",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (*_targets(values), _not_slowed_down(values)),
    )


def measure_postgres_async(effort: Effort, folder: Path) -> Case:
    server = servers.postgres()
    _make_tables(server.url)
    openings = {
        FLOOR: partial(floors.through_async_psycopg, server.url, postgres_lease),
        OURS: partial(pairs.by_tasks, server.url, 1),
        ADVISORY: partial(floors.through_async_psycopg, server.url, advisory_lock),
        peers.DLOCK: partial(peers.async_dlock_as_documented, server.url),
        peers.KEPT: partial(peers.async_dlock_kept, server.url),
    }
    values = compare(openings, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "postgres-async",
        "Uncontended acquire and release, PostgreSQL, asyncio",
        f"The same by a task. *{FLOOR}* go through an asynchronous cursor of psycopg.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        _targets(values),
    )


def measure_mariadb_async(effort: Effort, folder: Path) -> Case:
    server = servers.mariadb()
    _make_tables(server.url)
    openings = {
        FLOOR: partial(floors.through_asyncmy, server.port, mariadb_lease),
        OURS: partial(pairs.by_tasks, server.url, 1),
        NAMED: partial(floors.through_asyncmy, server.port, named_lock),
        peers.DLOCK: partial(peers.async_dlock_as_documented, server.url),
        peers.KEPT: partial(peers.async_dlock_kept, server.url),
    }
    values = compare(openings, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "mariadb-async",
        "Uncontended acquire and release, MariaDB, asyncio",
        f"The same by a task. *{FLOOR}* go through asyncmy; holdfast has "
        "a worker thread use PyMySQL.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        _targets(values),
    )


def _targets(values: Values) -> tuple[Target, Target]:
    return (
        at_most(values, OURS, FLOOR, MOST_OVER_STATEMENTS),
        faster(values, OURS, peers.DLOCK),
    )


def _not_slowed_down(values: Values) -> Target:
    return at_most(values, CROWDED, OURS, MOST_OVER_FEW_ROWS)


def _make_tables(*urls: str) -> None:
    """Have the table of leases made that each of these URLs names."""
    for url in urls:
        with holdfast.Client(url) as client:
            pair_of(client)()
