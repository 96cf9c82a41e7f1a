"""Getting a lock: at once if nobody has it, or through the queue.

What can happen between two calls, and what then:

- The reply to a grant, or to what takes the lock, is lost: asked again, we look for our own key
  first. If it is there, the lock is ours, or our place is; if it is not, another lease is used, so
  that whatever of the first try comes late is without effect once that lease is revoked.
- Our place expires while we wait (we were stopped, or the servers were not to be reached): when we
  are woken, or at the latest after `BACKSTOP`, our key is not there, and we join the queue anew.
  That the one before us is gone is never taken for a grant: what makes us the holder is a
  transaction which demands that our own key is still there as we know it, and is the first.
- The session ends: our place is hung on the next one.

A lock that is free is taken with a spare, if there is one; but only at the first try: see `spares`.
"""

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.messages import Acquire, Answer, Granted, Held
from holdfast.engines.etcd import phrases
from holdfast.engines.etcd.books import SESSION, Books, Session, Stake
from holdfast.engines.etcd.keys import Span, place_of, queue_of
from holdfast.engines.etcd.phrases import WAITING, KeepAlives
from holdfast.engines.etcd.replies import LEASE_EXISTS, NO_SUCH_LEASE, Refused, Rejected, accepted
from holdfast.engines.etcd.spares import NEVER
from holdfast.engines.etcd.vigil import Vigil

if TYPE_CHECKING:
    from holdfast.engines.etcd.speech import Talk

BACKSTOP = 10.0
"""Seconds after which a waiter asks again although nobody has woken it."""

HELD = Held(BACKSTOP, wakes=True)

TRIES = 3
"""A place in the queue can be lost, but hardly so often in a row."""


class Before(NamedTuple):
    """Who is before us in the queue, and as of which revision."""

    place: bytes
    now: int


