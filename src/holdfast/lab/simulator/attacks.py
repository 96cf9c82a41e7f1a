"""Attacks on the weak spots of a lock: each is a few faults that work together.

Faults at random times hardly ever meet the instants that matter. So each attack puts them around
one: a vote in flight, a grant, a renewal, a release, a deadline; and on as many nodes as matter:
one, a minority, exactly a quorum, all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from holdfast.lab.simulator.engines import SimulatedEngine
from holdfast.lab.simulator.faults import (
    Cancel,
    Close,
    Crash,
    Cut,
    Fault,
    Freeze,
    Isolate,
    Jump,
    Kill,
    Lose,
    Pause,
    Reset,
    Skew,
    Slow,
)
from holdfast.lab.simulator.record import Mark, When

MARKS = tuple(mark for mark in Mark if mark is not Mark.START)
LATEST = 6
"""A fault waits for the nth event of its kind, with n up to this."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an attack is played on."""

    random: Random
    engine: SimulatedEngine
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
        return self.ttl / 3 if self.nodes == 1 else self.engine.request_timeout(self.ttl)

    def client(self) -> int:
        """Some client."""
        return self.random.randrange(self.clients)

    def some(self, count: int | None = None) -> tuple[int, ...]:
        """Some nodes: `count`, or as many as matter."""
        if count is None:
            count = self.random.choice(
                (1, self.nodes - self.quorum, self.nodes - self.quorum + 1, self.quorum, self.nodes)
            )
        return tuple(self.random.sample(range(self.nodes), max(1, min(count, self.nodes))))

    def moment(self, *marks: Mark, who: int | None = None) -> When:
        """An instant around an event of one of these kinds."""
        random = self.random
        if not marks and random.random() < 0.2:
            return When(Mark.START, 1, random.uniform(0, self.seconds))
        mark = random.choice(marks or MARKS)
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


Attack: TypeAlias = Callable[[Target], list[Fault]]


def late_votes(target: Target) -> list[Fault]:
    """Nodes are paused while a vote is in flight, until its client has given up or died."""
    when = target.moment(Mark.SENT_ACQUIRE)
    freeze = Freeze(when, target.some(), target.duration())
    end = target.random.choice((None, Kill, Cancel))
    then = When(
        when.mark, when.nth, when.delay + target.random.uniform(0, 2) * target.request_timeout
    )
    return [freeze, *([end(then, target.client())] if end else [])]


def _held_up(*marks: Mark, to: bool = False, back: bool = False) -> Attack:
    """Messages between a client and nodes are held up, after an event of one of these kinds."""

    def attack(target: Target) -> list[Fault]:
        client = target.client()
        when = target.moment(*marks, who=client)
        return [Cut(when, client, target.some(), to=to, back=back, lasting=target.duration())]

    return attack


late_answers = _held_up(
    Mark.SENT_ACQUIRE, Mark.SENT_RAISE, Mark.SENT_EXTEND, Mark.SENT_RELEASE, back=True
)
late_requests = _held_up(Mark.ASKED, Mark.GRANTED, Mark.EXTENDED, Mark.RELEASING, to=True)
isolated_client = _held_up(
    Mark.GRANTED, Mark.ASKED, Mark.EXTENDED, Mark.DEADLINE, to=True, back=True
)


def lost_vote(target: Target) -> list[Fault]:
    """A lock is granted by exactly a quorum, and one of these nodes loses it."""
    random = target.random
    rest = target.some(target.nodes - target.quorum) if target.nodes > 1 else ()
    granting = [node for node in range(target.nodes) if node not in rest]
    client, nth = target.client(), random.randint(1, LATEST)
    grant = When(Mark.GRANTED, nth, random.uniform(0, 0.3) * target.ttl, client)
    crash = Crash(
        grant, (random.choice(granting),), random.uniform(0, 0.3) * target.ttl, target.may_lose_data
    )
    if not rest:
        return [crash]
    off = Cut(
        When(Mark.ASKED, nth, 0.0, client),
        client,
        rest,
        to=True,
        back=True,
        lasting=target.duration(),
    )
    return [off, crash]


def restarts(target: Target) -> list[Fault]:
    """Nodes crash and restart, with or without their data."""
    loses_data = target.may_lose_data and target.random.random() < 0.6
    return [Crash(target.moment(), target.some(), target.duration(), loses_data)]


