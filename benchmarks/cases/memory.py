"""The same on `memory://`, where nothing but holdfast's own code is left; for orientation."""

from functools import partial
from pathlib import Path

from benchmarks import pairs, peers
from benchmarks.contenders import Openings, compare
from benchmarks.measure import Case, Effort, figure_at_most, rows

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
    ours = [seconds * 1e6 for seconds in values["holdfast"]]
    promise = f"at most {MOST_MICROSECONDS:g} µs, for orientation"
    return Case(
        "memory",
        "Uncontended acquire and release, memory",
        "One pair within one process: a lease with its fence, its holder id and its place on the "
        "renewer's schedule, against a lock that has none of them.",
        "threading.Lock",
        case_rows,
        (figure_at_most(promise, ours, MOST_MICROSECONDS, "µs"),),
    )
