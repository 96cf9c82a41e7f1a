"""Acquire, extend and release.

What can happen between two calls, and what then:

- The reply to a call that creates a place is lost: when the client is asked again, it reads the key
  of that place. If it is there, it is used. If not, it may still be created: it is a stray from now
  on, and the client creates another place in another session.
- The place is gone (its session ended while the client was stopped, or cut off): the client joins
  the queue again. That the place before is gone is never taken for a grant: the client reads its
  own place after it was woken, and holds the lock only if that is there, and has its turn.
- The last keep-alive of the session is too old for a new lease to rest on: one more is sent first.
"""

from collections.abc import Sequence
from math import ceil, inf
from operator import attrgetter
from typing import Any

from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Extend,
    Granted,
    Release,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd import commands
from holdfast.engines.etcd.commands import Calls, queue_of, shares_of
from holdfast.engines.etcd.connection import (
    LEASE_EXISTS,
    NO_SUCH_LEASE,
    ErrorReply,
    accepted,
)
from holdfast.engines.etcd.registry import Claim, Registry, Session
from holdfast.engines.etcd.waiters import Watches
from holdfast.engines.queue import HELD, Rejected, in_the_way

TRIES = 4
"""How often a place is asked for whose session has ended."""


class Locks:
    """The locks of one client."""

    def __init__(self, registry: Registry, watches: Watches, host: StoreHost) -> None:
        self._registry, self._watches, self._clock = registry, watches, host.clock

    def acquire(self, request: Acquire, asked_at: float) -> Calls[list[Answer]]:
        """Hold the lock if it is free, or wait for it if that is wanted."""
        ttl = ceil(request.ttl)
        claim = self._registry.open(request, ttl)
        claim.ends_at = inf
        if claim.doubtful:
            _note_place(claim, accepted((yield commands.find(claim.place))).kvs)
            if not claim.revision:
                claim = yield from self._restart(claim, request, ttl)
            claim.doubtful = False
        for _ in range(TRIES):
            if claim.session.retired and not claim.revision:
                claim = yield from self._restart(claim, request, ttl)
            if not (yield from self._ensure_fresh(claim.session, asked_at)):
                continue
            if claim.revision:
                answer = yield from self._look(claim, ttl, asked_at)
            elif request.queue:
                answer = yield from self._join(claim)
            else:
                answer = yield from self._take(claim)
            if isinstance(answer, Granted):
                self._watches.end(claim.holder)
                claim.ends_at = asked_at + claim.session.ttl
            if answer is not None:
                return [answer]
        raise Rejected("the session of its place ended at every try")

    def _restart(self, claim: Claim, request: Acquire, ttl: int) -> Calls[Claim]:
        """Begin with another place, in another session: this one may be created late, or its
        session has ended."""
        self._registry.abandon(claim)
        claim = self._registry.open(request, ttl)
        yield from self.revoke(self._registry.take_unused())
        return claim

    def _take(self, claim: Claim) -> Calls[Answer | None]:
        """Hold the lock if it is free, or there is room beside its holders and no client waits.
        None if that has to be tried again."""
        queue, session, since = queue_of(claim.key), claim.session, 0
        while True:
            claim.doubtful = True
            reply = yield commands.take(queue, claim.place, session.lease, claim.holder, since)
            claim.doubtful = False
            if self._has_ended(session, reply):
                return None
            if reply.succeeded:
                claim.revision = reply.header.revision
                return _granted(claim, claim.revision)
            mine, *others = (each.response_range for each in reply.responses)
            if mine.kvs:  # an earlier try was carried out late
                _note_place(claim, mine.kvs)
                return None
            if _in_the_way(claim, others):
                self._registry.close(claim)
                yield from self.revoke(self._registry.take_unused())
                return HELD
            since = reply.header.revision  # there is room, unless another one comes first

    def _join(self, claim: Claim) -> Calls[Answer | None]:
        """Go to the end of the queue. None if nothing is in the way, or it must be tried again."""
        session, queue = claim.session, queue_of(claim.key)
        claim.doubtful = True
        reply = yield commands.join(queue, claim.place, session.lease, claim.holder)
        claim.doubtful = False
        if self._has_ended(session, reply):
            return None
        if not reply.succeeded:  # an earlier try was carried out late
            _note_place(claim, reply.responses[0].response_range.kvs)
            return None
        claim.revision = reply.header.revision
        last = [each.response_range for each in reply.responses[1:]]
        return HELD if self._waits(claim, last, claim.revision) else None

    def _look(self, claim: Claim, ttl: int, asked_at: float) -> Calls[Answer | None]:
        """Hold the lock if the place has its turn, and is there. None if it is gone."""
        looking = commands.look(queue_of(claim.key), claim.shares, claim.revision)
        before = [accepted(reply) for reply in (yield looking)]
        if self._waits(claim, before, min(each.header.revision for each in before)):
            return HELD
        found = accepted((yield commands.find(claim.place))).kvs
        is_there = yield from self._attach(claim, found, ttl, asked_at)
        revision = claim.revision
        if is_there and not revision:  # another thread has just found that its old session ended
            _note_place(claim, accepted((yield commands.find(claim.place))).kvs)
        return _granted(claim, revision) if is_there and revision else None

    def _waits(self, claim: Claim, last: Sequence[Any], revision: int) -> bool:
        """Watch what keeps the claim out; False if there is nothing."""
        if places := _in_the_way(claim, last):
            self._watches.watch(claim.holder, places, revision + 1)
        return bool(places)

    def _attach(self, claim: Claim, found: Sequence[Any], ttl: float, since: float) -> Calls[bool]:
        """Have the place attached to a session with at least that ttl, which lasts for it from
        about `since`. False if the place, of which `found` was read, is gone."""
        for _ in range(TRIES):
            _note_place(claim, found)
            if not claim.revision or not self._registry.is_wanted(claim):
                return False
            known = {each.lease: each for each in list(claim.sessions)}
            session = now_in = known.get(found[0].lease)
            if session is None or session.ttl < ttl:
                session = self._registry.session_for(claim, ceil(ttl))
            if (yield from self._ensure_fresh(session, since)):
                if session is now_in:
                    claim.session = session
                    return True
                modified = found[0].mod_revision
                reply = yield commands.attach(claim.place, modified, session.lease, claim.holder)
                if not self._has_ended(session, reply) and reply.succeeded:
                    self._registry.move(claim, session, [now_in] if now_in else [])
                    yield from self.revoke(self._registry.take_unused())
                    return True
            found = accepted((yield commands.find(claim.place))).kvs
        raise Rejected("its place was changed at every try")

    def _has_ended(self, session: Session, reply: Any) -> bool:
        if isinstance(reply, ErrorReply) and reply.code is NO_SUCH_LEASE:
            self._registry.ended(session)
            return True
        accepted(reply)
        return False

    def _ensure_fresh(self, session: Session, since: float) -> Calls[bool]:
        """Have the session last for its ttl from about `since`: create the etcd lease, or send a
        keep-alive, unless one was sent just before. False if the servers have ended it."""
        if not session.granted:
            sent_at = self._clock()
            reply = yield commands.grant(session.lease, session.ttl)
            if not isinstance(reply, ErrorReply):
                session.kept(sent_at, reply.TTL)
            elif reply.code is not LEASE_EXISTS:  # which an earlier try has created
                accepted(reply)
        if session.is_fresh(since):
            return True
        yield from self.keep_alive([session])
        return session.is_fresh(since)

    def keep_alive(self, sessions: Sequence[Session]) -> Calls[None]:
        """Keep sessions alive, and delete what is not to live on with them."""
        sent_at = self._clock()
        self._registry.expire(sent_at)
        replies = yield [commands.keep_alive(session.lease) for session in sessions]
        ttls = [accepted(reply).TTL for reply in replies]
        for session, ttl in zip(sessions, ttls, strict=True):
            if ttl > 0:
                session.kept(sent_at, ttl)
            else:
                self._registry.ended(session)
        strays = dict.fromkeys(place for session in sessions for place in list(session.strays))
        if strays:
            yield [commands.delete(place) for place in strays]
        yield from self.revoke(self._registry.take_unused())

    def keep_waiters(self) -> Calls[None]:
        """Keep the sessions alive that waiters need."""
        now = self._clock()
        sessions = [
            each for each in self._registry.waited_for() if each.granted and each.is_due(now)
        ]
        if sessions:
            yield from self.keep_alive(sessions)

    def revoke(self, leases: Sequence[int]) -> Calls[None]:
        """End etcd leases."""
        if leases:
            yield [commands.revoke(lease) for lease in leases]

    def extend(self, requests: Sequence[Extend], asked_at: float) -> Calls[list[Answer]]:
        """Keep the sessions alive, and see which places are still there."""
        claims = [self._registry.find_held(request.holder) for request in requests]
        needed = dict.fromkeys(each for claim in claims if claim for each in list(claim.sessions))
        sessions = [each for each in needed if each.granted]
        if not sessions:
            return [NOT_YOURS] * len(requests)
        yield from self.keep_alive(sessions)
        replies = yield [commands.time_to_live(each.lease, keys=True) for each in sessions]
        places = {
            each: frozenset(accepted(reply).keys)
            for each, reply in zip(sessions, replies, strict=True)
        }
        answers: list[Answer] = []
        for request, claim in zip(requests, claims, strict=True):
            if claim is None:
                answers.append(NOT_YOURS)
                continue
            found = [each for each in list(claim.sessions) if claim.place in places.get(each, ())]
            if found and found[0].ttl >= request.ttl:
                claim.session = found[0]
                claim.ends_at = max(claim.ends_at, asked_at + request.ttl)
                answers.append(DONE)
            else:
                answers.append((yield from self._move(claim, request.ttl, asked_at)))
        return answers

    def _move(self, claim: Claim, ttl: float, asked_at: float) -> Calls[Answer]:
        """Extend a lease whose place is to be attached to a session with a longer ttl, or may have
        been attached to one meanwhile: the place itself has which it is."""
        if not claim.revision:
            return NOT_YOURS
        found = accepted((yield commands.find(claim.place))).kvs
        if not (yield from self._attach(claim, found, ttl, self._clock())):
            return NOT_YOURS
        claim.ends_at = max(claim.ends_at, asked_at + ttl)
        return DONE

    def release(self, requests: Sequence[Release], released: set[str]) -> Calls[list[Answer]]:
        """Delete the places of these holders, all together.

        `released` is kept if the exchange begins again: the holders whose lease was ended, by now.
        """
        claims = self._registry.find(request.holder for request in requests)
        repeated = {claim.holder for claim in claims if claim.leaving}
        replies: list[Any] = []
        try:
            for claim in claims:
                self._registry.leave(claim)
                self._watches.end(claim.holder)
            if claims:
                replies = yield [commands.delete(each.place, each.revision) for each in claims]
        finally:
            if not replies:
                for claim in claims:
                    self._registry.release_failed(claim)
        for claim, reply in zip(claims, replies, strict=True):
            if isinstance(reply, ErrorReply):
                self._registry.release_failed(claim)
                continue
            deleted = any(each.response_delete_range.deleted for each in reply.responses)
            if deleted or claim.holder in repeated:
                released.add(claim.holder)
            if claim.revision:
                self._registry.close(claim)
            else:
                self._registry.abandon(claim)  # it may be created late
        yield from self.revoke(self._registry.take_unused())
        for reply in replies:
            accepted(reply)
        return [DONE if request.holder in released else NOT_YOURS for request in requests]


def _granted(claim: Claim, fence: int) -> Granted:
    return Granted(fence, ttl=claim.session.ttl)


def _in_the_way(claim: Claim, last: Sequence[Any]) -> Sequence[bytes]:
    """Which of the places that were read keep the claim out."""
    found = [each for places in last for each in places.kvs]
    found.sort(key=attrgetter("create_revision"))
    before = [each.key for each in found if each.key != claim.place]
    return in_the_way(before, claim.shares, shares_of)


def _note_place(claim: Claim, found: Sequence[Any]) -> None:
    """Note what was read of its place: its revision, or 0 if it is gone, or another one."""
    same = found and claim.revision in (0, found[0].create_revision)
    claim.revision = found[0].create_revision if same else 0