class Taking:
    """How a client gets locks."""

    def __init__(self, books: Books, vigil: Vigil) -> None:
        self._books, self._vigil = books, vigil

    def acquire(self, request: Acquire) -> "Talk[Answer]":
        """Take the lock if it is free, or wait for it if that is wanted."""
        stake = self._books.stake(request.holder, place_of(request.key, request.holder))
        queue = queue_of(request.key)
        if stake.leases:
            stake.granted_at = NEVER  # something of an earlier try may still come
        if not stake.revision and (stake.leases or stake.doubtful):  # a try was not answered
            reply = accepted((yield phrases.find(stake.place)))
            if not reply.kvs and stake.doubtful and stake.session is not None:
                self._books.retire(stake.session)  # it may still come, and must not stay then
            _note(stake, reply.kvs[0] if reply.kvs else None)
        if request.queue or stake.revision:
            return (yield from self._wait(request, stake, queue))
        return (yield from self._take(request, stake, queue))

    def _take(self, request: Acquire, stake: Stake, queue: Span) -> "Talk[Answer]":
        """Take the lock if nobody has it, or waits for it."""
        ttl = ceil(request.ttl)
        reply = yield from self._put(request.holder, stake, queue, ttl)
        if reply.succeeded:
            stake.revision = reply.header.revision
            stake.hold(stake.leases[-1], ttl, stake.revision)
            return Granted(stake.revision)
        [first] = reply.responses[0].response_range.kvs
        if first.key == stake.place:  # an earlier try has come through meanwhile
            return (yield from self._still_held(request, stake, first))
        yield [phrases.revoke(each) for each in stake.leases]
        self._books.close_account(request.holder)
        return HELD

    def _put(self, holder: str, stake: Stake, queue: Span, ttl: int) -> "Talk[Any]":
        """Be the first, on a spare if there is one, or else on a new lease; or see who is."""
        spare = None if stake.leases else self._books.spares.take(ttl, queue.first)
        if spare is not None:
            stake.leases, stake.granted_at = (spare.lease,), spare.granted_at
            if spare.place.startswith(queue.first):
                stake.place = spare.place
            reply = yield phrases.take(queue, stake.place, spare.lease, holder)
            if not _has_no_lease(reply):
                return accepted(reply)
            stake.leases = ()
        again = bool(stake.leases)
        lease = stake.new_lease()
        if not again:
            stake.granted_at = self._books.spares.clock()
        accepted((yield phrases.grant(lease, ttl)))
        return accepted((yield phrases.take(queue, stake.place, lease, holder)))

    def _wait(self, request: Acquire, stake: Stake, queue: Span) -> "Talk[Answer]":
        """Wait in the queue, or hold the lock if it is our turn."""
        for _ in range(TRIES):
            outcome: Answer | Before | None = None
            if not stake.revision and not request.queue:  # what it had taken has ended since
                return (yield from self._take(request, stake, queue))
            if not stake.revision:
                outcome = yield from self._join(stake, queue)
            elif not stake.called:
                outcome = yield from self._review(request, stake, queue)
            if stake.called:
                outcome = yield from self._confirm(request, stake, queue)
            if isinstance(outcome, Before):
                self._vigil.watch(request.holder, outcome.place, outcome.now + 1)
                return HELD
            if outcome is not None:
                return outcome
        raise Rejected("its place in the queue was lost again and again")

    def _join(self, stake: Stake, queue: Span) -> "Talk[Before | None]":
        """Go to the end of the queue."""
        session = yield from self._session()
        stake.session, stake.doubtful = session, True
        reply = yield phrases.join(queue, stake.place, session.lease)
        if self._has_ended(session, reply):
            _note(stake, None)
            return None
        if not reply.succeeded:  # an earlier try has come through meanwhile
            _note(stake, reply.responses[0].response_range.kvs[0])
            return None
        stake.revision = stake.modified = reply.header.revision
        stake.doubtful = False
        [_, *before] = reply.responses[1].response_range.kvs
        stake.called = not before
        return Before(before[0].key, stake.revision) if before else None

    def _review(
        self, request: Acquire, stake: Stake, queue: Span
    ) -> "Talk[Answer | Before | None]":
        """See how things are: nobody has called us, or nobody could have."""
        reply = accepted((yield phrases.look(queue, stake.revision)))
        if not reply.kvs or reply.kvs[0].key != stake.place:
            _note(stake, None)
            return None
        mine, *others = reply.kvs
        if mine.lease in stake.leases:
            return (yield from self._still_held(request, stake, mine))
        stake.modified = mine.mod_revision
        session = yield from self._session()
        if mine.lease != session.lease:
            stake.session = session
            moved = yield phrases.attach(stake.place, WAITING, stake.modified, session.lease)
            if self._has_ended(session, moved) or not moved.succeeded:
                return None
            stake.modified = moved.header.revision
        stake.called = not others
        return Before(others[0].key, reply.header.revision) if others else None

    def _confirm(
        self, request: Acquire, stake: Stake, queue: Span
    ) -> "Talk[Answer | Before | None]":
        """Hold the lock, if our place is there and is the first."""
        stake.called = False
        ttl = ceil(request.ttl)
        lease = stake.new_lease()
        accepted((yield phrases.grant(lease, ttl)))
        confirm = phrases.confirm(queue, stake.place, stake.revision, stake.modified, lease)
        reply = accepted((yield confirm))
        if reply.succeeded:
            stake.session = None
            stake.hold(lease, ttl, reply.header.revision)
            return Granted(stake.revision)
        mine, before = _mine_and_before(reply)
        if mine is not None and mine.lease in stake.leases:  # an earlier try has come through
            return (yield from self._still_held(request, stake, mine))
        yield [phrases.revoke(each) for each in stake.leases]
        stake.leases = ()
        _note(stake, mine)
        return before if mine is not None else None

    def _still_held(self, request: Acquire, stake: Stake, mine: Any) -> "Talk[Answer]":
        """It is ours since an earlier try; let it last as long as if it had been taken now."""
        _note(stake, mine)
        [ttl] = yield KeepAlives([mine.lease])
        if ttl <= 0:
            raise Rejected("the lock was granted, but has expired since")
        stake.session = None
        stake.hold(mine.lease, ceil(request.ttl), mine.mod_revision)
        return Granted(stake.revision)

    def _session(self) -> "Talk[Session]":
        """The lease for those who wait, granted."""
        session = self._books.open_session()
        if not session.granted:
            reply = yield phrases.grant(session.lease, SESSION)
            if not isinstance(reply, Refused) or reply.code is not LEASE_EXISTS:
                accepted(reply)
            session.granted = True
        return session

    def _has_ended(self, session: Session, reply: Any) -> bool:
        """Whether the session is not there any more: then there will be another."""
        if _has_no_lease(reply):
            self._books.retire(session)
            return True
        accepted(reply)
        return False


def _has_no_lease(reply: Any) -> bool:
    """Whether nothing was done, because the lease is not there any more."""
    return isinstance(reply, Refused) and reply.code is NO_SUCH_LEASE


def _note(stake: Stake, mine: Any) -> None:
    """Write down what was found of our place."""
    stake.revision = 0 if mine is None else mine.create_revision
    stake.modified = 0 if mine is None else mine.mod_revision
    stake.doubtful = stake.called = False


def _mine_and_before(reply: Any) -> tuple[Any, Before | None]:
    """From the two last answers of a transaction: our own key, and who is before us."""
    mine, before = (each.response_range.kvs for each in reply.responses[-2:])
    return (
        mine[0] if mine else None,
        Before(before[0].key, reply.header.revision) if before else None,
    )
