"""Virtual time, and the algorithms of the core in progress on it.

An algorithm runs as a `Process`, which can be cancelled (it ends, and its cleanup is performed) or
crash (nothing is cleaned up). The same seed gives the same run.
"""

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Timeline:
    """Virtual time: it moves when every process waits. Actions are scheduled on it."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)  # noqa: S311 - to be repeatable, not secret
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = count()

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something at an instant; at once, if it has passed."""
        if instant < inf:
            heappush(self._heap, (max(instant, self.now), next(self._sequence), action))

    def run(self, until: float = inf) -> None:
        """Let time pass until that instant, or until nothing is left to happen."""
        while self._heap and self._heap[0][0] <= until:
            self.run_one()
        if until < inf:
            self.now = max(self.now, until)

    def run_one(self) -> None:
        """Let the next thing happen."""
        self.now, _, action = heappop(self._heap)
        action()


EPOCH = 1_700_000_000.0
"""The calendar time at the beginning of a run."""


class Clock:
    """The clock of a client or a node, which runs fast or slow and can be set."""

    __slots__ = ("_offset", "_rate", "_timeline")

    def __init__(self, timeline: Timeline, offset: float = 0.0) -> None:
        self._timeline, self._rate, self._offset = timeline, 1.0, offset

    def __call__(self) -> float:
        return self._timeline.now * self._rate + self._offset

    def true(self, instant: float) -> float:
        """The true instant at which this clock shows that one, unless it is set before."""
        return (instant - self._offset) / self._rate

    def run_at(self, rate: float) -> None:
        self._offset += self._timeline.now * (self._rate - rate)
        self._rate = rate

    def jump(self, by: float) -> None:
        self._offset += by


class CancelledError(BaseException):
    """Thrown into a cancelled process; as in asyncio, not an `Exception`."""


class Process(Generic[T]):
    """One algorithm in progress. `perform` performs each of its effects, `ended` is called last."""

    def __init__(
        self,
        steps: Generator[Any, Any, T],
        perform: Callable[[Any, "Resumption"], None],
        ended: Callable[["Process[Any]"], None],
    ) -> None:
        self.steps = steps
        self._perform, self._ended = perform, ended
        self.result: T | None = None
        self.error: BaseException | None = None
        self.done = False
        self.effects = 0
        """How many of its effects are over."""

    def begin(self) -> None:
        self._go_on(lambda: self.steps.send(None))

    def cancel(self) -> None:
        """Throw `CancelledError` in, wherever it is; its cleanup is performed."""
        if not self.done:
            self.effects += 1
            self._go_on(lambda: self.steps.throw(CancelledError()))

    def crash(self) -> None:
        """End it at once; no cleanup is performed."""
        if not self.done:
            self.steps.close()
            self._end()

    def go_on(self, result: object) -> None:
        self.effects += 1
        self._go_on(lambda: self.steps.send(result))

    def _go_on(self, step: Callable[[], Any]) -> None:
        try:
            effect = step()
        except StopIteration as stop:
            self.result = stop.value
        except BaseException as error:  # noqa: BLE001 - kept in `error`
            self.error = error
        else:
            return self._perform(effect, Resumption(self, self.effects))
        return self._end()

    def _end(self) -> None:
        self.done = True
        self._ended(self)


class Resumption:
    """How a process goes on with the result of an effect, if it still wants it."""

    __slots__ = ("_number", "_process")

    def __init__(self, process: Process[Any], waiting: int) -> None:
        self._process = process
        self._number = waiting

    @property
    def wanted(self) -> bool:
        """Whether the process has not moved on, by being cancelled."""
        return self._number == self._process.effects and not self._process.done

    def __call__(self, result: object) -> None:
        if self.wanted:
            self._process.go_on(result)
