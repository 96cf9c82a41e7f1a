"""Attacks on the weak spots of a lock: each is a few faults that work together.

Faults at random times hardly ever meet the instants that matter. So each attack puts them around
one: a vote in flight, a grant, a renewal, a release, a deadline; and on as many nodes as matter:
one, a minority, exactly a quorum, all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from holdfast.lab.simulator.faults import (
    Break,
    Cancel,
    Close,
    Crash,
    Cut,
    Fault,
    Freeze,
    Isolate,
    Jump,
    Kill,
    Outage,
    Pause,
    Refuse,
    Reset,
)
from holdfast.lab.simulator.record import Mark, When
from holdfast.lab.simulator.store import SimulatedEngine

OF_VOTES = (Mark.SENT_RAISE, Mark.SENT_REPAIR)
"""Only over a quorum."""
MARKS = tuple(mark for mark in Mark if mark is not Mark.START and mark not in OF_VOTES)
LATEST = 6
"""A fault waits for the nth event of its kind, with n up to this."""

AT_ONCE = 0.002
"""So short that only what is in flight is answered with an error."""

KINDS: tuple[type[Fault], ...] = (
    *(Cut,) * 4,
    *(Pause,) * 3,
    *(Freeze,) * 2,
    *(Crash,) * 2,
    *(Reset,) * 2,
    *(Refuse,) * 4,
    *(Break, Cancel, Close, Kill),
)
"""Those that matter most are there more than once."""

ALSO: dict[str, tuple[type[Fault], ...]] = {"zookeeper": (Isolate,) * 5, "sql": (Jump,) * 2}
"""Those that only the servers of one engine can suffer."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an attack is played on."""

    random: Random
    engine: SimulatedEngine
    kinds: tuple[type[Fault], ...]
    shares: tuple[int, ...]
    marks: tuple[Mark, ...]
    names: tuple[str, ...]
    nodes: int
    clients: int
    ttl: float
    seconds: float
    may_lose_data: bool

    @property
    def quorum(self) -> int:
        """How many nodes are a majority."""
        return self.nodes // 2 + 1

    @property
    def request_timeout(self) -> float:
        """How long a client waits for one node."""
        return self.engine.request_timeout(self.ttl, self.nodes)

    def client(self) -> int:
        return self.random.randrange(self.clients)

    def some(self, count: int | None = None) -> tuple[int, ...]:
        """Some nodes: `count`, or as many as matter."""
        if count is None:
            count = self.random.choice(
                (1, self.nodes - self.quorum, self.nodes - self.quorum + 1, self.quorum, self.nodes)
            )
        return tuple(self.random.sample(range(self.nodes), max(1, min(count, self.nodes))))

    def others(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """The other nodes; if there are none, the same."""
        return tuple(node for node in range(self.nodes) if node not in nodes) or nodes

    def moment(self, *marks: Mark, who: int | None = None) -> When:
        """An instant around an event, of one of these kinds if there are some."""
        random = self.random
        mark = random.choice(marks or self.marks)
        return When(mark, random.randint(1, LATEST), self.shift(mark), who)

    def shift(self, mark: Mark) -> float:
        """How long after the event."""
        random = self.random
        if mark is Mark.DEADLINE:
            return random.choice((-0.001, 0.0, 0.001, random.uniform(-0.1, 0.1) * self.ttl))
        return random.choice(
            (
                0.0,
                random.uniform(0, 0.002),
                random.uniform(0, 2) * self.request_timeout,
                self.duration() / 2,
            )
        )

    def duration(self) -> float:
        """How long something lasts: about a request timeout, part of a ttl, or about a ttl."""
        random, ttl = self.random, self.ttl
        return random.choice(
            (
                random.uniform(0, 2) * self.request_timeout,
                random.uniform(0.2, 0.9) * ttl,
                random.uniform(0.97, 1.05) * ttl,
                random.uniform(1, 2.5) * ttl,
            )
        )

    def fault(self, when: When, client: int, nodes: tuple[int, ...]) -> Fault:
        """Something that happens to this client, or to these nodes."""
        random, lasting = self.random, self.duration()
        kind = random.choice(self.kinds)
        if kind is Cut:
            to, back = random.choice(((True, False), (False, True), (True, True)))
            return Cut(when, client, nodes, lasting, to, back)
        if kind is Crash:
            return Crash(when, nodes, lasting, self.may_lose_data and random.random() < 0.6)
        if kind is Reset:
            return Reset(when, client, nodes, ghost=random.random() < 0.7)
        if kind is Pause:
            return Pause(when, client, lasting, timers_first=random.random() < 0.3)
        if kind is Jump:
            return Jump(when, nodes[0], -random.uniform(1, 100))
        if kind is Refuse:
            error, share = random.randrange(100), random.choice((1.0, 1.0, 0.5))
            return Refuse(when, nodes, error, share, random.choice((AT_ONCE, lasting)))
        if kind is Break:
            return Break(when, client, random.choice(self.names), random.random() < 0.5)
        if issubclass(kind, Outage):
            return kind(when, nodes, lasting)
        if issubclass(kind, (Cancel, Close)):
            return kind(when, client)
        return Kill(when, client)


Attack: TypeAlias = Callable[[Target], list[Fault]]


def around_one_event(target: Target) -> list[Fault]:
    """One to three faults around one event: of one client, and on the same nodes or on the rest."""
    random, client, nodes = target.random, target.client(), target.some()
    event = target.moment(who=random.choice((client, client, None)))
    faults: list[Fault] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        when = replace(event, delay=target.shift(event.mark))
        where = random.choice((nodes, nodes, target.others(nodes)))
        faults.append(target.fault(when, client, where))
    return faults


def lost_vote(target: Target) -> list[Fault]:
    """A lock is granted by exactly a quorum, and one of these nodes loses it."""
    random = target.random
    granting = target.some(target.quorum)
    client, nth = target.client(), random.randint(1, LATEST)
    asked, granted = (When(mark, nth, 0.0, client) for mark in (Mark.ASKED, Mark.GRANTED))
    soon, lasting = (random.uniform(0, 0.3) * target.ttl for _ in range(2))
    off = Cut(asked, client, target.others(granting), target.duration())
    crash = Crash(replace(granted, delay=soon), granting[:1], lasting, target.may_lose_data)
    return [off, crash]


def diverging_counters(target: Target) -> list[Fault]:
    """Votes go to changing quorums, so that fences have to be raised, on nodes that pause."""
    marks = (Mark.ASKED, Mark.SENT_ACQUIRE, Mark.RELEASED)
    minority = max(1, target.nodes - target.quorum)
    cuts = [
        Cut(target.moment(*marks), target.client(), target.some(minority), target.duration())
        for _ in range(3)
    ]
    raised = replace(target.moment(Mark.SENT_RAISE), nth=1)
    return [*cuts, Freeze(raised, target.some(), target.duration())]


ANYWHERE: tuple[Attack, ...] = (around_one_event,)
OVER_A_QUORUM: tuple[Attack, ...] = (*(around_one_event,) * 4, lost_vote, diverging_counters)
