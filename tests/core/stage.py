"""A small stage for the core: a timeline, a node, and clients, with nothing real in it."""

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeVar
from urllib.parse import urlsplit

from holdfast.core.acquire import acquire as acquire_as
from holdfast.core.effects import Steps
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.ports import Engine
from holdfast.core.release import begin_leave, begin_release, finish_leave, finish_release
from holdfast.core.runtime import Runtime
from holdfast.engines.memory import engine
from tests.equipment.virtual_node import Network, TracedTimeline, VirtualClient, VirtualNode

TTL = 10.0

R = TypeVar("R")


class Stage:
    def __init__(self, seed: int = 1, *, loss: float = 0.0) -> None:
        self.timeline = TracedTimeline(seed)
        self.network = Network(self.timeline, loss=loss)
        self.node = VirtualNode(self.timeline, self.network)
        self.clients: list[VirtualClient] = []

    def client(self, name: str = "") -> VirtualClient:
        made = VirtualClient(name or f"client{len(self.clients)}", self.node, memory_engine())
        self.clients.append(made)
        return made

    def run(self, seconds: float) -> None:
        self.timeline.run(self.timeline.now + seconds)

    def leftovers(self) -> list[object]:
        """Everything that somebody still has: locks, places in queues, tickets, processes."""
        now = self.timeline.now
        rows = self.node.table.rows
        found: list[object] = [
            row
            for row in rows.values()
            if row.queue or any(end > now for end in row.holders.values())
        ]
        for client in self.clients:
            loops = client.loops
            found += [waiter_id for waiter_id in client.notifications if waiter_id not in loops]
            found += [each for each in client.processes if each not in loops.values()]
        return found

    def requests(self, kind: type[R]) -> list[R]:
        return [request for request in self.node.asked if isinstance(request, kind)]


def memory_engine() -> Engine:
    return engine(urlsplit("memory://"), {})


def increasing(numbers: Iterable[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def acquire(runtime: Runtime, spec: LockSpec, timeout: float | None) -> Steps[LeaseState | None]:
    """As `Lock.acquire` does."""
    return acquire_as(runtime, spec, runtime.new_holder(""), timeout)


def release(runtime: Runtime, lease: LeaseState) -> Steps[None]:
    """As `Lease.release` does."""
    release = begin_release(runtime, lease)
    if release is not None:
        yield from finish_release(runtime, lease, release)


def leave(runtime: Runtime, lease: LeaseState, error: BaseException | None) -> Steps[None]:
    """As leaving a `with` does."""
    release = begin_leave(runtime, lease, error)
    if release is not None:
        yield from finish_leave(runtime, lease, release, error)
