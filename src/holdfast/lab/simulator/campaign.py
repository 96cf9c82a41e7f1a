"""Runs of many seeds on many cores; and the smallest part of a failing plan that still fails."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple, Self, TypeVar

from holdfast.lab.simulator.plan import Plan, Setup, draw
from holdfast.lab.simulator.run import Run, play

T = TypeVar("T")


def breaks(label: str) -> Callable[[Plan], bool]:
    """A test whether a plan still breaks this promise."""
    return lambda plan: any(finding.label == label for finding in play(plan).findings)


class Part(NamedTuple):
    """What of a plan is played, by the numbers of its faults and tasks."""

    faults: tuple[int, ...]
    tasks: tuple[int, ...]

    def of(self, plan: Plan) -> Plan:
        left_out = {*range(len(plan.faults))} - {*self.faults}
        return plan.without(*left_out).only(*self.tasks)


def shrink(plan: Plan, still: Callable[[Plan], bool]) -> Part:
    """The smallest part of a plan that still fails: nothing more can be left out."""
    before, part = None, Part(tuple(range(len(plan.faults))), tuple(range(len(plan.tasks))))
    while part != before:
        before, part = part, _shrink_once(plan, part, still)
    return part


def _shrink_once(plan: Plan, part: Part, still: Callable[[Plan], bool]) -> Part:
    faults = reduce(part.faults, lambda kept: still(Part(kept, part.tasks).of(plan)))
    tasks = reduce(part.tasks, lambda kept: bool(kept) and still(Part(faults, kept).of(plan)))
    return Part(faults, tasks)


def reduce(things: tuple[T, ...], still: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Delta debugging: leave out halves, then quarters, and so on, as long as it still fails."""
    kept, size = things, len(things)
    while size >= 1:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if still(fewer):
                kept = fewer
            else:
                at += size
        size //= 2
    return kept


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
