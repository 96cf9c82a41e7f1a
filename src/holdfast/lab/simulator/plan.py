"""A run, before it happens: who wants what, and what goes wrong. The same plan is the same run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.lab.simulator.faults import Fault


@dataclass(frozen=True, slots=True)
class Setup:
    """What plans are drawn for. Beyond what the algorithm assumes, promises are broken."""

    nodes: int | None = None
    """How many; None: each plan another number."""
    clients: int | None = None
    seconds: float = 5.0
    """How long faults happen; then everything heals."""
    guard: bool = True
    """Whether the restart guard is on."""
    drift: float = 1.0
    """How far clocks drift apart, as a multiple of what is allowed for."""


@dataclass(frozen=True, slots=True)
class Section:
    """One turn: rest, take a lock, work, give it back."""

    rest: float
    name: str
    timeout: float | None
    ttl: float
    renew: bool
    max_hold: float | None
    work: float
    extend_to: float | None = None
    """Half-way through its work, extend the lease to so much."""
    looks: bool = False
    """Half-way through its work, ask the engine who holds the lock."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one task of a client does, one after the other."""

    client: int
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is decided before a run."""

    seed: int
    nodes: int
    clients: int
    seconds: float
    max_ttl: float
    guard: bool
    durable: bool
    """Whether the nodes write everything to disk before they answer."""
    tail: float
    """How many messages are late, all the time."""
    tasks: tuple[Task, ...]
    faults: tuple[Fault, ...]

    @property
    def quorum(self) -> int:
        """How many nodes are a majority."""
        return self.nodes // 2 + 1

    def without(self, *numbers: int) -> "Plan":
        """The same without some of its faults, by their numbers from 0."""
        kept = (fault for number, fault in enumerate(self.faults) if number not in numbers)
        return replace(self, faults=tuple(kept))

    def only(self, tasks: Mapping[int, int]) -> "Plan":
        """The same with these tasks alone, by their numbers, and so many sections of each."""
        kept = (
            replace(task, sections=task.sections[: tasks[number]])
            for number, task in enumerate(self.tasks)
            if number in tasks
        )
        return replace(self, tasks=tuple(kept))
