"""Attacks on the weak spots of a lock: each is a few faults that work together.

Faults at random hardly ever meet the instants that matter. So each gambit puts them around one: a
vote under way, a grant, a renewal, a release, a deadline; and upon as many nodes as matter: one, a
minority, exactly a quorum, all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from holdfast.engines.redis import quorum_node_timeout
from holdfast.lab.simulator.faults import (
    Cancel,
    Crash,
    Cut,
    Double,
    Fault,
    Freeze,
    Kill,
    Lose,
    Mark,
    Pause,
    Reset,
    Skew,
    Slow,
    When,
)

MARKS = tuple(mark for mark in Mark if mark is not Mark.START)
LATEST = 6
"""Which one of its kind a fault waits for, at the most."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a gambit is played on."""

    random: Random
    nodes: int
    clients: int
    ttl: float
    seconds: float
    may_forget: bool

    @property
    def quorum(self) -> int:
        """How many nodes are a majority."""
        return self.nodes // 2 + 1

    @property
    def request_timeout(self) -> float:
        """How long a client waits for one node."""
        return self.ttl / 3 if self.nodes == 1 else quorum_node_timeout(self.ttl)

    def client(self) -> int:
        """Some client."""
        return self.random.randrange(self.clients)

    def some(self, count: int | None = None) -> tuple[int, ...]:
        """Some nodes: as many as matter, or so many."""
        if count is None:
            count = self.random.choice(
                (1, self.nodes - self.quorum, self.nodes - self.quorum + 1, self.quorum, self.nodes)
            )
        return tuple(self.random.sample(range(self.nodes), max(1, min(count, self.nodes))))

    def moment(self, *marks: Mark, who: int | None = None) -> When:
        """Some instant around such a thing."""
        random = self.random
        if not marks and random.random() < 0.2:
            return When(Mark.START, 1, random.uniform(0, self.seconds))
        mark = random.choice(marks or MARKS)
        return When(mark, random.randint(1, LATEST), self.shift(mark), who)

    def shift(self, mark: Mark) -> float:
        """How long after it."""
        random = self.random
        if mark is Mark.DEADLINE:
            return random.choice((-0.001, 0.0, 0.001, random.uniform(-0.1, 0.1) * self.ttl))
        return random.choice(
            (
                0.0,
                random.uniform(0, 0.002),
                random.uniform(0, 2) * self.request_timeout,
                self.spell() / 2,
            )
        )

    def spell(self) -> float:
        """How long something lasts: a moment, around a node's patience, or around a ttl."""
        random, ttl = self.random, self.ttl
        return random.choice(
            (
                random.uniform(0, 2) * self.request_timeout,
                random.uniform(0.2, 0.9) * ttl,
                random.uniform(0.97, 1.05) * ttl,
                random.uniform(1, 2.5) * ttl,
            )
        )


Gambit: TypeAlias = Callable[[Table], list[Fault]]


def late_votes(table: Table) -> list[Fault]:
    """Nodes stand still while a vote is under way, until its client has given up, or died."""
    when = table.moment(Mark.SENT_ACQUIRE)
    freeze = Freeze(when, table.some(), table.spell())
    end = table.random.choice((None, Kill, Cancel))
    then = When(
        when.mark, when.nth, when.delay + table.random.uniform(0, 2) * table.request_timeout
    )
    return [freeze, *([end(then, table.client())] if end else [])]


def unheard_answers(table: Table) -> list[Fault]:
    """What nodes answer does not arrive, or late: to a vote, a raise, a renewal, a release."""
    client = table.client()
    marks = (Mark.SENT_ACQUIRE, Mark.SENT_RAISE, Mark.SENT_EXTEND, Mark.SENT_RELEASE)
    when = table.moment(*marks, who=client)
    return [Cut(when, client, table.some(), to=False, back=True, lasting=table.spell())]


def unheard_requests(table: Table) -> list[Fault]:
    """What a client says does not arrive, or late."""
    client = table.client()
    marks = (Mark.ASKED, Mark.GRANTED, Mark.EXTENDED, Mark.RELEASING)
    when = table.moment(*marks, who=client)
    return [Cut(when, client, table.some(), to=True, back=False, lasting=table.spell())]


def island(table: Table) -> list[Fault]:
    """A client is cut off from nodes, around a grant or for long."""
    client = table.client()
    when = table.moment(Mark.GRANTED, Mark.ASKED, Mark.EXTENDED, Mark.DEADLINE, who=client)
    return [Cut(when, client, table.some(), to=True, back=True, lasting=table.spell())]


def forgetful_quorum(table: Table) -> list[Fault]:
    """A lock is granted by exactly a quorum, one of which forgets it."""
    random = table.random
    rest = table.some(table.nodes - table.quorum) if table.nodes > 1 else ()
    granting = [node for node in range(table.nodes) if node not in rest]
    client, nth = table.client(), random.randint(1, LATEST)
    grant = When(Mark.GRANTED, nth, random.uniform(0, 0.3) * table.ttl, client)
    crash = Crash(
        grant, (random.choice(granting),), random.uniform(0, 0.3) * table.ttl, table.may_forget
    )
    if not rest:
        return [crash]
    off = Cut(
        When(Mark.ASKED, nth, 0.0, client), client, rest, to=True, back=True, lasting=table.spell()
    )
    return [off, crash]


