"""The engines that can be simulated: their servers and stores, and what runs are like with them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from math import inf

from holdfast.core.ports import node_timeout
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.server import BaseServer
from holdfast.lab.simulator.store import Scene, Store
from holdfast.options import nearest_ttl


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """What differs from engine to engine."""

    servers: type[BaseServer]
    store: Callable[[Client, Scene], Store]
    drift: Callable[[float], float]
    ttls: tuple[float, ...]
    min_ttl: float
    ttl_step: float = 0.0
    sizes: tuple[int, ...] = (1,)
    """How many servers there are."""
    seconds: float = 5.0
    """How long faults happen."""
    quorum_timeout: Callable[[float], float] = node_timeout
    """How long a client waits for one of several servers, by the ttl."""
    loses_data: bool = True
    """Whether one of several servers may restart without its data."""
    lengthens: float = inf
    """By how much longer, at most, a lease lasts when the clock of a server is set back; 0: servers
    do not go by a clock that can be set."""
    fair: bool = False
    """Whether waiters get the lock in the order of their arrival."""
    joins_at_once: frozenset[int] = frozenset()
    """With how many servers the first try asks for a place in the queue."""
    busy: float = 0.4
    """How likely it is that one more task shares a client."""
    lingers: float = 0.0
    """How long a lock may stay taken when its holder has learned of a loss."""

    @property
    def max_ttl(self) -> float:
        return max(self.ttls)

    def request_timeout(self, ttl: float, servers: int) -> float:
        """How long a client waits for one of so many servers."""
        return node_timeout(ttl) if servers == 1 else self.quorum_timeout(ttl)

    def ttl(self, wanted: float) -> float:
        """The nearest that is allowed."""
        return nearest_ttl(wanted, self.min_ttl, self.max_ttl, self.ttl_step)


def engine(name: str) -> SimulatedEngine:
    """The engine of that name; the libraries that it needs are imported now."""
    found: SimulatedEngine = import_module(f"holdfast.lab.simulator.{name}").ENGINE
    return found
