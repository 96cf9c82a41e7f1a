"""Runs of many seeds on many cores; and the smallest part of a failing plan that still fails."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple, Self

from holdfast.lab.simulator.plan import Plan, Setup, draw
from holdfast.lab.simulator.run import Run, play


def breaks(label: str) -> Callable[[Plan], bool]:
    """A test whether a plan still breaks this promise."""
    return lambda plan: any(finding.label == label for finding in play(plan).findings)


class Part(NamedTuple):
    """What of a plan is played, by the numbers of its faults and tasks."""

    faults: tuple[int, ...]
    tasks: tuple[int, ...]

    def smaller(self) -> Iterator["Part"]:
        """The same without one of the faults, or one of several tasks."""
        faults, tasks = self
        yield from (Part(faults[:at] + faults[at + 1 :], tasks) for at in range(len(faults)))
        if len(tasks) > 1:
            yield from (Part(faults, tasks[:at] + tasks[at + 1 :]) for at in range(len(tasks)))


def shrink(plan: Plan, still: Callable[[Plan], bool]) -> Part:
    """The smallest part of a plan that still fails: nothing more can be left out."""
    part = Part(tuple(range(len(plan.faults))), tuple(range(len(plan.tasks))))
    while smaller := next((each for each in part.smaller() if still(plan.part(*each))), None):
        part = smaller
    return part


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
    seeds: Sequence[int],
    setup: Setup,
    *,
    jobs: int = 1,
    report: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Play them all, in `jobs` processes. `report` gets the tally as it grows."""
    blocks = [seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK)]
    total = Tally()
    if jobs == 1 or len(blocks) < 2:
        for block in blocks:
            total.add(_play(setup, block))
            report(total)
        return total
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(partial(_play, setup), block) for block in blocks]):
            total.add(done.result())
            report(total)
    return total


def _play(setup: Setup, seeds: Sequence[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(Tally.of(play(draw(seed, setup))))
    return tally