def restarts(table: Table) -> list[Fault]:
    """Nodes crash and come up again, with what they had or without."""
    forgets = table.may_forget and table.random.random() < 0.6
    return [Crash(table.moment(), table.some(), table.spell(), forgets)]


def stopped_holder(table: Table) -> list[Fault]:
    """A holder stands still until about its deadline."""
    client = table.client()
    marks = (Mark.GRANTED, Mark.EXTENDED, Mark.SENT_EXTEND, Mark.SENT_ACQUIRE, Mark.RELEASING)
    when = table.moment(*marks, who=client)
    return [Pause(when, client, table.spell(), table.random.random() < 0.5)]


def late_hearing(table: Table) -> list[Fault]:
    """A client stands still while its answer comes in, and hears it after its time."""
    random, client = table.random, table.client()
    mark = random.choice((Mark.SENT_EXTEND, Mark.SENT_ACQUIRE, Mark.SENT_RAISE))
    when = When(mark, random.randint(1, LATEST), random.uniform(0, 0.0015), client)
    lasting = random.choice((random.uniform(0.6, 1), random.uniform(0.95, 1.4))) * table.ttl
    return [Pause(when, client, lasting, random.random() < 0.2)]


def dead_holder(table: Table) -> list[Fault]:
    """A client is killed, at any step."""
    client = table.client()
    return [Kill(table.moment(who=client), client)]


def cancelled(table: Table) -> list[Fault]:
    """A client is cancelled, once or twice, at any step."""
    random, client = table.random, table.client()
    when = table.moment(who=client)
    again = When(when.mark, when.nth, when.delay + random.uniform(0, 0.005), client)
    twice = [Cancel(again, client)] if random.random() < 0.4 else []
    return [Cancel(when, client), *twice]


def late_renewal(table: Table) -> list[Fault]:
    """A renewal arrives, or its answers do, around the deadline."""
    random, client = table.random, table.client()
    when = table.moment(Mark.SENT_EXTEND, who=client)
    to = random.random() < 0.5
    lasting = random.uniform(0.3, 1.1) * table.ttl
    nodes = table.some(random.choice((table.quorum, table.nodes)))
    return [Cut(when, client, nodes, to=to, back=not to or random.random() < 0.5, lasting=lasting)]


def diverging_counters(table: Table) -> list[Fault]:
    """Calendars differ, and votes go out to changing quorums: fences have to be raised."""
    random = table.random
    reach = table.ttl * 0.4 if table.may_forget else 30.0
    faults: list[Fault] = [
        Skew(When(Mark.START), client, 1.0, random.uniform(-reach, reach))
        for client in range(table.clients)
    ]
    for _ in range(3):
        client = table.client()
        nodes = table.some(max(1, table.nodes - table.quorum))
        when = table.moment(Mark.ASKED, Mark.SENT_ACQUIRE, Mark.RELEASED)
        faults.append(Cut(when, client, nodes, to=True, back=True, lasting=table.spell()))
    if random.random() < 0.6:
        when = table.moment(Mark.SENT_RAISE)
        faults.append(Freeze(When(when.mark, 1, when.delay), table.some(), table.spell()))
    return faults


def silent_minority(table: Table) -> list[Fault]:
    """Some nodes hear nothing of a release, or hear it late."""
    when = table.moment(Mark.RELEASING, Mark.SENT_RELEASE, Mark.REFUSED)
    return [Freeze(when, table.some(max(1, table.nodes - table.quorum)), table.spell())]


def broken_connections(table: Table) -> list[Fault]:
    """Connections break with something on its way, and are made again."""
    random, client = table.random, table.client()
    marks = (Mark.SENT_ACQUIRE, Mark.SENT_EXTEND, Mark.SENT_RELEASE, Mark.SENT_RAISE)
    when = table.moment(*marks, who=client)
    nodes = table.some()
    faults: list[Fault] = [Reset(when, client, nodes, ghost=random.random() < 0.6)]
    if random.random() < 0.4:
        faults.append(Freeze(When(when.mark, when.nth, 0.0), nodes, table.spell()))
    return faults


def doubled_connections(table: Table) -> list[Fault]:
    """A client connects again, twice at once, around a wait or with something on its way."""
    random, client = table.random, table.client()
    marks = (Mark.ASKED, Mark.SENT_ACQUIRE, Mark.SENT_RELEASE, Mark.RELEASED, Mark.DEADLINE)
    faults: list[Fault] = [Double(table.moment(*marks), client, table.some())]
    if random.random() < 0.4:
        faults.append(Double(table.moment(), client, table.some()))
    return faults


def lost_messages(table: Table) -> list[Fault]:
    """Single messages are lost, there or back."""
    random, client = table.random, table.client()
    when = table.moment(who=client)
    return [Lose(when, client, node, random.random() < 0.5) for node in table.some()]


def slow_network(table: Table) -> list[Fault]:
    """Messages take long, some very."""
    client = table.client()
    return [Slow(table.moment(), client, table.some(), table.spell() + table.ttl)]


GAMBITS: tuple[Gambit, ...] = (
    late_votes,
    unheard_answers,
    unheard_requests,
    island,
    forgetful_quorum,
    forgetful_quorum,
    restarts,
    stopped_holder,
    late_hearing,
    late_hearing,
    dead_holder,
    cancelled,
    late_renewal,
    diverging_counters,
    diverging_counters,
    silent_minority,
    broken_connections,
    doubled_connections,
    lost_messages,
    slow_network,
)
