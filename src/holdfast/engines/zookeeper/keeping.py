"""Keeping what one has, and giving it back."""

from collections.abc import Iterable, Sequence

from kazoo.exceptions import NoNodeError

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Extend
from holdfast.core.ports import Clock
from holdfast.engines.zookeeper import phrases
from holdfast.engines.zookeeper.books import Books, Move, Stake
from holdfast.engines.zookeeper.conversation import Rejected, Round, Talk
from holdfast.engines.zookeeper.names import Tree, name_of, number_of
from holdfast.engines.zookeeper.phrases import Entry, write_entry
from holdfast.engines.zookeeper.session import Sessions
from holdfast.engines.zookeeper.taking import be_known, find


class Keeping:
    """What a client does with its leases."""

    def __init__(self, tree: Tree, sessions: Sessions, books: Books, clock: Clock) -> None:
        self._tree, self._sessions, self._books, self._clock = tree, sessions, books, clock

    def extend(
        self, requests: Sequence[Extend], stakes: Sequence[Stake], asked_at: float
    ) -> Talk[list[Answer]]:
        """Let leases live on that hang on one session: one write is proof for them all, and the
        others are looked for behind it."""
        there: list[bool] = []
        session = stakes[0].session
        while len(there) < len(stakes):
            first, *others = stakes[len(there) :]
            calls = [phrases.put(first.place, first.entry)]
            calls += [phrases.exists(stake.place) for stake in others]
            written, *seen = yield Round(session, calls)
            if isinstance(written, NoNodeError):
                there.append(False)
            else:
                there += [True, *(each is not None for each in seen)]
        if any(there):
            yield from be_known(session, asked_at, self._sessions.terms.tick)
        answers: list[Answer] = []
        for request, stake, is_there in zip(requests, stakes, there, strict=True):
            ends_at = asked_at + request.ttl
            lives = is_there and self._books.prolong(stake, ends_at, self._clock())
            answers.append(DONE if lives else NOT_YOURS)
        return answers

    def lengthen(self, request: Extend, stake: Stake, asked_at: float) -> Talk[list[Answer]]:
        """Let a lease last for longer than its session does: put a place of another session where
        the old one was. It has the same number, so nobody comes between."""
        yield from _settle(stake)
        if request.ttl <= stake.session.ttl:  # an earlier try has come through
            return (yield from self.extend([request], [stake], asked_at))
        session = self._sessions.of(request.ttl)
        yield Round(session, [])  # connected, from here on
        if session.ttl < request.ttl:
            raise Rejected(f"grants sessions of {session.ttl:g} s at most: see maxSessionTimeout")
        name = name_of(session.id, stake.holder, number_of(stake.place))
        entry = write_entry(Entry(request.ttl, stake.fence, stake.holder))
        place = f"{self._tree.queue(stake.key)}/{name}"
        stake.move = move = Move(session, session.id, place, entry)
        [made] = yield Round(session, [phrases.move(stake.place, place, entry)])
        if any(isinstance(each, Exception) for each in made):
            stake.move = None
            return [NOT_YOURS]
        stake.moved(move)
        answers = yield from self.extend([request], [stake], asked_at)
        if answers == [NOT_YOURS]:  # it ended here before it was moved there
            yield Round(session, [phrases.delete(place)])
        return answers

    def release(self, stakes: Sequence[Stake]) -> Talk[list[Answer]]:
        """Give back all that these holders have in one session; and a queue that is empty then, if
        the servers do not see to that."""
        heard = False
        try:
            for stake in stakes:
                yield from _settle(stake)
                if stake.asked and not stake.place:
                    yield from find(stake, self._tree.queue(stake.key))
            known = [stake for stake in stakes if stake.place]
            calls = [phrases.delete(stake.place) for stake in known]
            if self._sessions.has_containers is False:
                calls += [phrases.sweep(self._tree.queue(stake.key)) for stake in known]
            replies = yield Round(stakes[0].session, calls)
            heard = True
        finally:
            for stake in stakes:
                if heard:
                    self._books.close(stake)
                else:
                    stake.over = True  # it is tried again until it is heard
        removed = {
            stake.holder
            for stake, reply in zip(known, replies, strict=False)  # then the sweepings
            if stake.held and not isinstance(reply, NoNodeError)
        }
        return [DONE if stake.holder in removed else NOT_YOURS for stake in stakes]


def _settle(stake: Stake) -> Talk[None]:
    """Find out whether a lease was moved, if nobody knows."""
    move = stake.move
    if move is not None:
        # Another server than was asked for the move may be behind.
        _, there = yield Round(move.session, [phrases.sync(), phrases.exists(move.place)])
        if there is None:
            stake.move = None
        else:
            stake.moved(move)


def by_session(stakes: Iterable[Stake]) -> list[list[Stake]]:
    """The stakes that hang on one session together."""
    groups: dict[int, list[Stake]] = {}
    for stake in stakes:
        groups.setdefault(id(stake.session), []).append(stake)
    return list(groups.values())
