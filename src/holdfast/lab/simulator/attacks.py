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
    Pause,
    Refuse,
    Reset,
    Skew,
)
from holdfast.lab.simulator.record import Mark, When

MARKS = tuple(mark for mark in Mark if mark is not Mark.START)
SENT = (Mark.SENT_ACQUIRE, Mark.SENT_RAISE, Mark.SENT_EXTEND, Mark.SENT_RELEASE)
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


def held_up(target: Target) -> list[Fault]:
    """Messages between a client and some nodes are held up, in one direction or both."""
    random, client = target.random, target.client()
    marks = (Mark.ASKED, Mark.GRANTED, Mark.EXTENDED, Mark.RELEASING, Mark.DEADLINE, *SENT)
    to, back = random.choice(((True, False), (False, True), (True, True)))
    when = target.moment(*marks, who=client)
    return [Cut(when, client, target.some(), target.duration(), to, back)]


def frozen_nodes(target: Target) -> list[Fault]:
    """Nodes are paused while a vote or a release is in flight, perhaps until its client has given
    up or died."""
    random = target.random
    when = target.moment(Mark.SENT_ACQUIRE, Mark.SENT_RELEASE, Mark.RELEASING, Mark.REFUSED)
    freeze = Freeze(when, target.some(), target.duration())
    end = random.choice((None, None, Kill, Cancel))
    then = replace(when, delay=when.delay + random.uniform(0, 2) * target.request_timeout)
    return [freeze, *([end(then, target.client())] if end else [])]


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
    off = Cut(When(Mark.ASKED, nth, 0.0, client), client, rest, target.duration())
    return [off, crash]


def restarts(target: Target) -> list[Fault]:
    """Nodes crash and restart, with or without their data."""
    loses_data = target.may_lose_data and target.random.random() < 0.6
    return [Crash(target.moment(), target.some(), target.duration(), loses_data)]


def paused(target: Target) -> list[Fault]:
    """A client is paused while its reply arrives, or while it holds the lock, until about its
    deadline or beyond."""
    random, client = target.random, target.client()
    when = target.moment(Mark.GRANTED, Mark.EXTENDED, Mark.RELEASING, *SENT, who=client)
    if random.random() < 0.6:  # before the reply
        when = replace(when, delay=random.uniform(0, 0.0015))
    lasting = random.choice((target.duration(), random.uniform(0.6, 1.4) * target.ttl))
    return [Pause(when, client, lasting, random.random() < 0.3)]


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
        faults.append(Cut(when, client, nodes, target.duration()))
    if random.random() < 0.6:
        when = target.moment(Mark.SENT_RAISE)
        faults.append(Freeze(When(when.mark, 1, when.delay), target.some(), target.duration()))
    return faults


def broken_connections(target: Target) -> list[Fault]:
    """Connections break, with something in flight or around a wait, and are made again; perhaps
    once more, or while nodes are paused."""
    random, client, nodes = target.random, target.client(), target.some()
    when = target.moment(Mark.ASKED, Mark.RELEASED, Mark.DEADLINE, *SENT, who=client)
    faults: list[Fault] = [Reset(when, client, nodes, ghost=random.random() < 0.7)]
    if random.random() < 0.3:
        faults.append(Reset(target.moment(), client, target.some(), ghost=True))
    if random.random() < 0.3:
        faults.append(Freeze(replace(when, delay=0.0), nodes, target.duration()))
    return faults


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
        faults.append(Cut(when, client, others, target.duration()))
    return faults


def closed_client(target: Target) -> list[Fault]:
    """A client is closed, at any step; some servers may not answer it."""
    random, client = target.random, target.client()
    when = target.moment(who=client)
    deaf = Cut(when, client, target.some(), target.duration())
    return [Close(when, client), *([deaf] if random.random() < 0.4 else [])]


def error_replies(target: Target) -> list[Fault]:
    """Some nodes answer with an error: what is in flight, or all that is sent for a while."""
    random = target.random
    when = target.moment(Mark.ASKED, Mark.GRANTED, Mark.RELEASING, Mark.DEADLINE, *SENT)
    lasting = random.choice((0.002, 0.002, target.duration()))
    error, share = random.randrange(100), random.choice((1.0, 1.0, 0.5))
    return [Refuse(when, target.some(), error, share, lasting)]


def late_session(target: Target) -> list[Fault]:
    """A client connects again, and learns late that its session goes on, or has ended."""
    random, client, nodes = target.random, target.client(), tuple(range(target.nodes))
    when = target.moment(Mark.GRANTED, Mark.EXTENDED, Mark.SENT_EXTEND, Mark.ASKED, who=client)
    soon = When(when.mark, when.nth, when.delay + random.uniform(0, 0.06), client)
    lasting = random.uniform(0, 1) * target.ttl
    cut = Cut(soon, client, nodes, lasting, to=random.random() < 0.3)
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
    *(held_up,) * 4,
    *(frozen_nodes,) * 2,
    *(lost_vote,) * 2,
    restarts,
    *(paused,) * 3,
    dead_holder,
    cancelled,
    *(diverging_counters,) * 2,
    *(broken_connections,) * 2,
    closed_client,
)
"""Those that matter most are there more than once."""

MORE: tuple[Attack, ...] = (error_replies,)
"""Those that are drawn apart from the others, so that these stay what they were."""

OF_ENGINE: dict[str, tuple[Attack, ...]] = {
    "zookeeper": (
        *(cut_off_server, late_session, stopped_leader) * 3,
        closed_client,  # which has sessions to end
    ),
    "sql": (clock_set_back, clock_set_back),
}
"""Those that only the servers of one engine can suffer."""
