"""Eight processes want the same lock all the time: how much work gets done, and is it shared?"""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import quantiles

from benchmarks.measure import Case, Effort, Row, Spread, interleave, ratio
from benchmarks.peers import sqlite_url
from benchmarks.workers import Kind, Worker, contend
from holdfast.drivers.surroundings import clock

CONTENDERS = 8
SECTION = 0.001
ROUNDS = 3
MARGIN = 0.05


def measure(effort: Effort, folder: Path) -> Case:
    kinds = {
        "holdfast": Kind(sqlite_url(folder, "contention")),
        "filelock": Kind(str(folder / "contention.lock"), 0.05),
        "filelock, 1 ms poll": Kind(str(folder / "contention-1ms.lock"), 0.001),
    }
    waits: dict[str, list[list[float]]] = {label: [] for label in kinds}
    seconds = effort.window / 2
    with ExitStack() as stack:
        groups = {label: _contenders(kind, stack) for label, kind in kinds.items()}

        def batch(label: str) -> float:
            measured = _contest(groups[label], seconds)
            waits[label].extend(measured)
            return sum(map(len, measured)) / seconds

        values = interleave({label: partial(batch, label) for label in kinds}, ROUNDS)
    rows = [
        Row(
            label,
            "acquisitions a second",
            Spread.of(values[label]),
            ratio(values, label, "filelock"),
            ours=label == "holdfast",
            note=_shares(waits[label]),
        )
        for label in kinds
    ]
    return Case(
        "contention",
        f"{CONTENDERS} processes, sections of {SECTION * 1000:g} ms, SQLite",
        "Each takes the lock, holds it, releases it and wants it again at once. Under *wait* is "
        f"the time of an acquire; under *share*, what the poorest and the richest contender got in "
        f"{seconds:g} s.",
        "filelock",
        tuple(rows),
    )


def _contenders(kind: Kind, stack: ExitStack) -> list[Worker]:
    workers = [stack.enter_context(Worker(contend, kind, SECTION)) for _ in range(CONTENDERS)]
    for worker in workers:
        worker.answer()
    return workers


def _contest(workers: list[Worker], seconds: float) -> list[list[float]]:
    """How long each acquire of each contender took."""
    begin = clock() + MARGIN
    for worker in workers:
        worker.tell((begin, begin + seconds))
    return [worker.answer() for worker in workers]


def _shares(waits: list[list[float]]) -> str:
    everybody = [wait * 1000 for each in waits for wait in each]
    if len(everybody) < 2:
        return ""
    cuts = quantiles(everybody, n=100, method="inclusive")
    counts = [len(each) for each in waits]
    return f"wait {cuts[49]:.1f} ms, p99 {cuts[98]:.0f} ms; share {min(counts)} to {max(counts)}"
