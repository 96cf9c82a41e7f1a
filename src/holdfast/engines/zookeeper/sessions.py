"""Sessions: one for each distinct ttl of a client. Ephemeral nodes end with their session.

How long a session lives at least, on which leases are based:

1. It ends when the *leader* has received nothing of it for its timeout. A server that is cut off
   from the leader goes on answering pings and reads, so those prove nothing.
2. A write that was acknowledged proves that the session was alive, but not that the leader counts
   from it: another server reports to the leader which of its sessions were active, twice a tick. If
   the server is cut off before that, the leader still counts from an earlier instant.
3. So a second request is needed. Request A is answered. At least a tick later, request B is sent,
   and the leader answers it. Before B, the server has reported that the session was active at A:
   it has one connection to the leader, which keeps the order. Now the leader counts from A, or from
   later. `known_at` is the instant at which A was sent.
4. The tick counts from the *answer* to A. A network that was held up may deliver two requests
   together, however long after each other they were sent.
5. Each session sends *heartbeats* that the leader answers, so that `known_at` is never old. A
   session lives until `known_at` + ttl at least. If `known_at` is older than `MARGIN` ticks, no
   lease is granted or extended until it is newer.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any, NamedTuple, TypeAlias, TypeVar

from holdfast.core.effects import Sleep
from holdfast.core.ports import Clock
from holdfast.engines.queue import Rejected
from holdfast.engines.zookeeper.commands import Call, sync
from holdfast.engines.zookeeper.connection import Connection, Servers

T = TypeVar("T")

SHORTEST = 4
"""Ticks of the shortest ttl: half of it is left when the margin is taken off."""

INSPECTING = 10
"""Ticks of a session in which nothing is held."""

MARGIN = 2
"""Ticks that a lease is shorter than its session."""

HEARTBEATS = 3
"""How many there are in a tick: an answer, and what was sent a tick after it, are newer than the
margin then."""

SILENCE = 2
"""Ticks after which the client leaves a server that does not answer for another one."""

ROUNDING = 0.0015
"""Timeouts are whole milliseconds."""

CLOSE_WITHIN = 1.0
"""Seconds for a server to answer that a session is closed."""

USUAL_TICK = 2.0
"""Seconds to a tick, until a server has been asked."""


@dataclass(slots=True)
class Terms:
    """What sessions are like on these servers. Times are in seconds."""

    servers: Servers
    given: float | None = None
    """The tick that the URL names."""
    shortest: float = 0.0
    """The shortest session that the servers grant; 0 until one has been asked. It has two ticks,
    unless their `minSessionTimeout` is set."""

    @property
    def tick(self) -> float:
        """The servers' tick."""
        return self.given or self.shortest / 2 or USUAL_TICK

    def refusal(self, granted: float) -> str:
        """Why sessions of that timeout cannot be used; empty if they can."""
        if self.given and self.given < self.shortest / 2 - ROUNDING:
            return (
                f"tick={self.given:g} is too short: the shortest session of this server has "
                f"{self.shortest:g} s, which is two of its ticks; leave `tick` out of the URL, or "
                f"write tick={self.shortest / 2:g}"
            )
        if granted < SHORTEST * self.tick - ROUNDING:
            return (
                f"grants sessions of {granted:g} s, and a lease needs {SHORTEST} ticks of "
                f"{self.tick:g} s; raise the servers' maxSessionTimeout"
            )
        return ""


