"""A virtual server of any engine: it answers on connections, freezes, crashes and restarts."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, ClassVar, NamedTuple, Self

from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import holder_of
from holdfast.lab.simulator.driver import EPOCH, Clock, Timeline
from holdfast.lab.simulator.network import Connection

LONG_AGO = -1000.0
"""When servers were started, if not in the run."""


PRECISION = 1e-6
"""Of instants that are compared, in seconds."""

Receive = Callable[[Any], None]


class Place(NamedTuple):
    """What a server has of a holder, for one lock."""

    holder: str
    has_turn: bool
    """Whether it has the lock or a share of it; else it waits."""
    fence: int | None = None
    ends_at: float = inf
    """The true instant at which its lease ends."""


class BaseServer:
    """What answers on connections. It can freeze, crash and restart, and answer with errors."""

    ERRORS: ClassVar[Sequence[Any]] = ()
    """The errors with which a server of this engine may answer a request."""

    def __init__(
        self, name: str, timeline: Timeline, *, durable: bool, internal_error: Receive
    ) -> None:
        self.name = name
        self.timeline = timeline
        self.durable = durable
        self.clock = Clock(timeline, offset=EPOCH)
        self.up = True
        self.run = 1
        self.started_at = LONG_AGO
        self.lost_data_at = LONG_AGO
        self.connections: dict[Connection, None] = {}
        self.frozen = 0
        self.refusals: list[tuple[int, float]] = []
        """Which of its errors it gives now, and how likely each request gets it."""
        self.refused = 0
        """How many requests it has answered with an error so far."""
        self._internal_error = internal_error
        self._waiting: dict[Connection, list[Callable[[], None]]] = {}

    @classmethod
    def several(cls, count: int, timeline: Timeline, **settings: Any) -> Sequence[Self]:
        """The servers of a run: n0, n1, ..., which know nothing of each other."""
        return [cls(f"n{index}", timeline, **settings) for index in range(count)]

    def accept(self, connection: Connection) -> bool:
        """A client connects; False: the server is down."""
        if self.up:
            connection.run = self.run
            self.connections[connection] = None
        return self.up

    def receive(self, connection: Connection, data: Any, reply: Receive) -> None:
        """Commands arrive, to be executed now, or when it is not frozen any more."""
        if self.up and connection.run == self.run:
            self.in_turn(connection, lambda: self.answer(connection, data, reply))

    def in_turn(self, connection: Connection, action: Callable[[], None]) -> None:
        """Do something now, or when it is not frozen any more."""
        self.later(connection, action)
        self._work()

    def later(self, connection: Connection, action: Callable[[], None]) -> None:
        """Do something when it is not frozen, after all that has arrived on this connection."""
        self._waiting.setdefault(connection, []).append(action)

    def freeze(self) -> None:
        """Pause; what arrives waits."""
        self.frozen += 1

    def thaw(self) -> None:
        self.frozen = max(0, self.frozen - 1)
        self._work()

    def refusal(self) -> Any:
        """The error that it answers the next request with, instead of executing it; None: it
        executes it."""
        for number, share in self.refusals:
            if self.timeline.random.random() < share:
                self.refused += 1
                return self.ERRORS[number % len(self.ERRORS)]
        return None

    def isolate(self) -> None:
        """Cut it off from the other nodes."""
        raise NotImplementedError

    def reconnect(self) -> None:
        """Let it reach the other nodes again."""
        raise NotImplementedError

    def crash(self) -> None:
        """Go down. Every connection breaks."""
        self.up = False
        self.frozen = 0
        self._waiting.clear()
        for connection in list(self.connections):
            connection.reset()
        self.connections.clear()

    def restart(self, *, loses_data: bool) -> None:
        """Restart, with or without its data."""
        self.up = True
        self.run += 1
        self.started_at = self.timeline.now
        if loses_data:
            self.lost_data_at = self.timeline.now

    def _work(self) -> None:
        """Execute what has arrived: in order for each connection, in any order between them."""
        while self._waiting and not self.frozen:
            some = list(self._waiting)
            connection = some[0] if len(some) == 1 else self.timeline.random.choice(some)
            actions = self._waiting[connection]
            action = actions.pop(0)
            if not actions:
                del self._waiting[connection]
            action()

    def answer(self, connection: Connection, data: Any, reply: Receive) -> None:
        """Execute commands, and send the replies back."""
        raise NotImplementedError

    def places(self, key: str) -> Iterable[Place]:
        """Those that have a lock, and those that wait for it."""
        raise NotImplementedError

    def leases_of(self, lease: LeaseState) -> list[Place]:
        """What it has of a lease, with its fence; usually one place."""
        mine = [place for place in self.places(lease.spec.key) if place.holder == lease.holder]
        return [place for place in mine if place.has_turn and place.fence == lease.fence]

    def knows(self, lease: LeaseState) -> bool:
        """Whether it has the lease, with its fence."""
        return bool(self.leases_of(lease))

    def backs(self, lease: LeaseState, until: float) -> bool:
        """Whether it keeps the lease until that instant, unless it is released."""
        return any(place.ends_at >= until - PRECISION for place in self.leases_of(lease))

    def has_turn(self, key: str, holder: str) -> bool:
        """Whether a holder has the lock or a share of it, or gets it when it asks again."""
        return any(place.has_turn and place.holder == holder for place in self.places(key))

    def remains(self, key: str, holder: str) -> list[Place]:
        """What it has of a holder that has released the lock."""
        return [place for place in self.places(key) if holder_of(place.holder) == holder]

    def leftovers(self) -> list[str]:
        """What must not be there when every lock was released."""
        raise NotImplementedError

    def close(self) -> None:
        """The run is over."""
