"""Many wait for a lock in PostgreSQL: how long from a release until the next one has it?"""

from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import relay, servers
from benchmarks.measure import Case, Effort, Target, Values, figure_at_most, interleave, rows

MOST_MILLISECONDS = 5.0
FLOOR = "advisory lock"


def measure_postgres(effort: Effort, folder: Path) -> Case:
    _, waiters, _ = effort.queues
    ours, ours_alone, ours_async = "holdfast", "holdfast, 1 waiter", "holdfast, asyncio"
    teams: dict[str, tuple[relay.Run, int]] = {
        FLOOR: (advisory_locks, waiters),
        ours: (relay.threads, waiters),
        ours_async: (relay.tasks, waiters),
        ours_alone: (relay.threads, 2),  # one has it, and one waits
    }
    url = servers.postgres().url
    with ExitStack() as stack:
        runners = relay.Relay(url, waiters, stack)

        def gap(label: str) -> float:
            return runners.run(*teams[label], effort.relay).gap

        values = interleave({label: partial(gap, label) for label in teams}, effort.relays)
    return Case(
        "postgres-handoff",
        f"Hand-off with {waiters} waiters, PostgreSQL",
        "From just before a release until the next one has the lock, which it holds for "
        f"{relay.MOMENT * 1000:g} ms before it queues up again; {waiters} waiters in "
        f"{relay.PROCESSES} processes with one client each. The median of each round. An "
        f"*{FLOOR}* is the floor: each waiter keeps a connection, on which the server wakes it.",
        FLOOR,
        rows(values, "ms", 1e3, FLOOR),
        (_quick_enough(values, ours), _quick_enough(values, ours_async)),
    )


def _quick_enough(values: Values, label: str) -> Target:
    text = f"{label}: at most {MOST_MILLISECONDS:g} ms"
    return figure_at_most(text, [each * 1000 for each in values[label]], MOST_MILLISECONDS, "ms")


class AdvisoryLock:
    """PostgreSQL's own lock, on a connection of its own."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def acquire(self) -> None:
        self._connection.execute("SELECT pg_advisory_lock(7)")

    def release(self) -> None:
        self._connection.execute("SELECT pg_advisory_unlock(7)")


def advisory_locks(pipe: "Connection[Any, Any]", url: str, waiters: int) -> None:
    """A thread and a connection for each waiter."""
    with ExitStack() as stack:
        connections = [
            stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(waiters)
        ]
        relay.pass_on_in_threads(pipe, [AdvisoryLock(each) for each in connections])
