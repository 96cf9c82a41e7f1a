"""Which talk there is for which request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from holdfast.core.messages import (
    NOT_YOURS,
    Acquire,
    Answer,
    Extend,
    Failed,
    Release,
    Request,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.zookeeper.books import Books, Stake
from holdfast.engines.zookeeper.conversation import Conversation, Talk
from holdfast.engines.zookeeper.keeping import Keeping, by_session
from holdfast.engines.zookeeper.looking import Looking
from holdfast.engines.zookeeper.names import Tree
from holdfast.engines.zookeeper.session import Session, Sessions, Terms
from holdfast.engines.zookeeper.taking import Taking


@dataclass(frozen=True, slots=True)
class Part:
    """Some of several requests, which are talked over together, and the talk."""

    indices: Sequence[int]
    conversation: Conversation[list[Answer]]

    def answers(self) -> Sequence[Answer]:
        """What came of it."""
        outcome = self.conversation.outcome
        if isinstance(outcome, list):
            return outcome
        return [cast(Failed, outcome)] * len(self.indices)


class Speech:
    """All talks of one client, in whichever colour they are performed."""

    def __init__(self, terms: Terms, chroot: str, around: StoreHost) -> None:
        self.clock, self.emit = around.clock, around.emit
        self.sessions = Sessions(terms, around.clock, self._lose)
        self.books = Books(around.notify)
        self._around = around
        tree = Tree(chroot)
        self._taking = Taking(tree, self.sessions, self.books, around.clock)
        self._keeping = Keeping(tree, self.sessions, self.books, around.clock)
        self._looking = Looking(tree, self.sessions)

    def parts(self, requests: Sequence[Request]) -> list[Part]:
        """What to talk over for these requests, which are all of a kind."""
        first = requests[0]
        if isinstance(first, Acquire):
            now = self.clock()
            return [self._part([0], lambda: self._taking.acquire(first, now))]
        if isinstance(first, Extend):
            return self._extensions(cast("Sequence[Extend]", requests))
        if isinstance(first, Release):
            return self._releases(cast("Sequence[Release]", requests))
        once = isinstance(first, Write)
        return [self._part([0], lambda: self._looking.look(first), once=once)]

    def overdue(self) -> list[Part]:
        """What to talk over because nobody else will: see `Books`."""
        groups = by_session(self.books.overdue(self.clock()))
        return [self._release(range(len(group)), group) for group in groups]

    def forget(self) -> None:
        """In a forked child: everything is the parent's."""
        self.sessions.forget()
        self.books.begin()

    def _lose(self, session: Session) -> None:
        """A session has ended, and with it all that hung on it."""
        if holders := self.books.held_in(session):
            self._around.lose(holders)

    def _extensions(self, requests: Sequence[Extend]) -> list[Part]:
        now = self.clock()
        known = {
            index: stake
            for index, request in enumerate(requests)
            if (stake := self.books.find(request.holder)) is not None and stake.ends_at > now
        }
        longer = [
            index
            for index, stake in known.items()
            if stake.move is not None or requests[index].ttl > stake.session.ttl
        ]
        lengthen, extend = self._keeping.lengthen, self._keeping.extend
        parts = [self._part([i], partial(lengthen, requests[i], known[i], now)) for i in longer]
        for group in by_session(stake for i, stake in known.items() if i not in longer):
            indices = _indices(known, group)
            asked = [requests[i] for i in indices]
            parts.append(self._part(indices, partial(extend, asked, group, now)))
        return parts

    def _releases(self, requests: Sequence[Release]) -> list[Part]:
        known = {
            index: stake
            for index, request in enumerate(requests)
            if (stake := self.books.find(request.holder)) is not None
        }
        groups = by_session(known.values())
        return [self._release(_indices(known, group), group) for group in groups]

    def _release(self, indices: Sequence[int], stakes: list[Stake]) -> Part:
        # Once: what is gone the second time was given back the first time, or was lost before.
        return self._part(indices, lambda: self._keeping.release(stakes), once=True)

    def _part(
        self,
        indices: Sequence[int],
        begin: Callable[[], Talk[list[Answer]]],
        *,
        once: bool = False,
    ) -> Part:
        name = self.sessions.terms.servers.name
        return Part(indices, Conversation(begin, self.clock, name, once))


def answers_of(parts: Sequence[Part], count: int) -> list[Answer]:
    """The answers to all requests; what nobody talked over is not ours."""
    found: list[Answer] = [NOT_YOURS] * count
    for part in parts:
        for index, answer in zip(part.indices, part.answers(), strict=True):
            found[index] = answer
    return found


def _indices(known: dict[int, Stake], group: list[Stake]) -> list[int]:
    wanted = {id(stake) for stake in group}
    return [index for index, stake in known.items() if id(stake) in wanted]
