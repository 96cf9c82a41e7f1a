"""Runs of many seeds on many cores; and the smallest part of a failing plan that still fails."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple, TypeVar

from holdfast.lab.simulator.plan import Plan, Setup, draw
from holdfast.lab.simulator.run import Run, play

T = TypeVar("T")


def breaks(label: str) -> Callable[[Plan], bool]:
    """A test whether a plan still breaks this promise."""
    return lambda plan: any(finding.label == label for finding in play(plan).findings)


class Part(NamedTuple):
    """What of a plan is played."""

    without: tuple[int, ...]
    """The numbers of the faults that are left out."""
    tasks: tuple[int, ...]
    """The numbers of the tasks that are played."""

    def of(self, plan: Plan) -> Plan:
        return plan.without(*self.without).only(*self.tasks)


def shrink(plan: Plan, still: Callable[[Plan], bool]) -> Part:
    """The smallest part of a plan that still fails: nothing more can be left out."""
    part = Part((), tuple(range(len(plan.tasks))))
    while True:
        smaller = _shrink_once(plan, part, still)
        if smaller == part:
            return part
        part = smaller


def _shrink_once(plan: Plan, part: Part, still: Callable[[Plan], bool]) -> Part:
    every = range(len(plan.faults))

    def with_faults(kept: Sequence[int]) -> Part:
        return part._replace(without=tuple(number for number in every if number not in kept))

    def with_tasks(kept: Sequence[int]) -> Part:
        return part._replace(tasks=tuple(kept))

    present = [number for number in every if number not in part.without]
    part = with_faults(reduce(present, lambda kept: still(with_faults(kept).of(plan))))
    tasks = reduce(part.tasks, lambda kept: bool(kept) and still(with_tasks(kept).of(plan)))
    return with_tasks(tasks)


def reduce(things: Sequence[T], still: Callable[[Sequence[T]], bool]) -> list[T]:
    """Delta debugging: leave out halves, then quarters, and so on, as long as it still fails."""
    kept = list(things)
    size = len(kept)
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

    def add(self, run: Run) -> None:
        """Count a run in."""
        self.seeds += 1
        self.grants += run.grants
        self.faults.update(run.faults)
        self.broken.update({finding.label for finding in run.findings})
        if run.findings:
            self.failed.append(run.plan.seed)

    def merge(self, other: "Tally") -> None:
        """Count another tally in."""
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
            total.merge(_play(setup, block))
            report(total)
        return total
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(partial(_play, setup), block) for block in blocks]):
            total.merge(done.result())
            report(total)
    return total


def _play(setup: Setup, seeds: Sequence[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(play(draw(seed, setup)))
    return tally
