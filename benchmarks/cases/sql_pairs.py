"""Nobody else wants the lock: what does an acquire and a release cost on an SQL database?"""

from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import holdfast
from benchmarks import servers
from benchmarks.measure import Case, Effort, Target, Values, at_most, rows
from benchmarks.pairs import async_holdfast_pair, compare, compare_async, holdfast_pair
from benchmarks.peers import AsyncPair, Pair, not_slower
from benchmarks.sql import floors, peers
from benchmarks.sql.words import ADVISORY_LOCK, NAMED_LOCK, mariadb_lease, postgres_lease

OURS, FLOOR, CROWDED = "holdfast", "bare statements", "holdfast, a million rows"
ADVISORY, NAMED = "advisory lock", "GET_LOCK"
MOST_OVER_STATEMENTS = 1.3
MOST_OVER_FEW_ROWS = 1.1

TABLE = "crowded"
FILL_POSTGRES = f"""
INSERT INTO {TABLE} (name, fence, ends)
SELECT 'holdfast:idle ' || n, n, now() FROM generate_series(1, %s) AS n
"""
FILL_MARIADB = f"""
INSERT INTO {TABLE} (name, holder, fence, ends)
SELECT CONCAT('holdfast:idle ', seq), '', seq, 0 FROM seq_%s_to_%s
"""

AT_ONCE = 20_000
"""How many rows one statement makes: the server may be slow, and a statement has its time."""

LESS = (
    "knows neither ttl nor fence, and is lost with its connection; the peers' locks are made of it."
)


def measure_postgres(effort: Effort, folder: Path) -> Case:
    server = servers.postgres()
    with ExitStack() as stack:
        pairs = {
            FLOOR: floors.through_psycopg(server, postgres_lease(), stack),
            OURS: _ours(server.url, stack),
            CROWDED: _ours(f"{server.url}?table={TABLE}", stack),
            ADVISORY: floors.through_psycopg(server, ADVISORY_LOCK, stack),
            **peers.sqlalchemy_dlock(server.url, stack),
            **peers.pals(server.url, stack),
        }
        server.query(FILL_POSTGRES, (effort.idle_rows,))
        server.query(f"VACUUM ANALYZE {TABLE}")
        values = compare(pairs, effort.batch // 4 + 1, effort.rounds)
    server.query(f"DROP TABLE {TABLE}")
    return Case(
        "postgres-sync",
        "Uncontended acquire and release, PostgreSQL",
        f"One pair, nobody else there, by a thread. *{FLOOR}* says the very same, prepared, by a "
        f"cursor of psycopg's. *a million rows* has as many idle ones in its table. An advisory "
        f"lock {LESS}",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (*_targets(values), not_slower(values, peers.PALS), _not_slowed_down(values)),
    )


def measure_mariadb(effort: Effort, folder: Path) -> Case:
    server = servers.mariadb()
    with ExitStack() as stack:
        pairs = {
            FLOOR: floors.through_pymysql(server, mariadb_lease(), stack),
            OURS: _ours(server.url, stack),
            CROWDED: _ours(f"{server.url}?table={TABLE}", stack),
            NAMED: floors.through_pymysql(server, NAMED_LOCK, stack),
            **peers.sqlalchemy_dlock(server.url, stack),
        }
        for first in range(1, effort.idle_rows, AT_ONCE):
            server.query(FILL_MARIADB, (first, min(first + AT_ONCE - 1, effort.idle_rows)))
        server.query(f"ANALYZE TABLE {TABLE}")
        values = compare(pairs, effort.batch // 4 + 1, effort.rounds)
    server.query(f"DROP TABLE {TABLE}")
    return Case(
        "mariadb-sync",
        "Uncontended acquire and release, MariaDB",
        f"One pair, nobody else there, by a thread. *{FLOOR}* says the very same by a cursor of "
        "PyMySQL's. *a million rows* has as many idle ones in its table. GET_LOCK makes a lock "
        f"that {LESS}",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (*_targets(values), _not_slowed_down(values)),
    )


def measure_postgres_async(effort: Effort, folder: Path) -> Case:
    server = servers.postgres()

    async def open_pairs(stack: AsyncExitStack) -> dict[str, AsyncPair]:
        ours = await _async_ours(server.url, stack)
        return {
            FLOOR: await floors.through_async_psycopg(server, postgres_lease(), stack),
            OURS: ours,
            ADVISORY: await floors.through_async_psycopg(server, ADVISORY_LOCK, stack),
            **await peers.async_sqlalchemy_dlock(server.url, stack),
        }

    values = compare_async(open_pairs, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "postgres-async",
        "Uncontended acquire and release, PostgreSQL, asyncio",
        f"The same by a task. *{FLOOR}* goes by an asynchronous cursor of psycopg's.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        _targets(values),
    )


def measure_mariadb_async(effort: Effort, folder: Path) -> Case:
    server = servers.mariadb()

    async def open_pairs(stack: AsyncExitStack) -> dict[str, AsyncPair]:
        ours = await _async_ours(server.url, stack)
        return {
            FLOOR: await floors.through_asyncmy(server, mariadb_lease(), stack),
            OURS: ours,
            NAMED: await floors.through_asyncmy(server, NAMED_LOCK, stack),
            **await peers.async_sqlalchemy_dlock(server.url, stack),
        }

    values = compare_async(open_pairs, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "mariadb-async",
        "Uncontended acquire and release, MariaDB, asyncio",
        f"The same by a task. *{FLOOR}* goes by asyncmy, which holdfast does not need.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        _targets(values),
    )


def _targets(values: Values) -> tuple[Target, Target]:
    return (
        at_most(values, OURS, FLOOR, MOST_OVER_STATEMENTS),
        not_slower(values, peers.DLOCK),
    )


def _not_slowed_down(values: Values) -> Target:
    return at_most(values, CROWDED, OURS, MOST_OVER_FEW_ROWS)


def _ours(url: str, stack: ExitStack) -> Pair:
    pair = holdfast_pair(stack.enter_context(holdfast.Client(url)))
    pair()  # the table is there now
    return pair


async def _async_ours(url: str, stack: AsyncExitStack) -> AsyncPair:
    client = await stack.enter_async_context(holdfast.AsyncClient(url))
    pair = async_holdfast_pair(client)
    await pair()  # the table is there now
    return pair
