"""Eight processes want the same lock all the time: how much work gets done, and is it shared?"""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import mean

from benchmarks.measure import (
    Case,
    Effort,
    Waits,
    at_least,
    figures,
    interleave,
    percentile,
    rows,
    worth_counting,
)
from benchmarks.peers import sqlite_url
from benchmarks.workers import Kind, Worker, contend
from holdfast.drivers.common import clock

CONTENDERS = 8
SECTION = 0.001
ROUNDS = 3
MARGIN = 0.05
OURS, PEER = "holdfast", "filelock"
LEAST_OF_PEER = 0.85


def measure(effort: Effort, folder: Path) -> Case:
    kinds = {
        OURS: Kind(sqlite_url(folder, "contention")),
        PEER: Kind(str(folder / "contention.lock"), 0.05),
        "filelock, 1 ms poll": Kind(str(folder / "contention-1ms.lock"), 0.001),
    }
    seconds = effort.window / 2
    with ExitStack() as stack:
        groups = {label: _contenders(kind, stack) for label, kind in kinds.items()}

        def contest(label: str) -> Waits:
            return worth_counting(partial(_contest, groups[label], seconds), _sections)

        waits = interleave({label: partial(contest, label) for label in kinds}, ROUNDS)
    values = figures(waits, lambda contest: _sections(contest) / seconds)
    return Case(
        "contention",
        f"{CONTENDERS} processes, sections of {SECTION * 1000:g} ms, SQLite",
        "Each takes the lock, holds it, releases it and wants it again at once: how often they get "
        "it together, how long an acquire waits, and the smallest and the greatest share that a "
        f"contender had, as a part of an eighth of the sections. {seconds:g} s a round.",
        PEER,
        rows(values, "sections a second", 1, PEER)
        + rows(figures(waits, partial(percentile, percent=50)), "ms wait, median", 1e3, "")
        + rows(figures(waits, partial(percentile, percent=99)), "ms wait, p99", 1e3, "")
        + rows(figures(waits, _smallest), "% of a fair share, the smallest", 100, "")
        + rows(figures(waits, _greatest), "% of a fair share, the greatest", 100, ""),
        (at_least(values, OURS, PEER, LEAST_OF_PEER),),
    )


def _contenders(kind: Kind, stack: ExitStack) -> list[Worker]:
    workers = [stack.enter_context(Worker(contend, kind, SECTION)) for _ in range(CONTENDERS)]
    for worker in workers:
        worker.answer()
    return workers


def _contest(workers: list[Worker], seconds: float) -> Waits:
    """Let them contend for that long; how long each acquire of each of them took."""
    begin = clock() + MARGIN
    for worker in workers:
        worker.tell((begin, begin + seconds))
    return [worker.answer() for worker in workers]


def _sections(waits: Waits) -> int:
    return sum(map(len, waits))


def _smallest(waits: Waits) -> float:
    return min(map(len, waits)) / mean(map(len, waits))


def _greatest(waits: Waits) -> float:
    return max(map(len, waits)) / mean(map(len, waits))
