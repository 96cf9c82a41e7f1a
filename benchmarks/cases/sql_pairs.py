"""Nobody else wants the lock: what does an acquire and a release cost on PostgreSQL?"""

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg

import holdfast
from benchmarks.measure import Case, Effort, Values, at_most, interleave, rows, seconds_each
from benchmarks.peers import TTL, Pair
from holdfast.engines.sql.postgres.statements import LEASES, Statements
from holdfast.lab.servers.postgres import PostgresServer

FLOOR = "bare statements"
MOST_OVER_STATEMENTS = 1.3
MOST_OVER_FEW_ROWS = 1.3

CROWDED = "crowded"
FILL = f"""
INSERT INTO {CROWDED} (name, fence, ends)
SELECT 'holdfast:idle ' || n, n, now() FROM generate_series(1, 1000000) AS n
"""


def measure_postgres(effort: Effort, folder: Path) -> Case:
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer())
        pairs = {
            "holdfast": _ours(server, LEASES, stack),
            "holdfast, a million rows": _ours(server, CROWDED, stack),
            FLOOR: _statements(server, stack),
            "advisory lock": _advisory(server, stack),
        }
        server.query(FILL)
        server.query(f"ANALYZE {CROWDED}")
        values = _compare(pairs, effort)
    return Case(
        "postgres-sync",
        "Uncontended acquire and release, PostgreSQL",
        f"One pair, nobody else there, by a thread. *{FLOOR}* says the very same, prepared, by a "
        "cursor of psycopg's. An advisory lock has neither ttl nor fence, and is lost with its "
        "connection. *A million rows* has as many idle ones in its table.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, "holdfast", FLOOR, MOST_OVER_STATEMENTS),
            at_most(values, "holdfast, a million rows", "holdfast", MOST_OVER_FEW_ROWS),
        ),
    )


def _compare(pairs: dict[str, Pair], effort: Effort) -> Values:
    def batch(pair: Pair) -> Callable[[], float]:
        return lambda: seconds_each(pair, effort.batch // 4 + 1)

    return interleave({label: batch(pair) for label, pair in pairs.items()}, effort.rounds)


def _ours(server: PostgresServer, table: str, stack: ExitStack) -> Pair:
    client = stack.enter_context(holdfast.Client(server.url, table=table))
    lock = client.lock("bench", ttl=TTL)

    def pair() -> None:
        lease = lock.acquire()
        assert lease
        lease.release()

    pair()  # the table is there now
    return pair


def _statements(server: PostgresServer, stack: ExitStack) -> Pair:
    connection = _connection(server, stack)
    statements, numbers = Statements(LEASES), itertools.count()

    def pair() -> None:
        holder = f"host/1/bench/{next(numbers):032x}"
        values = ("holdfast:bare", holder, TTL, time.time() + TTL, 0)
        assert connection.execute(statements.acquire.sql, values).fetchall()[0][0]
        assert connection.execute(statements.release.sql, values[:2]).fetchall()

    return pair


def _advisory(server: PostgresServer, stack: ExitStack) -> Pair:
    connection = _connection(server, stack)

    def pair() -> None:
        assert connection.execute("SELECT pg_try_advisory_lock($1)", (1,)).fetchall()
        assert connection.execute("SELECT pg_advisory_unlock($1)", (1,)).fetchall()

    return pair


def _connection(
    server: PostgresServer, stack: ExitStack
) -> "psycopg.Connection[tuple[object, ...]]":
    connection = stack.enter_context(
        psycopg.connect(server.url, autocommit=True, cursor_factory=psycopg.RawCursor)
    )
    connection.prepare_threshold = 0
    return connection
