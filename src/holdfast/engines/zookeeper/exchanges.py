"""Which exchange with the servers there is for which request: what both stores share."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, cast

from holdfast.core.messages import (
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Inspect,
    List,
    Read,
    Release,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.zookeeper.cells import Cells
from holdfast.engines.zookeeper.commands import Tree
from holdfast.engines.zookeeper.connection import Connection
from holdfast.engines.zookeeper.inspect import Inspection
from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Claim, Registry
from holdfast.engines.zookeeper.sessions import HEARTBEATS, Session, Sessions, Terms
from holdfast.engines.zookeeper.steps import Exchange, Steps, Waits, exchange, side_by_side

CHANCE = random.Random()  # noqa: S311 - not a secret


Part: TypeAlias = tuple[Sequence[int], Exchange[list[Answer]]]
"""Some of several requests, by their numbers, and the exchange that answers them together."""


class Exchanges:
    """All exchanges of one client."""

    def __init__(
        self,
        terms: Terms,
        chroot: str,
        host: StoreHost,
        connect: Callable[..., Connection] = Connection,
        chance: random.Random = CHANCE,
    ) -> None:
        self.clock, self.emit = host.clock, host.emit
        self.sessions = Sessions(terms, host.clock, self._lose, connect, chance)
        self.registry = Registry(host.notify)
        self._host = host
        tree = Tree(chroot)
        self._locks = Locks(tree, self.sessions, self.registry, host.clock, chance)
        self._inspection = Inspection(tree, self.sessions)
        self._cells = Cells(tree, self.sessions)

    def ask(self, requests: Sequence[Request], until: float) -> Waits[list[Answer]]:
        """Answer each request, of which all are of a kind; `Failed` for what could not be answered
        by `until`."""
        parts = self._parts(requests, until)
        outcomes = yield from side_by_side([each for _, each in parts], self.clock)
        answers: list[Answer] = [NOT_YOURS] * len(requests)  # a holder without a claim has nothing
        for (numbers, _), outcome in zip(parts, outcomes, strict=True):
            for at, number in enumerate(numbers):
                answers[number] = outcome if isinstance(outcome, Failed) else outcome[at]
        return answers

    @property
    def pause(self) -> float:
        """Seconds between two heartbeats."""
        return self.sessions.terms.tick / HEARTBEATS

    def beat(self) -> Waits[None]:
        """Send the heartbeats of all sessions, and release what is overdue."""
        for session in self.sessions:
            session.heartbeat()
        overdue = dict(enumerate(self.registry.overdue(self.clock())))
        parts = self._releases(overdue, self.clock() + self.sessions.terms.tick / 4)
        yield from side_by_side([each for _, each in parts], self.clock)

    def _parts(self, requests: Sequence[Request], until: float) -> list[Part]:
        """The exchanges for these requests."""
        first, now = requests[0], self.clock()
        claims = {
            number: claim
            for number, request in enumerate(requests)
            if isinstance(request, (Extend, Release))
            and (claim := self.registry.find(request.holder)) is not None
        }
        if isinstance(first, Acquire):
            return [([0], self._exchange(partial(self._locks.acquire, first, now), until))]
        if isinstance(first, Extend):
            return self._extensions(cast("Sequence[Extend]", requests), claims, until)
        if isinstance(first, Release):
            return self._releases(claims, until)
        once = isinstance(first, Write)
        return [([0], self._exchange(partial(self._other, first), until, once=once))]

    def _other(self, request: Break | Inspect | List | Read | Write) -> Steps[list[Answer]]:
        if isinstance(request, Inspect):
            return self._inspection.inspect(request)
        if isinstance(request, List):
            return self._inspection.list_locks(request)
        if isinstance(request, Break):
            return self._inspection.break_lock(request)
        if isinstance(request, Read):
            return self._cells.read(request)
        return self._cells.write(request)

    def forget(self) -> None:
        """In a forked child: everything is the parent's."""
        self.sessions.forget()
        self.registry.begin()

    def _lose(self, session: Session) -> None:
        """A session has ended, and with it all its leases."""
        if holders := self.registry.held_in(session):
            self._host.lose(holders)

    def _extensions(
        self, requests: Sequence[Extend], claims: dict[int, Claim], until: float
    ) -> list[Part]:
        now, parts = self.clock(), list[Part]()
        live = {number: claim for number, claim in claims.items() if claim.ends_at > now}
        for number, claim in list(live.items()):
            if claim.move is not None or requests[number].ttl > claim.session.ttl:
                lengthen = partial(self._locks.lengthen, requests[number], live.pop(number), now)
                parts.append(([number], self._exchange(lengthen, until)))
        for group in _by_session(live):
            asked = [requests[number] for number in group]
            extend = partial(self._locks.extend, asked, list(group.values()), now)
            parts.append((list(group), self._exchange(extend, until)))
        return parts

    def _releases(self, claims: dict[int, Claim], until: float) -> list[Part]:
        # Once: a place that is gone the second time was deleted the first time, or was lost before.
        return [
            (
                list(group),
                self._exchange(
                    partial(self._locks.release, list(group.values())), until, once=True
                ),
            )
            for group in _by_session(claims)
        ]

    def _exchange(
        self, begin: Callable[[], Steps[list[Answer]]], until: float, *, once: bool = False
    ) -> Exchange[list[Answer]]:
        return exchange(begin, until, self.clock, self.sessions.terms.servers.name, once=once)


def _by_session(claims: dict[int, Claim]) -> list[dict[int, Claim]]:
    """Claims in groups of one session."""
    groups: dict[int, dict[int, Claim]] = {}
    for number, claim in claims.items():
        groups.setdefault(id(claim.session), {})[number] = claim
    return list(groups.values())