def stopped_holder(target: Target) -> list[Fault]:
    """A holder is paused until about its deadline."""
    client = target.client()
    marks = (Mark.GRANTED, Mark.EXTENDED, Mark.SENT_EXTEND, Mark.SENT_ACQUIRE, Mark.RELEASING)
    when = target.moment(*marks, who=client)
    return [Pause(when, client, target.duration(), target.random.random() < 0.5)]


def late_reading(target: Target) -> list[Fault]:
    """A client is paused while its reply arrives, and reads it after the deadline."""
    random, client = target.random, target.client()
    mark = random.choice((Mark.SENT_EXTEND, Mark.SENT_ACQUIRE, Mark.SENT_RAISE))
    when = When(mark, random.randint(1, LATEST), random.uniform(0, 0.0015), client)
    lasting = random.choice((random.uniform(0.6, 1), random.uniform(0.95, 1.4))) * target.ttl
    return [Pause(when, client, lasting, random.random() < 0.2)]


def dead_holder(target: Target) -> list[Fault]:
    """A client is killed, at any step."""
    client = target.client()
    return [Kill(target.moment(who=client), client)]


def cancelled(target: Target) -> list[Fault]:
    """A client is cancelled, once or twice, at any step."""
    random, client = target.random, target.client()
    when = target.moment(who=client)
    again = When(when.mark, when.nth, when.delay + random.uniform(0, 0.005), client)
    twice = [Cancel(again, client)] if random.random() < 0.4 else []
    return [Cancel(when, client), *twice]


def late_renewal(target: Target) -> list[Fault]:
    """A renewal arrives, or its answers do, around the deadline."""
    random, client = target.random, target.client()
    when = target.moment(Mark.SENT_EXTEND, who=client)
    to = random.random() < 0.5
    lasting = random.uniform(0.3, 1.1) * target.ttl
    nodes = target.some(random.choice((target.quorum, target.nodes)))
    return [Cut(when, client, nodes, to=to, back=not to or random.random() < 0.5, lasting=lasting)]


def diverging_counters(target: Target) -> list[Fault]:
    """Wall clocks differ, and votes go to changing quorums: fences have to be raised."""
    random = target.random
    reach = target.ttl * 0.4 if target.may_lose_data else 30.0
    faults: list[Fault] = [
        Skew(When(Mark.START), client, 1.0, random.uniform(-reach, reach))
        for client in range(target.clients)
    ]
    for _ in range(3):
        client = target.client()
        nodes = target.some(max(1, target.nodes - target.quorum))
        when = target.moment(Mark.ASKED, Mark.SENT_ACQUIRE, Mark.RELEASED)
        faults.append(Cut(when, client, nodes, to=True, back=True, lasting=target.duration()))
    if random.random() < 0.6:
        when = target.moment(Mark.SENT_RAISE)
        faults.append(Freeze(When(when.mark, 1, when.delay), target.some(), target.duration()))
    return faults


def late_releases(target: Target) -> list[Fault]:
    """Some nodes do not receive a release, or receive it late."""
    when = target.moment(Mark.RELEASING, Mark.SENT_RELEASE, Mark.REFUSED)
    return [Freeze(when, target.some(max(1, target.nodes - target.quorum)), target.duration())]


def broken_connections(target: Target) -> list[Fault]:
    """Connections break with something in flight, and are made again."""
    random, client = target.random, target.client()
    marks = (Mark.SENT_ACQUIRE, Mark.SENT_EXTEND, Mark.SENT_RELEASE, Mark.SENT_RAISE)
    when = target.moment(*marks, who=client)
    nodes = target.some()
    faults: list[Fault] = [Reset(when, client, nodes, ghost=random.random() < 0.6)]
    if random.random() < 0.4:
        faults.append(Freeze(When(when.mark, when.nth, 0.0), nodes, target.duration()))
    return faults


def reconnections(target: Target) -> list[Fault]:
    """Connections break around a wait, and are made again; what was in flight is executed."""
    random, client = target.random, target.client()
    marks = (Mark.ASKED, Mark.SENT_ACQUIRE, Mark.SENT_RELEASE, Mark.RELEASED, Mark.DEADLINE)
    faults: list[Fault] = [Reset(target.moment(*marks), client, target.some(), ghost=True)]
    if random.random() < 0.4:
        faults.append(Reset(target.moment(), client, target.some(), ghost=True))
    return faults


