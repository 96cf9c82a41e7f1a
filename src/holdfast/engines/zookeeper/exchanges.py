"""Which exchange with the servers there is for which request: what both stores share."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

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
from holdfast.engines.zookeeper.exchange import Exchange, Steps, Waits, run
from holdfast.engines.zookeeper.inspect import Inspection
from holdfast.engines.zookeeper.locks import Locks, by_session
from holdfast.engines.zookeeper.registry import Claim, Registry
from holdfast.engines.zookeeper.sessions import HEARTBEATS, Session, Sessions, Terms

CHANCE = random.Random()  # noqa: S311 - not a secret


@dataclass(frozen=True, slots=True)
class Part:
    """Some of several requests, and the exchange that answers them together."""

    indices: Sequence[int]
    exchange: Exchange[list[Answer]]

    def answers(self) -> Sequence[Answer]:
        """The answers to these requests."""
        outcome = self.exchange.outcome
        if isinstance(outcome, list):
            return outcome
        return [cast(Failed, outcome)] * len(self.indices)


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
        parts = self._parts(requests)
        yield from run([part.exchange for part in parts], until, self.clock)
        return _answers_of(parts, len(requests))

    @property
    def pause(self) -> float:
        """Seconds between two heartbeats."""
        return self.sessions.terms.tick / HEARTBEATS

    def beat(self) -> Waits[None]:
        """Send the heartbeats of all sessions, and release what is overdue."""
        for session in self.sessions:
            session.heartbeat()
        groups = by_session(self.registry.overdue(self.clock()))
        overdue = [self._release(range(len(group)), group).exchange for group in groups]
        yield from run(overdue, self.clock() + self.sessions.terms.tick / 4, self.clock)

    def _parts(self, requests: Sequence[Request]) -> list[Part]:
        """The exchanges for these requests."""
        first = requests[0]
        if isinstance(first, Acquire):
            now = self.clock()
            return [self._part([0], lambda: self._locks.acquire(first, now))]
        if isinstance(first, Extend):
            return self._extensions(cast("Sequence[Extend]", requests))
        if isinstance(first, Release):
            return self._releases(cast("Sequence[Release]", requests))
        return [self._part([0], partial(self._other, first), once=isinstance(first, Write))]

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

    def _extensions(self, requests: Sequence[Extend]) -> list[Part]:
        now = self.clock()
        known = {
            index: claim
            for index, request in enumerate(requests)
            if (claim := self.registry.find(request.holder)) is not None and claim.ends_at > now
        }
        longer = [
            index
            for index, claim in known.items()
            if claim.move is not None or requests[index].ttl > claim.session.ttl
        ]
        lengthen, extend = self._locks.lengthen, self._locks.extend
        parts = [self._part([i], partial(lengthen, requests[i], known[i], now)) for i in longer]
        for group in by_session(claim for i, claim in known.items() if i not in longer):
            indices = _indices(known, group)
            asked = [requests[i] for i in indices]
            parts.append(self._part(indices, partial(extend, asked, group, now)))
        return parts

    def _releases(self, requests: Sequence[Release]) -> list[Part]:
        known = {
            index: claim
            for index, request in enumerate(requests)
            if (claim := self.registry.find(request.holder)) is not None
        }
        groups = by_session(known.values())
        return [self._release(_indices(known, group), group) for group in groups]

    def _release(self, indices: Sequence[int], claims: list[Claim]) -> Part:
        # Once: a place that is gone the second time was deleted the first time, or was lost before.
        return self._part(indices, lambda: self._locks.release(claims), once=True)

    def _part(
        self,
        indices: Sequence[int],
        begin: Callable[[], Steps[list[Answer]]],
        *,
        once: bool = False,
    ) -> Part:
        name = self.sessions.terms.servers.name
        return Part(indices, Exchange(begin, self.clock, name, once))


def _answers_of(parts: Sequence[Part], count: int) -> list[Answer]:
    """The answers to all requests; a holder without a claim has nothing."""
    found: list[Answer] = [NOT_YOURS] * count
    for part in parts:
        for index, answer in zip(part.indices, part.answers(), strict=True):
            found[index] = answer
    return found


def _indices(known: dict[int, Claim], group: list[Claim]) -> list[int]:
    wanted = {id(claim) for claim in group}
    return [index for index, claim in known.items() if id(claim) in wanted]
