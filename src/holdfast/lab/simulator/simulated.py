"""What an engine has to bring to be simulated."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from holdfast.core.lease_state import node_timeout
from holdfast.lab.simulator.driver import BaseClient
from holdfast.lab.simulator.server import BaseServer
from holdfast.lab.simulator.store import Store, Wiring
from holdfast.options import nearest_ttl


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """What differs from engine to engine."""

    servers: type[BaseServer]
    store: Callable[[BaseClient, Wiring], Store]
    drift: Callable[[float], float]
    rate: float
    """By how much clocks may differ, as a share of the time."""
    ttls: tuple[float, ...]
    min_ttl: float
    max_ttl: float
    ttl_step: float = 0.0
    sizes: tuple[int, ...] = (1,)
    """How many servers there are."""
    seconds: float = 5.0
    """How long faults happen."""
    request_timeout: Callable[[float], float] = node_timeout
    """How long a client waits for one of several servers, by the ttl."""
    loses_data: bool = True
    """Whether one of several servers may restart without its data."""
    jumps: bool = True
    """Whether servers go by a clock that can be set."""
    lengthens: float = inf
    """By how much longer, at the most, a lease lasts when such a clock is set back."""
    fair: bool = False
    """Whether waiters get the lock in the order of their arrival."""
    busy: float = 0.4
    """How likely it is that one more task shares a client."""
    lingers: float = 0.0
    """How long a lock may stay taken when its holder has learned of a loss."""
    attacks: tuple[Callable[[Any], list[Any]], ...] = ()
    """Those that only this engine's servers can suffer."""

    def ttl(self, wanted: float) -> float:
        """The nearest that is allowed."""
        return nearest_ttl(wanted, self.min_ttl, self.max_ttl, self.ttl_step)