def lost_messages(target: Target) -> list[Fault]:
    """Single messages are lost, there or back."""
    random, client = target.random, target.client()
    when = target.moment(who=client)
    return [Lose(when, client, node, random.random() < 0.5) for node in target.some()]


def slow_network(target: Target) -> list[Fault]:
    """Messages take long, some very."""
    client = target.client()
    return [Slow(target.moment(), client, target.some(), target.duration() + target.ttl)]


def cut_off_server(target: Target) -> list[Fault]:
    """A server is cut off from the others, and goes on answering what it can by itself; its client
    may be cut off from the others, too, or hold a lock until about its deadline."""
    random = target.random
    marks = (Mark.GRANTED, Mark.EXTENDED, Mark.SENT_ACQUIRE, Mark.SENT_EXTEND, Mark.RELEASING)
    when = target.moment(*marks)
    nodes = target.some(1)
    faults: list[Fault] = [Isolate(when, nodes, target.duration())]
    if random.random() < 0.4:
        client = target.client()
        others = tuple(node for node in range(target.nodes) if node not in nodes)
        faults.append(Cut(when, client, others, to=True, back=True, lasting=target.duration()))
    return faults


def closed_client(target: Target) -> list[Fault]:
    """A client is closed, at any step; some servers may not answer it."""
    random, client = target.random, target.client()
    when = target.moment(who=client)
    deaf = Cut(when, client, target.some(), to=True, back=True, lasting=target.duration())
    return [Close(when, client), *([deaf] if random.random() < 0.4 else [])]


def late_session(target: Target) -> list[Fault]:
    """A client connects again, and learns late that its session goes on, or has ended."""
    random, client, nodes = target.random, target.client(), tuple(range(target.nodes))
    when = target.moment(Mark.GRANTED, Mark.EXTENDED, Mark.SENT_EXTEND, Mark.ASKED, who=client)
    soon = When(when.mark, when.nth, when.delay + random.uniform(0, 0.06), client)
    lasting = random.uniform(0, 1) * target.ttl
    cut = Cut(soon, client, nodes, to=random.random() < 0.3, back=True, lasting=lasting)
    return [Reset(when, client, nodes, ghost=random.random() < 0.6), cut]


def stopped_leader(target: Target) -> list[Fault]:
    """A server is stopped, maybe the leader, or cut off from the leader; just after that, one is
    cut off: what clients sent meanwhile is answered, and hardly anything else arrives."""
    random = target.random
    when = target.moment(Mark.GRANTED, Mark.EXTENDED, Mark.SENT_EXTEND, Mark.START)
    first, *others = target.some(2)
    if not others:
        return [Freeze(when, (first,), target.duration())]
    ticks = target.engine.ttl_step * random.uniform(0, 3)
    end = When(when.mark, when.nth, when.delay + ticks + random.uniform(0, 0.003))
    lasting = random.uniform(0.5, 2) * target.ttl
    if random.random() < 0.5:
        return [Freeze(when, (first,), ticks), Isolate(end, tuple(others), lasting)]
    return [Isolate(when, (first,), ticks), Isolate(end, (first,), lasting)]


def clock_set_back(target: Target) -> list[Fault]:
    """A clock is set far back around a grant or a release; perhaps that client is killed."""
    random, client = target.random, target.client()
    mark = random.choice((Mark.GRANTED, Mark.GRANTED, Mark.RELEASED, Mark.ASKED))
    when = When(mark, random.randint(1, 3), target.shift(mark), client)
    faults: list[Fault] = [Jump(when, node, -random.uniform(1, 100)) for node in target.some()]
    if random.random() < 0.5:
        faults.append(Kill(replace(when, delay=when.delay + random.uniform(0, 0.1)), client))
    return faults


ATTACKS: tuple[Attack, ...] = (
    late_votes,
    late_answers,
    late_requests,
    isolated_client,
    lost_vote,
    lost_vote,
    restarts,
    stopped_holder,
    late_reading,
    late_reading,
    dead_holder,
    cancelled,
    late_renewal,
    diverging_counters,
    diverging_counters,
    late_releases,
    broken_connections,
    reconnections,
    lost_messages,
    slow_network,
)

OF_ENGINE: dict[str, tuple[Attack, ...]] = {
    "zookeeper": (
        *(cut_off_server, late_session, stopped_leader) * 3,
        *(closed_client,) * 2,
    ),
    "sql": (clock_set_back, clock_set_back),
}
"""Those that only the servers of one engine can suffer."""
