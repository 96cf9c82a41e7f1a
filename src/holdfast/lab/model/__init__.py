"""Every run of a small quorum, explored breadth first: the promises hold in all of them, or here is
one in which they do not.

`fences` has what can happen to fences, `exclusion` who holds the lock, and `nodes` what a node
does; `variants` lists what is checked: the algorithm as it is, and wrong ones, each of which must
be caught. Here is how a model goes through all its states.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")

Judge: TypeAlias = Callable[[S], str | None]
"""Which promise a state breaks, and how; None: none."""


class Explorable(Generic[S]):
    """All that can happen. A state has `sites`: what there is of each node."""

    __slots__ = ()
    judges: ClassVar[tuple[Judge[Any], ...]]
    """The promises."""

    def starts(self) -> Iterator[S]:
        """The states to begin with."""
        raise NotImplementedError

    def moves(self, state: S) -> Iterator[tuple[str, S]]:
        """Whatever can happen next, in words, and the state after it."""
        raise NotImplementedError

    def canonical(self, state: Any) -> S:
        """The one state that stands for all that are like it: nodes are alike, so they are kept
        sorted."""
        same: S = state._replace(sites=tuple(sorted(state.sites)))
        return same


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, and a shortest way to it."""

    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = (f"{number:3}. {step}" for number, step in enumerate(self.trace, 1))
        return "\n".join((f"{self.what}:", *steps))


class Explored(NamedTuple):
    """What an exploration saw. Without a violation, it saw everything."""

    states: int
    violation: Violation | None


def explore(model: Explorable[S], *judges: Judge[S]) -> Explored:
    """Go through every state that can be reached, until a judge objects to one; by default, the
    model's own."""
    judges = judges or model.judges
    came_from: dict[S, S | None] = {model.canonical(start): None for start in model.starts()}
    queue = list(came_from)
    for state in queue:  # grows as it goes
        for _, found in model.moves(state):
            then = model.canonical(found)
            if then in came_from:
                continue
            came_from[then] = state
            queue.append(then)
            if any(judge(then) for judge in judges):
                path = [then]
                while (before := came_from[path[-1]]) is not None:
                    path.append(before)
                return Explored(len(came_from), _violation(model, judges, path[::-1]))
    return Explored(len(came_from), None)


def _violation(model: Explorable[S], judges: tuple[Judge[S], ...], path: list[S]) -> Violation:
    """A way from the start, in words. Sorted states lose the names of nodes, so the way is walked
    once more, unsorted."""
    state, *rest = path
    trace = list[str]()
    for follows in rest:
        step, state = next(
            move for move in model.moves(state) if model.canonical(move[1]) == follows
        )
        trace.append(step)
    what = next(filter(None, (judge(state) for judge in judges)))
    return Violation(what, tuple(trace))


def put(row: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    """The row with one place changed."""
    return (*row[:at], value, *row[at + 1 :])
