"""Virtual time: a heap of (instant, sequence, action). The same seed gives the same run."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random


class Timeline:
    """A world that moves only when everybody waits."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)  # noqa: S311 - to be repeatable, not secret
        self.trace: list[str] = []
        """What happened, in order; equal for equal seeds."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = count()

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something at an instant; at once, if it has passed."""
        if instant < inf:
            heappush(self._heap, (max(instant, self.now), next(self._sequence), action))

    def note(self, text: str) -> None:
        """Write into the trace."""
        self.trace.append(f"{self.now:.6f} {text}")

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
