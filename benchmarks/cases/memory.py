"""The same on `memory://`, where nothing but holdfast's own code is left; for orientation."""

from functools import partial
from pathlib import Path

from benchmarks import pairs, peers
from benchmarks.contenders import Openings, compare
from benchmarks.measure import Case, Effort, Target, rows

MOST_MICROSECONDS = 15.0


def measure(effort: Effort, folder: Path) -> Case:
    openings: Openings = {
        "threading.Lock": peers.thread_lock,
        "asyncio.Lock": peers.task_lock,
        "holdfast": partial(pairs.by_thread, "memory://"),
        "holdfast, async": partial(pairs.by_tasks, "memory://", 1),
    }
    values = compare(openings, effort.batch, effort.rounds)
    case_rows = rows(values, "µs", 1e6, "threading.Lock")
    ours = next(row.spread.median for row in case_rows if row.label == "holdfast")
    return Case(
        "memory",
        "Uncontended acquire and release, memory",
        "One pair within one process: a lease with its fence, its holder id and its place on the "
        "renewer's schedule, against a lock that has none of them.",
        "threading.Lock",
        case_rows,
        (
            Target(
                f"under {MOST_MICROSECONDS:g} µs, for orientation",
                f"{ours:.1f} µs",
                ours < MOST_MICROSECONDS,
            ),
        ),
    )
