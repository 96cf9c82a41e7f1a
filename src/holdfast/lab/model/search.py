"""Going through every state of a model, nearest first, until a promise is broken."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.lab.model.fences import Model, State

Judge: TypeAlias = Callable[[State], str | None]
"""Which promise a state breaks, and how; None: none."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, and a shortest way to it."""

    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = (f"{number:3}. {step}" for number, step in enumerate(self.trace, 1))
        return "\n".join((f"{self.what}:", *steps))


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration saw. Without a violation, it saw everything."""

    states: int
    violation: Violation | None


def explore(model: Model, *judges: Judge) -> Explored:
    """Go through every state that can be reached, until a judge objects to one."""
    start = model.canonical(model.start())
    came_from: dict[State, State | None] = {start: None}
    queue = [start]
    for state in queue:  # grows as it goes
        for _, found in model.moves(state):
            then = model.canonical(found)
            if then in came_from:
                continue
            came_from[then] = state
            queue.append(then)
            if any(judge(then) for judge in judges):
                return Explored(len(came_from), _violation(model, judges, then, came_from))
    return Explored(len(came_from), None)


def _violation(
    model: Model, judges: tuple[Judge, ...], end: State, came_from: dict[State, State | None]
) -> Violation:
    """The way from the start to `end`, in words. Sorted states lose the names of nodes, so the way
    is walked once more, unsorted."""
    path = [end]
    while (before := came_from[path[-1]]) is not None:
        path.append(before)
    state, *rest = model.start(), *path[-2::-1]
    trace = list[str]()
    for follows in rest:
        moves = model.moves(state)
        step, state = next(move for move in moves if model.canonical(move[1]) == follows)
        trace.append(step)
    what = next(filter(None, (judge(state) for judge in judges)))
    return Violation(what, tuple(trace))
