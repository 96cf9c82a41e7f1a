"""Going through every state of a model, nearest first, until a promise is broken."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")

Judge: TypeAlias = Callable[[S], str | None]
"""Which promise a state breaks, and how; None: none."""


class Model(Protocol[S]):
    """A state machine: where it starts, and what can happen next."""

    def start(self) -> S:
        """The first state."""
        ...

    def moves(self, state: S) -> Iterator[tuple[str, S]]:
        """Whatever can happen next, in words, and the state after it."""
        ...

    def canonical(self, state: S) -> S:
        """The one state that stands for all that differ from this one by names alone."""
        ...


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


def explore(model: Model[S], *judges: Judge[S]) -> Explored:
    """Go through every state that can be reached, until a judge objects to one."""
    start = model.canonical(model.start())
    came_from: dict[S, S | None] = {start: None}
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
    model: Model[S], judges: tuple[Judge[S], ...], end: S, came_from: dict[S, S | None]
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


def put(row: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    """The row with one place changed."""
    return (*row[:at], value, *row[at + 1 :])
