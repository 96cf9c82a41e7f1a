"""Acquire, extend and release.

To acquire is to create a place in the queue, and to hold the lock if it is the first, or if those
before it share the lock. What can happen between two rounds, and what then:

- The reply to a join is lost: when the client is asked again, it first looks for a place with its
  secret. If that is not there, it will never be. The requests of a session are carried out in
  order; once a session has moved to another server, what it had sent to the former one is not
  carried out any more; and the client has its server catch up with the leader before it looks.
- The session ends while the client waits, or before the leader is known to count its time: its
  place is gone, and it joins the queue again.
- The client's server is cut off and shows an old state, in which the client is the first although
  its session has ended: so a waiter writes to its own place, and holds the lock only when the
  leader, and with it a majority, has acknowledged that.
- The place before is gone before it could be watched: the client looks again.
- The queue itself is gone, since it was empty, or it is the first time: it is created.
"""

from collections.abc import Sequence
from math import inf
from operator import attrgetter
from random import Random
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

from holdfast.core.effects import Sleep
from holdfast.core.messages import DONE, NOT_YOURS, Acquire, Answer, Extend, Granted
from holdfast.core.ports import Clock
from holdfast.engines.queue import HELD, Rejected, in_the_way
from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import Entry, Place, Tree, in_order
from holdfast.engines.zookeeper.registry import Claim, Registry
from holdfast.engines.zookeeper.sessions import Calls, Send, Session, Sessions

SHARES_OF = attrgetter("shares")

OLD_ENOUGH = 0.1
"""Seconds after which a place is taken for a holder's. A try that failed deletes its place sooner
than that, unless its process was stopped."""

LOOK_AGAIN = 0.02
"""After at most this many seconds, a try looks again whether other tries have deleted their places,
and an extension whether another one of the same lease is over."""


