"""Getting a lock: take a place in its queue, and hold the lock if it is the first.

What can happen between two rounds, and what then:

- The reply to a join is lost: asked again, we look for a place with our secret first. If it is not
  there it will never be: what a session says is carried out in order, a server that takes a session
  over ends what was said elsewhere, and before we look it has caught up with the leader.
- The session ends while we wait: our place is gone, and we join the queue anew.
- It ends unheard of, because our server is cut off and shows an old state in which we are first:
  so whoever has waited writes to its own place, and holds the lock only when the leader, and with
  it a majority, has acknowledged that.
- The one before us is gone before we could watch it: we look again.
- The queue itself is gone, since it was empty: it is made again.
"""

import random
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError, UnimplementedError

from holdfast.core.messages import Acquire, Answer, Granted, Held
from holdfast.core.ports import Clock
from holdfast.engines.zookeeper import phrases
from holdfast.engines.zookeeper.books import Books, Stake
from holdfast.engines.zookeeper.conversation import Rejected, Rest, Round, Talk
from holdfast.engines.zookeeper.names import (
    SESSION,
    Place,
    Tree,
    in_order,
    parents,
    prefix,
    secret_of,
)
from holdfast.engines.zookeeper.phrases import Entry, write_entry
from holdfast.engines.zookeeper.session import Session, Sessions

SETTLED = 0.1
"""Seconds after which the first place in a queue is taken for a holder's. A try that comes to
nothing is gone sooner than that, unless its process was stopped."""

LOOK_AGAIN = 0.02
"""Seconds at the most until one who tries looks again whether others, who only try, have gone."""

BACKSTOP = 10.0
"""Seconds after which a waiter asks again although nobody has woken it."""


