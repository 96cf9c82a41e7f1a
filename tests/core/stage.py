"""A small stage for the core: a timeline, a node, and clients, with nothing real in it."""

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeVar
from urllib.parse import urlsplit

from holdfast.core.ports import Engine
from holdfast.engines.memory import engine
from holdfast.lab.timeline import Timeline
from holdfast.lab.virtual import Network, VirtualClient, VirtualNode

TTL = 10.0

R = TypeVar("R")


class Stage:
    def __init__(self, seed: int = 1, *, loss: float = 0.0) -> None:
        self.timeline = Timeline(seed)
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
        found: list[object] = [row for row in rows.values() if row.is_held(now) or row.queue]
        for client in self.clients:
            found += [waiter_id for waiter_id in client.tickets if waiter_id != "renewer"]
            found += [process for process in client.processes if process is not client.renewer]
        return found

    def requests(self, kind: type[R]) -> list[R]:
        return [request for request in self.node.asked if isinstance(request, kind)]


def memory_engine() -> Engine:
    return engine(urlsplit("memory://"), {})


def increasing(numbers: Iterable[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))