class Locks:
    """The locks of one client."""

    def __init__(
        self,
        tree: Tree,
        sessions: Sessions,
        registry: Registry,
        clock: Clock,
        chance: Random,
    ) -> None:
        self._tree, self._sessions, self._registry, self._clock = tree, sessions, registry, clock
        self._chance = chance

    def acquire(self, request: Acquire, asked_at: float) -> Calls[Answer]:
        """Hold the lock if the place has its turn; else wait for it, if that is wanted."""
        session = self._sessions.of(request.ttl)
        claim = self._registry.open(request, session)
        if claim is None:
            raise Rejected("an earlier release of this holder is pending")
        queue = self._tree.queue(request.key)
        while True:
            places = yield from self._have_place(claim, queue, request)
            if places is None:
                continue
            before = _before(places, claim)
            obstacles = in_the_way(before, claim.shares, SHARES_OF)
            if not obstacles:
                if (granted := (yield from self._hold(claim, asked_at))) is None:
                    continue
                return granted
            if not request.queue:
                decisive = _decisive(before, claim.shares)
                if not (yield from self._is_held(decisive, claim, asked_at)):
                    continue
                yield Send(claim.session, [commands.delete(claim.place)])
                self._registry.close(claim)
                return HELD
            claim.watched = [f"{queue}/{each.name}" for each in obstacles]
            watching = [commands.watch(each, self._registry.wake) for each in claim.watched]
            there = yield Send(claim.session, watching)
            if not any(isinstance(each, NoNodeError) for each in there):
                return HELD

    def _have_place(self, claim: Claim, queue: str, request: Acquire) -> Calls[list[Place] | None]:
        """Have a place in the queue. Returns all places; None if it has none."""
        session = claim.session
        if not session.id or session.id != claim.owner:
            yield Send(session, [])  # connected, from here on
            if claim.place and session.id != claim.owner:
                claim.gone()
            claim.entry = commands.write_entry(Entry(session.ttl, 0, claim.holder))
        if claim.doubtful:
            yield from self._find(claim)
        if claim.place:
            names = yield from self._acknowledge(claim, queue)
        else:
            names = yield from self._join(claim, queue, request)
        if not isinstance(names, list) or claim.place.rpartition("/")[2] not in names:
            claim.gone()
            return None
        return in_order(names)

    def _acknowledge(self, claim: Claim, queue: str) -> Calls[Any]:
        """Have the leader acknowledge that the place is there."""
        calls = [commands.put(claim.place, claim.entry), commands.children(queue)]
        written, names = yield Send(claim.session, calls)
        if isinstance(written, NoNodeError):
            return None
        claim.found(claim.place, claim.fence or written.czxid)
        claim.created_at = written.ctime
        return names

    def _join(self, claim: Claim, queue: str, request: Acquire) -> Calls[Any]:
        """Go to the end of the queue, and list it in the same round trip."""
        session = claim.session
        claim.owner, claim.doubtful = session.id, True
        name = commands.prefix(session.id, claim.holder, waits=request.queue, shares=request.shares)
        joining = commands.join(queue, name, claim.entry)
        made, names = yield Send(session, [joining, commands.children(queue)])
        if isinstance(made, NoNodeError):
            yield from self._make_queue(session, queue)
            return None
        place, known = made
        if known.ephemeralOwner != claim.owner:  # another session has begun meanwhile
            yield Send(session, [commands.delete(place)])
            return None
        claim.found(place, known.czxid)
        claim.created_at = known.ctime
        return names

    def _make_queue(self, session: Session, queue: str) -> Calls[None]:
        """Create a queue, and what is missing above it. It may exist already."""
        replies = yield Send(session, [commands.container(queue)])
        if isinstance(replies[0], NoNodeError):
            replies = yield Send(
                session, [commands.container(path) for path in commands.parents(queue)]
            )
        missing = isinstance(replies[-1], (NoNodeError, NoAuthError))
        if missing and any(isinstance(each, NoAuthError) for each in replies):
            raise Rejected(f"NoAuth: this user has no right to create {queue}", inf)

    def _is_held(self, places: Sequence[Place], claim: Claim, asked_at: float) -> Calls[bool]:
        """Whether the lock is held, so that a try has to give up. Some of these places may be of
        other tries, which delete theirs soon: if the last of those is young, wait for a moment, and
        give False, so that the caller looks again."""
        tries = [place for place in places if not place.waits]
        if not tries:
            return True
        queue = self._tree.queue(claim.key)
        [found] = yield Send(claim.session, [commands.exists(f"{queue}/{tries[-1].name}")])
        if found is None:
            return False
        age = (claim.created_at - found.ctime) / 1000 + self._clock() - asked_at
        if age >= OLD_ENOUGH:
            return True
        yield Sleep(self._clock() + LOOK_AGAIN * self._chance.uniform(0.2, 1.0))
        return False

    def _hold(self, claim: Claim, asked_at: float) -> Calls[Granted | None]:
        """The place has its turn. None if its session has ended."""
        yield from self._ensure_fresh(claim.session, asked_at)
        if claim.session.id != claim.owner:
            return None
        ttl = claim.session.ttl
        claim.ends_at, claim.watched = asked_at + ttl, ()
        return Granted(claim.fence, ttl=ttl)

    def _ensure_fresh(self, session: Session, since: float) -> Calls[None]:
        """Have the leader count the session's timeout from about `since`, or later. If another
        session has begun meanwhile, this is about that one."""
        while not session.is_fresh(since):
            yield Sleep(self._clock() + self._sessions.terms.tick / 2)
            yield Send(session, [commands.sync()])

    def extend(self, request: Extend, claim: Claim, asked_at: float) -> Calls[Answer]:
        """Extend a lease. Two exchanges that extend it at once would take each other's move to
        another session for a loss: so this waits until another one is over."""
        extender = object()
        while True:
            if claim.place and request.ttl > claim.session.ttl:
                yield Send(self._sessions.of(request.ttl), [])  # others need not wait for that
            try:
                if self._registry.begin_extension(claim, extender):
                    return (yield from self._extend(request, claim, asked_at))
            finally:
                if claim.extender is extender:
                    claim.extender = None
            yield Sleep(self._clock() + LOOK_AGAIN * self._chance.uniform(0.2, 1.0))

    def _extend(self, request: Extend, claim: Claim, asked_at: float) -> Calls[Answer]:
        if claim.doubtful:
            yield from self._find(claim)
        if claim.place and request.ttl > claim.session.ttl:
            yield from self._move(claim, request.ttl)
        if claim.doubtful or not claim.place:
            return NOT_YOURS
        session = claim.session
        if not (yield from self._is_there(claim, asked_at)):
            return NOT_YOURS
        yield from self._ensure_fresh(session, asked_at)
        lives = claim.owner == session.id
        if lives and self._registry.prolong(claim, asked_at + request.ttl, self._clock()):
            return DONE
        return NOT_YOURS

    def _is_there(self, claim: Claim, asked_at: float) -> Calls[bool]:
        """Whether the place is there, by a server that follows the leader: it has acknowledged a
        write that was sent since that instant. Of the leases of a session that are extended
        together, one writes to its place, and the others are looked for behind that."""
        session = claim.session
        before = session.writes_at
        if before >= asked_at:
            [found] = yield Send(session, [commands.exists(claim.place)])
            if session.written_at == before:  # and not a later write, which this read preceded
                return found is not None
        session.writes_at = sent_at = self._clock()
        [written] = yield Send(session, [commands.put(claim.place, claim.entry)])
        if isinstance(written, NoNodeError):
            return False
        session.written_at = sent_at
        return True

    def _move(self, claim: Claim, ttl: float) -> Calls[None]:
        """Replace the place by one of another session, with the same number, so that no other place
        comes between. It stays in doubt if it was gone."""
        session = self._sessions.of(ttl)
        yield Send(session, [])  # connected, from here on
        if session.ttl < ttl:
            why = f"grants sessions of {session.ttl:g} s at most: see maxSessionTimeout"
            raise Rejected(why, inf)
        old, owner = claim.place, session.id
        name = commands.name_of(owner, claim.holder, commands.number_of(old), claim.shares)
        place = f"{self._tree.queue(claim.key)}/{name}"
        claim.entry = commands.write_entry(Entry(ttl, claim.fence, claim.holder))
        claim.doubtful = True
        claim.session = session  # after a lost reply, it knows what came of it
        [made] = yield Send(session, [commands.move(old, place, claim.entry)])
        if not any(isinstance(each, Exception) for each in made):
            claim.owner = owner
            claim.found(place)

    def release(self, claim: Claim) -> Calls[Answer]:
        """Delete a place. If it is not there, it may have been moved to another session: it is
        looked for. When it is gone, it cannot be moved any more."""
        deleted = False
        try:
            while not deleted:
                if claim.doubtful:
                    yield from self._find(claim)
                if not claim.place:
                    break
                [reply] = yield Send(claim.session, [commands.delete(claim.place)])
                if isinstance(reply, NoNodeError):
                    claim.doubtful = True
                else:
                    deleted = True
        except BaseException:
            claim.pending_release = True  # it is tried again until it is answered
            raise
        self._registry.close(claim)
        return DONE if claim.held and deleted else NOT_YOURS

    def _find(self, claim: Claim) -> Calls[None]:
        """Look for a place that may have been created. One of an earlier session is deleted."""
        queue, secret = self._tree.queue(claim.key), commands.secret_of(claim.holder)
        # This server may be behind the one that was asked to create it.
        _, names = yield Send(claim.session, [commands.sync(), commands.children(queue)])
        sessions = {
            each.id & commands.SESSION: (each, each.id) for each in self._sessions if each.id
        }
        own, path = None, ""
        for place in [] if isinstance(names, NoNodeError) else in_order(names):
            if place.secret != secret:
                continue
            found = f"{queue}/{place.name}"
            if place.session in sessions:
                own, path = sessions[place.session], found
            else:
                yield Send(claim.session, [commands.delete(found)])
        # Not earlier: after an interruption, there may still be a place.
        if own is not None:
            claim.session, claim.owner = own
            claim.found(path)
        else:
            claim.gone()


def _before(places: list[Place], claim: Claim) -> list[Place]:
    """The places before the claim's."""
    own = claim.place.rpartition("/")[2]
    return places[: [place.name for place in places].index(own)]


def _decisive(before: Sequence[Place], shares: int) -> Sequence[Place]:
    """The places that refuse a try with these shares, unless they are those of other tries: the
    first ones, as many as may hold the lock; or one of another kind, at best a waiter's."""
    if shares and len(before) >= shares:
        return before[:shares]
    others = [place for place in before if place.shares != shares]
    return [place for place in others if place.waits][:1] or others[:1]
