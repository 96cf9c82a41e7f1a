"""What an engine has to bring to be simulated, and what its stores get."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from holdfast.core.lease_state import node_timeout
from holdfast.core.messages import Request
from holdfast.lab.simulator.driver import BaseClient, Resumption
from holdfast.lab.simulator.network import Network, Wire
from holdfast.options import nearest_ttl


class ToServer(Protocol):
    """What a client has towards one server."""

    @property
    def breaks(self) -> int:
        """How often a connection or a call broke: each time, something may have been left there."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has been answered."""
        ...

    def reset(self, *, ghost: bool, late: float = 0.0) -> None:
        """What is open breaks; the client learns of it in a while."""
        ...


class VirtualStore(Protocol):
    """The store of a client."""

    @property
    def connections(self) -> Sequence[ToServer]:
        """One for each server."""
        ...

    def ask(self, requests: Sequence[Request], until: float, resume: Resumption) -> None:
        """Set a request going."""
        ...

    def crash(self) -> None:
        """The kernel closes its connections."""
        ...

    def close(self) -> None:
        """The client closes them."""
        ...


class Owner(BaseClient):
    """What a store needs of its client."""

    calendar: float

    def arrives(self, action: Callable[[], None]) -> Callable[[], None]:
        """Wrap a message: it is read now, or when the client resumes."""
        raise NotImplementedError

    def fails(self, error: Exception) -> None:
        """Report an error that must not happen."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """What differs from engine to engine."""

    servers: Callable[..., Sequence[Any]]
    store: Callable[[Owner, "Wiring"], VirtualStore]
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


@dataclass(frozen=True, slots=True)
class Wiring:
    """The servers of a client, and the network in between."""

    engine: SimulatedEngine
    servers: Sequence[Any]
    network: Network
    there: Sequence[Wire]
    back: Sequence[Wire]
    max_ttl: float
    guard: bool
    sent: Callable[[Sequence[Any]], None]
    """Called with all requests that are sent."""