class Session:
    """The sessions of one timeout: when one has expired, the next one begins. `ended` is called
    when one has expired."""

    def __init__(
        self,
        terms: Terms,
        ttl: float,
        clock: Clock,
        ended: "Callable[[Session], None]",
        connect: Callable[..., Connection],
        chance: Random,
    ) -> None:
        self.ttl = ttl
        """The timeout that the servers granted; until they have, the one to request."""
        self._asked_for = ttl
        self.id = 0
        """That of the present session; 0 if there is none."""
        self.known_at = -inf
        """The leader knows that this session was alive at this instant, or later."""
        self.writes_at = self.written_at = -inf
        """When a renewal was last sent as a write, and when the last one that was acknowledged."""
        self._terms, self._clock, self._ended = terms, clock, ended
        self._mutex = threading.Lock()
        self._answered: deque[tuple[float, float]] = deque()
        """When requests were sent, and when they were answered, of which the leader may not know
        yet."""
        self._unanswered_since = inf
        """When the first heartbeat was sent since the last one was answered."""
        self._began = -inf
        hosts = terms.servers.hosts
        spread = chance.sample(hosts, len(hosts))  # so that clients spread over them
        servers = replace(terms.servers, hosts=tuple(spread))
        self._connection = connect(servers, ttl, terms.shortest, self._opening, self._opened)
        self._connection.add_listener(self._changed)
        self.ready: Any = self._connection.handler.async_result()
        """kazoo's result for: there is a connection."""
        try:
            self._connection.start_async()
        except RuntimeError as error:  # no thread can be started
            self._connection.end(0.0)
            raise Rejected(str(error)) from error

    @property
    def last_error(self) -> str:
        """Why there is no connection, if that is known."""
        return "" if self.ready.ready() else str(self._connection.last_error)

    def send(self, call: Call) -> Any:
        """Send a request; returns kazoo's result."""
        return call.send(self._connection)

    def answered(self, sent_at: float) -> None:
        """The leader has answered a request that was sent then."""
        now = self._clock()
        with self._mutex:
            while self._answered and self._answered[0][1] <= sent_at - self._terms.tick:
                self.known_at = max(self.known_at, self._answered.popleft()[0])
            self._answered.append((sent_at, now))

    def is_fresh(self, since: float) -> bool:
        """Whether a lease that was asked for at that instant can rest on it: it lives for a ttl,
        less the margin, from then on."""
        return self.known_at >= since - MARGIN * self._terms.tick

    def heartbeat(self) -> None:
        """Send a request that the leader answers; leave a server that is silent, if there is
        another one."""
        if not self.ready.ready():
            return
        now = self._clock()
        if self._unanswered_since == inf:
            self._unanswered_since = now
        is_silent = now - self._unanswered_since > SILENCE * self._terms.tick
        if is_silent and len(self._terms.servers.hosts) > 1:
            self._connection.cut()
        else:
            self.send(sync()).rawlink(lambda result: self._heartbeat_answered(result, now))

    def begin_end(self) -> None:
        """Begin to end it, without waiting for that."""
        self._connection.begin_end()

    def end(self, timeout: float = CLOSE_WITHIN) -> None:
        """End the session, and the connection."""
        self._connection.end(timeout)

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        self._connection.forget()

    def _heartbeat_answered(self, result: Any, sent_at: float) -> None:
        self._unanswered_since = inf
        if result.successful():
            self.answered(sent_at)

    def _opening(self, shortest: float) -> float:
        """A session is about to be requested: the timeout."""
        self._terms.shortest = shortest
        self._began = self._clock()
        return max(self._asked_for, SHORTEST * self._terms.tick)  # less leaves nothing to a lease

    def _opened(self, session: int, timeout: float) -> None:
        """There is a session: the server has asked the leader for it."""
        refusal = self._terms.refusal(timeout)
        with self._mutex:
            self.id, self.ttl = session, timeout
            self.known_at = self._began
            self._answered.clear()
        self._unanswered_since = inf
        if refusal:
            self.ready.set_exception(Rejected(refusal))
        else:
            self.ready.set(session)

    def _changed(self, state: str) -> None:
        if state == "CONNECTED":  # which kazoo reports before it has logged in
            return
        if self.ready.ready():
            self.ready = self._connection.handler.async_result()
        if state == "LOST":
            self.id = 0
            self._ended(self)


class Send(NamedTuple):
    """Calls that are sent together."""

    session: Session
    calls: list[Call]


Calls: TypeAlias = Generator[Send | Sleep, list[Any], T]
"""An exchange with the servers. It is sent the replies: a result, or one of the errors that are
`ANSWERS`. It is closed in the middle if there is no reply."""


class Sessions:
    """All sessions of a client."""

    def __init__(
        self,
        terms: Terms,
        clock: Clock,
        ended: Callable[[Session], None],
        connect: Callable[..., Connection],
        chance: Random,
    ) -> None:
        self.terms, self._clock, self._ended = terms, clock, ended
        self._connect, self._chance = connect, chance
        self._by_ttl: dict[float, Session] = {}
        self._mutex = threading.Lock()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_ttl.values()))

    def of(self, ttl: float) -> Session:
        """The one for that ttl; it may not be connected yet."""
        with self._mutex:
            session = self._by_ttl.get(ttl)
            if session is None:
                session = self._by_ttl[ttl] = Session(
                    self.terms, ttl, self._clock, self._ended, self._connect, self._chance
                )
            return session

    def any(self) -> Session:
        """One to inspect locks with: if there is one, one that is connected."""
        there = list(self)
        connected = (session for session in there if session.ready.ready())
        return next(connected, None) or (
            there[0] if there else self.of(INSPECTING * self.terms.tick)
        )

    def end(self) -> None:
        """End them all, side by side."""
        for session in self:
            session.begin_end()
        until = self._clock() + CLOSE_WITHIN
        for session in self:
            session.end(max(0.0, until - self._clock()))
