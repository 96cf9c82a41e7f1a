"""Runs of many seeds on many cores; and the smallest part of a failing plan that still fails."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from holdfast.lab.simulator.plan import Plan, Setup, Task, draw
from holdfast.lab.simulator.run import Run, play

T = TypeVar("T")


def breaks(label: str) -> Callable[[Plan], bool]:
    """A test whether a plan still breaks this promise."""
    return lambda plan: any(finding.label == label for finding in play(plan).findings)


def shrink(plan: Plan, still: Callable[[Plan], bool]) -> Plan:
    """The smallest plan that still fails: nothing more can be left out."""
    while True:
        smaller = _shrink_once(plan, still)
        if smaller == plan:
            return plan
        plan = smaller


def _shrink_once(plan: Plan, still: Callable[[Plan], bool]) -> Plan:
    faults = reduce(plan.faults, lambda kept: still(replace(plan, faults=tuple(kept))))
    plan = replace(plan, faults=tuple(faults))
    tasks = reduce(plan.tasks, lambda kept: bool(kept) and still(replace(plan, tasks=tuple(kept))))
    plan = replace(plan, tasks=tuple(tasks))
    for number, task in enumerate(plan.tasks):
        plan = _fewer_sections(plan, number, task, still)
    return plan


def _fewer_sections(plan: Plan, number: int, task: Task, still: Callable[[Plan], bool]) -> Plan:
    """The same with as few sections of a task as still fail."""
    for count in range(1, len(task.sections)):
        tasks = list(plan.tasks)
        tasks[number] = replace(task, sections=task.sections[:count])
        fewer = replace(plan, tasks=tuple(tasks))
        if still(fewer):
            return fewer
    return plan


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


def left_out(plan: Plan, shrunk: Plan) -> list[int]:
    """The numbers of the faults that a plan has and what was left of it has not."""
    kept = {id(fault) for fault in shrunk.faults}
    return [number for number, fault in enumerate(plan.faults) if id(fault) not in kept]


def kept_tasks(plan: Plan, shrunk: Plan) -> dict[int, int]:
    """The numbers of the tasks that were left of a plan, and how many sections of each."""
    found: dict[int, int] = {}
    numbers = iter(enumerate(plan.tasks))
    for task in shrunk.tasks:
        for number, whole in numbers:
            alike = whole.sections[: len(task.sections)] == task.sections
            if whole.client == task.client and alike:
                found[number] = len(task.sections)
                break
    return found


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
