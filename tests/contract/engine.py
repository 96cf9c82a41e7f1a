"""An engine under contract, and what of the contract it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .backend import Backend

NEEDS = ("processes", "outage", "restart", "order", "cells", "shares", "slots")


@dataclass(frozen=True)
class EngineUnderTest:
    """One engine under contract.

    It makes a `Backend` for each test, given an empty folder. What it cannot keep, it says in
    `cannot`, by the name of a scenario (its function without `test_`) or of a need, each with the
    reason:

        processes   other processes can share the store
        outage      the store can be made unavailable for a while
        restart     the store can be stopped and started again
        order       waiters get a lock in the order of their arrival
        cells       there are cells beside the locks
        shares      several can hold a lock: readers
        slots       there are semaphores
    """

    name: str
    backend: Callable[[Path], Backend]
    unit: float = 0.5
    """The shortest ttl that a busy machine can keep."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    server: str = ""
    """What is slow to start: scenarios with the same one go to the same worker of pytest-xdist."""
    variant_of: str = ""
    """The engine whose code it shares; none: it has code of its own."""
    only: frozenset[str] = frozenset()
    """The parts of the contract that a short run plays on it; none: all."""
    quick: bool = False
    """Whether a short run plays every scenario on it, sync and async: also what depends on the core
    alone, `pytest.mark.core`."""

    def refusal(self, scenario: str, needs: tuple[str, ...]) -> str | None:
        """Why this engine does not run a scenario, or None: it does."""
        for thing in (scenario, *needs):
            if thing in self.cannot:
                return f"{self.name}: {self.cannot[thing]}"
        return None
