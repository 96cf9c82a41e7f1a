"""Ten thousand leases in one client: what does keeping them cost?"""

import threading
import time
import tracemalloc
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import holdfast
from benchmarks.measure import Case, Effort, Row, Spread, figure_at_most
from benchmarks.peers import BareSql, sqlite_url
from benchmarks.workers import Worker

BATCH = 1000
ENGINES = "*/holdfast/engines/*"
THREADS = "two threads or tasks for all: one renews, one watches the deadlines"


def measure(effort: Effort, folder: Path) -> Case:
    urls = {"memory": "memory://", "SQLite": sqlite_url(folder, "leases")}
    period = effort.lease_ttl / 3
    found: dict[str, tuple[float, int, float, int]] = {}
    with (
        Worker(_hold, urls["memory"], effort) as first,
        Worker(_hold, urls["SQLite"], effort) as second,
    ):
        for label, worker in (("memory", first), ("SQLite", second)):
            found[label] = worker.answer()
    bare = 100 * _bare_seconds(effort, folder) / period
    rows = [Row("bare SQL", "% of a core", Spread.of([bare]))]
    for label, (cpu, _, _, _) in found.items():
        percent = 100 * cpu / period
        part = Spread.of([percent / bare]) if label == "SQLite" else None
        rows.append(Row(f"holdfast, {label}", "% of a core", Spread.of([percent]), part, ours=True))
    rows += [
        Row(f"holdfast, {label}", "bytes a lease", Spread.of([size]), ours=True)
        for label, (_, _, size, _) in found.items()
    ]
    extra = max(threads for _, threads, _, _ in found.values())
    lost = sum(lost for _, _, _, lost in found.values())
    return Case(
        "leases",
        f"{effort.leases:,} held leases",
        f"One client that holds them for {period:g} s, in which each is renewed once (ttl "
        f"{effort.lease_ttl:g} s). Memory is the client's own, without the engine's rows. *bare "
        f"SQL* is the same updates, {BATCH:,} to a transaction.",
        "bare SQL",
        tuple(rows),
        (
            figure_at_most(THREADS, [extra], 2, "besides the main one"),
            figure_at_most("none is lost", [lost], 0, "lost"),
        ),
    )


def _hold(pipe: "Connection[Any, Any]", url: str, effort: Effort) -> None:
    """Hold that many, for one period of renewal; tell (CPU seconds, threads, bytes each, lost)."""
    with holdfast.Client(url, ttl=effort.lease_ttl) as client:
        names = [f"job:{number}" for number in range(effort.leases)]
        client.lock("warm-up").acquire(timeout=0)
        tracemalloc.start()
        before = _traced()
        leases = [client.lock(name).acquire() for name in names]
        size = (_traced() - before) / effort.leases
        tracemalloc.stop()
        began = time.process_time()
        time.sleep(effort.lease_ttl / 3)
        cpu = time.process_time() - began
        lost = sum(lease is None or not lease.held for lease in leases)
        pipe.send((cpu, threading.active_count() - 1, size, lost))


def _traced() -> int:
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, ENGINES)])
    return sum(statistic.size for statistic in snapshot.statistics("filename"))


def _bare_seconds(effort: Effort, folder: Path) -> float:
    """CPU seconds of renewing them all once, with nothing around the statements."""
    bare = BareSql(folder)
    numbers = range(effort.leases)
    for number in numbers:
        bare.take(f"holdfast:job:{number}")
    began = time.process_time()
    for first in range(0, effort.leases, BATCH):
        bare.extend([f"holdfast:job:{number}" for number in numbers[first : first + BATCH]])
    seconds = time.process_time() - began
    bare.close()
    return seconds