class Taking:
    """How a client gets locks."""

    def __init__(self, tree: Tree, sessions: Sessions, books: Books, clock: Clock) -> None:
        self._tree, self._sessions, self._books, self._clock = tree, sessions, books, clock

    def acquire(self, request: Acquire, asked_at: float) -> Talk[list[Answer]]:
        """Hold the lock if it is our turn; else wait for it, if that is wanted."""
        session = self._sessions.of(request.ttl)
        stake = self._books.open(request.key, request.holder, session)
        if stake is None:
            raise Rejected("what it had before is being given back", heals_in=None)
        queue = self._tree.queue(request.key)
        while True:
            places = yield from self._take_part(stake, queue, waits=request.queue)
            if places is None:
                continue
            before = _before(places, stake)
            if before is None:
                return [(yield from self._hold(stake, asked_at))]
            if not request.queue:
                if request.once and not (yield from self._is_held(places[0], stake, asked_at)):
                    continue
                yield Round(stake.session, [phrases.delete(stake.place)])
                self._books.close(stake)
                return [Held(BACKSTOP, wakes=True)]
            watching = phrases.watch(f"{queue}/{before.name}", stake.wake)
            [there] = yield Round(stake.session, [watching])
            if not isinstance(there, NoNodeError):
                return [Held(BACKSTOP, wakes=True)]

    def _take_part(self, stake: Stake, queue: str, *, waits: bool) -> Talk[list[Place] | None]:
        """Have a place in the queue. Gives all places; None if it came to nothing."""
        session = stake.session
        if not session.id or session.id != stake.owner:
            yield Round(session, [])  # connected, from here on
            if stake.place and session.id != stake.owner:
                stake.gone()
            stake.entry = write_entry(Entry(session.ttl, 0, stake.holder))
        if stake.asked and not stake.place:
            yield from find(stake, queue)
        if stake.place:
            names = yield from self._return(stake, queue)
        else:
            names = yield from self._join(stake, queue, waits=waits)
        if not isinstance(names, list) or stake.place.rpartition("/")[2] not in names:
            stake.gone()
            return None
        return in_order(names)

    def _return(self, stake: Stake, queue: str) -> Talk[Any]:
        """See whether our place is there, and have it acknowledged."""
        calls = [phrases.put(stake.place, stake.entry), phrases.children(queue)]
        written, names = yield Round(stake.session, calls)
        if isinstance(written, NoNodeError):
            return None
        stake.found(stake.place, stake.fence or written.czxid)
        return names

    def _join(self, stake: Stake, queue: str, *, waits: bool) -> Talk[Any]:
        """Go to the end of the queue, and look at it in the same breath."""
        session = stake.session
        if self._sessions.has_containers is None:
            yield from self._make_queue(session, queue)  # if need be, and if we may
        stake.owner, stake.asked = session.id, True
        name = prefix(session.id, stake.holder, waits=waits)
        joining = phrases.join(queue, name, stake.entry)
        made, names = yield Round(session, [joining, phrases.children(queue)])
        if isinstance(made, NoNodeError):
            refused = yield from self._make_queue(session, queue)
            if refused:
                raise Rejected(f"NoAuth: does not let us make {queue}")
            return None
        if _is_unknown(made):
            raise Rejected("is too old: it must be ZooKeeper 3.5 or later")
        place, known = made
        stake.found(place, known.czxid)
        stake.created_at = known.ctime
        if known.ephemeralOwner != stake.owner:  # another session has begun meanwhile
            yield Round(session, [phrases.delete(place)])
            return None
        return names

    def _make_queue(self, session: Session, queue: str) -> Talk[bool]:
        """Make a queue, as a container if the servers have those, and what is missing above it.
        Whoever was faster is welcome; what is removed again meanwhile is made again by whoever
        needs it. Gives whether we may not."""
        make = phrases.node if self._sessions.has_containers is False else phrases.container
        replies = yield Round(session, [make(queue)])
        self._sessions.has_containers = make is phrases.container and not _is_unknown(replies[0])
        if isinstance(replies[0], NoNodeError):
            replies = yield Round(session, [make(path) for path in parents(queue)])
        missing = isinstance(replies[-1], (NoNodeError, NoAuthError))
        return missing and any(isinstance(each, NoAuthError) for each in replies)

    def _is_held(self, first: Place, stake: Stake, asked_at: float) -> Talk[bool]:
        """Whether the first place is a holder's, and not that of another try which is about to go:
        those are young. If it may be, wait for a moment."""
        if first.waits:
            return True
        queue = self._tree.queue(stake.key)
        [found] = yield Round(stake.session, [phrases.exists(f"{queue}/{first.name}")])
        if found is None:
            return False
        age = (stake.created_at - found.ctime) / 1000 + self._clock() - asked_at
        if age >= SETTLED:
            return True
        yield Rest(random.uniform(0.2, 1.0) * LOOK_AGAIN)  # noqa: S311 - so as not to meet again
        return False

    def _hold(self, stake: Stake, asked_at: float) -> Talk[Answer]:
        """It is our turn."""
        yield from be_known(stake.session, asked_at, self._sessions.terms.tick)
        ttl = stake.session.ttl
        stake.ends_at = asked_at + ttl
        return Granted(stake.fence, ttl=ttl)


def be_known(session: Session, since: float, tick: float) -> Talk[None]:
    """See to it that the leader counts our time from about `since`, or later."""
    while not session.is_surely_alive(since):
        yield Rest(tick / 2)
        yield Round(session, [phrases.sync()])


def find(stake: Stake, queue: str) -> Talk[None]:
    """Look for a place that we may have. One that is of an earlier session is removed."""
    # Another server than we asked for it may be behind, or it may still be on its way to all.
    _, names = yield Round(stake.session, [phrases.sync(), phrases.children(queue)])
    mine: list[Place] = []
    if not isinstance(names, NoNodeError):
        secret = secret_of(stake.holder)
        mine = [place for place in in_order(names) if place.secret == secret]
    stake.gone()
    for place in mine:
        path = f"{queue}/{place.name}"
        if place.session == stake.session.id & SESSION:
            stake.owner = stake.session.id
            stake.found(path)
        else:
            yield Round(stake.session, [phrases.delete(path)])


def _is_unknown(reply: Any) -> bool:
    """Whether a server does not know what it was asked for."""
    return isinstance(reply, UnimplementedError)


def _before(places: list[Place], stake: Stake) -> Place | None:
    """The place before ours; None if ours is the first."""
    own = stake.place.rpartition("/")[2]
    index = [place.name for place in places].index(own)
    return places[index - 1] if index else None
