"""Sessions: one for each distinct ttl of a client. What hangs on a session ends with it.

How long a session surely lives, which is what our leases rest on:

1. It ends when the *leader* has not heard of it for its timeout. A server that is cut off from the
   leader goes on answering pings and reads, so those prove nothing.
2. A write that was acknowledged proves that the session was alive, but not that the leader has
   counted it: a leader takes note of the sessions of another server only when that server tells it
   which of them were active, twice a tick. If the server is cut off before that, the leader still
   counts from an earlier instant.
3. Server and leader speak over one connection, in order. So if something was sent at one instant,
   and something that the leader answers at least a tick later, then the leader counts from the
   first, or from later. That is `known_at`.
4. A session of which nothing is asked would not be known of. So each has a *pulse*: something that
   the leader answers, twice a tick. A lease is valid until `known_at` + ttl at least, and if
   `known_at` is older than `MARGIN` ticks, no lease is granted or extended before it is newer.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from holdfast.core.ports import Clock
from holdfast.engines.zookeeper.phrases import Call, sync
from holdfast.engines.zookeeper.wire import Servers, Wire

SHORTEST = 4
"""Ticks of the shortest ttl: half of it is left when the margin is taken off."""

LOOKING = 10
"""Ticks of a session in which nothing is held."""

MARGIN = 2
"""Ticks that a lease is shorter than its session."""

SILENCE = 2
"""Ticks after which a server that does not answer is left for another one."""

ROUNDING = 0.0015
"""Timeouts are whole milliseconds."""

FAREWELL = 1.0
"""Seconds for a server to answer that a session has ended."""


USUAL_TICK = 2.0
"""Seconds to a tick, until a server was asked."""


@dataclass(slots=True)
class Terms:
    """What sessions are like on these servers. Times are in seconds."""

    servers: Servers
    given: float | None = None
    """The tick that the URL names."""
    shortest: float = 0.0
    """The shortest session that the servers grant; 0 until one was asked. It has two ticks, unless
    their `minSessionTimeout` says otherwise."""

    @property
    def tick(self) -> float:
        """The servers' tick."""
        return self.given or self.shortest / 2 or USUAL_TICK

    def timeout(self, ttl: float) -> float:
        """The session timeout to ask for: less than that would leave nothing to a lease."""
        return max(ttl, SHORTEST * self.tick)

    def refusal(self, granted: float) -> str:
        """Why sessions of that timeout are of no use; empty if they are."""
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


class Refused(Exception):
    """A server does not grant what was asked for."""


