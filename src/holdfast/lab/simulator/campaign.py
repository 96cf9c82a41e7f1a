"""Runs of many seeds on many cores; and the smallest part of a failing plan that still fails."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Self

from holdfast.lab.simulator.plan import Plan, Setup, draw
from holdfast.lab.simulator.run import Run, play


def breaks(label: str) -> Callable[[Plan], bool]:
    """A test whether a plan still breaks this promise."""
    return lambda plan: any(finding.label == label for finding in play(plan).findings)


def smaller(plan: Plan) -> Iterator[Plan]:
    """The same without one of its faults, or without one of several tasks."""
    faults, tasks = plan.faults, plan.tasks
    for at in range(len(faults)):
        yield replace(plan, faults=faults[:at] + faults[at + 1 :])
    for at in range(len(tasks) if len(tasks) > 1 else 0):
        yield replace(plan, tasks=tasks[:at] + tasks[at + 1 :])


def shrink(plan: Plan, still: Callable[[Plan], bool]) -> Plan:
    """The smallest part of a plan that still fails: nothing more can be left out."""
    while (part := next(filter(still, smaller(plan)), None)) is not None:
        plan = part
    return plan


BLOCK = 100
"""How many seeds a process plays before it reports."""


@dataclass(slots=True)
class Tally:
    """What came of some seeds."""

    seeds: int = 0
    grants: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """In how many seeds each thing went wrong."""
    failed: list[int] = field(default_factory=list)
    """The seeds that failed."""

    @classmethod
    def of(cls, run: Run) -> Self:
        broken = Counter({finding.label for finding in run.findings})
        return cls(1, run.grants, run.faults, broken, [run.plan.seed] if broken else [])

    def add(self, other: "Tally") -> None:
        self.seeds += other.seeds
        self.grants += other.grants
        self.faults.update(other.faults)
        self.broken.update(other.broken)
        self.failed = sorted(self.failed + other.failed)


def campaign(
    seeds: Sequence[int], setup: Setup, report: Callable[[Tally], None] = lambda tally: None
) -> Tally:
    """Play them all, on all cores if they are many. `report` gets the tally as it grows."""
    blocks = [seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK)]
    if len(blocks) == 1:
        return _play(setup, seeds)
    total = Tally()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_play, setup, block) for block in blocks]):
            total.add(done.result())
            report(total)
    return total


def _play(setup: Setup, seeds: Sequence[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(Tally.of(play(draw(seed, setup))))
    return tally
