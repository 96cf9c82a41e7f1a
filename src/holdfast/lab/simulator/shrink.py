"""Finding what of a plan is to blame: fewer faults, tasks and sections, and still broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from holdfast.lab.simulator.plan import Plan, Task
from holdfast.lab.simulator.stage import play

T = TypeVar("T")


def breaks(rule: str) -> Callable[[Plan], bool]:
    """How to see whether a plan still breaks this promise."""
    return lambda plan: any(finding.rule == rule for finding in play(plan).findings)


def shrink(plan: Plan, still: Callable[[Plan], bool]) -> Plan:
    """The least of a plan that is still wrong, as far as leaving things out can tell."""
    faults = reduce(plan.faults, lambda kept: still(replace(plan, faults=tuple(kept))))
    plan = replace(plan, faults=tuple(faults))
    tasks = reduce(plan.tasks, lambda kept: bool(kept) and still(replace(plan, tasks=tuple(kept))))
    plan = replace(plan, tasks=tuple(tasks))
    for number, task in enumerate(plan.tasks):
        plan = _fewer_sections(plan, number, task, still)
    return plan


def _fewer_sections(plan: Plan, number: int, task: Task, still: Callable[[Plan], bool]) -> Plan:
    """The same with the first sections of a task only, as many as it takes."""
    for count in range(1, len(task.sections)):
        tasks = list(plan.tasks)
        tasks[number] = replace(task, sections=task.sections[:count])
        fewer = replace(plan, tasks=tuple(tasks))
        if still(fewer):
            return fewer
    return plan


def reduce(things: Sequence[T], still: Callable[[Sequence[T]], bool]) -> list[T]:
    """Delta debugging: leave out halves, then quarters, and so on, as long as it is still wrong."""
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