class Session:
    """One session after the other, all of one timeout. `ended` is called when one has ended."""

    def __init__(
        self, terms: Terms, ttl: float, clock: Clock, ended: "Callable[[Session], None]"
    ) -> None:
        self.ttl = ttl
        """The timeout that the servers granted; until they have, the one to ask for."""
        self._asked_for = ttl
        self.id = 0
        """That of the present session; 0 if there is none."""
        self.known_at = -inf
        """The leader has heard of this session at this instant, or later."""
        self._terms, self._clock, self._ended = terms, clock, ended
        self._mutex = threading.Lock()
        self._sent: deque[float] = deque()
        self._beats: deque[float] = deque()
        self._began = -inf
        hosts = random.sample(terms.servers.hosts, len(terms.servers.hosts))  # a share for each
        servers = replace(terms.servers, hosts=tuple(hosts))
        self._wire = Wire(servers, ttl, terms.shortest, self._opening, self._opened)
        self._wire.add_listener(self._changed)
        self._ready = self._wire.handler.async_result()
        self._wire.start_async()

    @property
    def ready(self) -> Any:
        """kazoo's promise that there is a connection."""
        return self._ready

    @property
    def trouble(self) -> str:
        """Why there is no connection, if that is known."""
        return "" if self._ready.ready() else str(self._wire.trouble)

    def send(self, call: Call) -> Any:
        """Say something. Gives kazoo's promise of a result."""
        return call.say(self._wire)

    def answered(self, sent_at: float) -> None:
        """The leader has answered something that was sent then."""
        with self._mutex:
            self._sent.append(sent_at)
            while self._sent[0] <= sent_at - self._terms.tick:
                self.known_at = max(self.known_at, self._sent.popleft())

    def is_surely_alive(self, since: float) -> bool:
        """Whether it lives for a ttl, less the margin, from that instant on."""
        return self.known_at >= since - MARGIN * self._terms.tick

    def beat(self) -> None:
        """Have it heard of; leave a server that is silent, if there is another one."""
        if not self._ready.ready():
            return
        now = self._clock()
        with self._mutex:
            silent_since = self._beats[0] if self._beats else now
            self._beats.append(now)
        if now - silent_since > SILENCE * self._terms.tick and len(self._terms.servers.hosts) > 1:
            self._wire.cut()
        else:
            self.send(sync()).rawlink(lambda result: self._heard(result, now))
            self._wire.nudge()

    def end(self) -> None:
        """End the session, and the connection."""
        self._wire.end(FAREWELL)

    def leave(self) -> Any:
        """The same where no thread can be started any more. Gives kazoo's event of its end."""
        return self._wire.leave()

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        self._wire.forget()

    def _heard(self, result: Any, sent_at: float) -> None:
        with self._mutex:
            while self._beats and self._beats[0] <= sent_at:
                self._beats.popleft()
        if result.successful():
            self.answered(sent_at)

    def _opening(self, shortest: float) -> float:
        """A server is about to be asked for a session: for how long?"""
        self._terms.shortest = shortest
        self._began = self._clock()
        return self._terms.timeout(self._asked_for)

    def _opened(self, session: int, timeout: float) -> None:
        """A server has accepted us, which it asks the leader for."""
        refusal = self._terms.refusal(timeout)
        with self._mutex:
            self.id, self.ttl = session, timeout
            self.known_at = self._began
            self._sent.clear()
            self._beats.clear()
        if refusal:
            self._ready.set_exception(Refused(refusal))
        else:
            self._ready.set(session)

    def _changed(self, state: str) -> None:
        if state == "CONNECTED":
            return  # kazoo says so before it has logged in
        if self._ready.ready():
            self._ready = self._wire.handler.async_result()
        if state == "LOST":
            self.id = 0
            self._ended(self)


class Sessions:
    """All sessions of a client."""

    def __init__(self, terms: Terms, clock: Clock, ended: Callable[[Session], None]) -> None:
        self.terms, self._clock, self._ended = terms, clock, ended
        self.begin()

    def begin(self) -> None:
        """There is no session yet."""
        self.has_containers: bool | None = None
        """Whether the servers remove empty queues by themselves; None: nobody knows yet."""
        self._by_ttl: dict[float, Session] = {}
        self._mutex = threading.Lock()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_ttl.values()))

    def of(self, ttl: float) -> Session:
        """The one for that ttl; it may not be connected yet."""
        session = self._by_ttl.get(ttl)
        if session is None:
            with self._mutex:
                session = self._by_ttl.get(ttl)
                if session is None:
                    session = Session(self.terms, ttl, self._clock, self._ended)
                    self._by_ttl[ttl] = session
        return session

    def any(self) -> Session:
        """One to look at things with: if it can be had, one that is connected."""
        there = list(self)
        connected = (session for session in there if session.ready.ready())
        return next(connected, None) or (there[0] if there else self.of(LOOKING * self.terms.tick))

    def end(self) -> None:
        """End them all, side by side."""
        farewells = [threading.Thread(target=session.end, daemon=True) for session in self]
        for farewell in farewells:
            farewell.start()
        for farewell in farewells:
            farewell.join()

    def leave(self) -> None:
        """The same where no thread can be started any more."""
        give_up_at = self._clock() + FAREWELL
        for ended in [session.leave() for session in self]:
            ended.wait(max(0.0, give_up_at - self._clock()))

    def forget(self) -> None:
        """In a forked child: they are the parent's."""
        for session in self:
            session.forget()
        self.begin()
