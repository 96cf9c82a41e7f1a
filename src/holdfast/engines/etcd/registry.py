"""What a client has, or may have, on the servers.

1. A *session* is an etcd lease that this client keeps alive, with an id that is chosen here: one
   for each ttl. It lasts for its ttl from when the last keep-alive was sent that was answered.
2. A *claim* is what one holder has: its place in the queue, a key that is attached to a session.
   While it waits, that is a session of at most `WAITING` seconds, so that a client that dies does
   not block those behind it for longer.
3. A session without claims is not kept alive: the servers end it after its ttl.
4. A *stray* is a key that may be on the servers although no claim needs it: its reply was lost, so
   it may be created late, or not be deleted yet. A session that a stray may be attached to is
   *retired*: new claims get another one. Strays are deleted whenever the session is kept alive, and
   when its last claim is gone, it is revoked: what comes later then finds no lease.
5. A lease that was not extended in time has ended, though its session goes on: it becomes a stray.
6. What is kept here is kept in order, and ids are drawn by `randbits`: in the simulator, the same
   seed is the same run.
7. The keys of places are reused. etcd keeps a deleted key in its index until its history is
   compacted, and reads all keys of a queue, deleted ones too: with a new key for each holder, an
   acquire would take half as long again after ten thousand. What may be a stray is not reused.
"""

import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from holdfast.core.messages import Acquire
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.commands import place_of

WAITING = 5
"""Seconds after which a client that waits and dies is out of every queue."""

OLDEST = 1.0
"""A new lease may rest on a keep-alive that was sent at most this many seconds before the lease was
asked for; or a tenth of the ttl, if that is less."""


def oldest(ttl: float) -> float:
    """How old the last keep-alive may be when a lease of that ttl begins."""
    return min(ttl / 10, OLDEST)


@dataclass(slots=True, eq=False)
class Session:
    """One etcd lease, to which keys are attached. They end with it."""

    asked_for: int
    ttl: int
    """In seconds: as asked for, then as granted."""
    lease: int
    """The id of the etcd lease."""
    granted: bool = False
    """Whether the servers have confirmed that it exists."""
    sent_at: float = -inf
    """The instant before the last grant or keep-alive left that was answered."""
    claims: "dict[Claim, None]" = field(default_factory=dict)
    """Those whose place is attached to it, or may be."""
    strays: dict[bytes, None] = field(default_factory=dict)
    """Keys that may be attached to it although no claim needs them."""
    retired: bool = False
    """Whether it gets no new claims."""

    def is_fresh(self, since: float) -> bool:
        """Whether a lease that was asked for at that instant can rest on it."""
        return self.sent_at >= since - oldest(self.ttl)

    def is_due(self, now: float) -> bool:
        """Whether it must be kept alive for those that wait on it."""
        return self.sent_at + self.ttl / 3 <= now

    def kept(self, sent_at: float, ttl: int) -> None:
        """The servers have granted it, or kept it alive."""
        self.granted, self.sent_at, self.ttl = True, max(self.sent_at, sent_at), ttl


@dataclass(slots=True, eq=False)
class Claim:
    """What one holder has, or may have."""

    key: str
    holder: str
    session: Session
    """The one that its place is attached to, or may be."""
    number: int
    """The last part of the place's key, which is reused."""
    place: bytes
    shares: int
    """How many may hold the lock together, as in `Acquire`."""
    revision: int = 0
    """At which the place was created; 0 if there is none, or that is unknown."""
    doubtful: bool = False
    """Whether a place was asked for, and the reply was lost."""
    ends_at: float = inf
    """When the lease ends unless it is extended; inf while the claim only waits."""
    leaving: bool = False
    """Whether a release was sent; it may have been lost, or its reply."""
    sessions: dict[Session, None] = field(default_factory=dict)
    """All that its place may be attached to: one, and those that it is about to move to."""

    def need(self, session: Session) -> None:
        """Its place may be attached to that etcd lease."""
        session.claims[self] = None
        self.sessions[session] = None

    def leave(self, sessions: Iterable[Session]) -> None:
        """Its place cannot be attached to these any more."""
        for session in list(sessions):
            session.claims.pop(self, None)
            self.sessions.pop(session, None)

    @property
    def waits(self) -> bool:
        """Whether it has a place in the queue, and no lease."""
        return self.ends_at == inf and not self.leaving


class Registry:
    """The claims and sessions of one client."""

    def __init__(
        self,
        host: StoreHost,
        claims: dict[str, Claim],
        randbits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._host, self.claims, self._randbits = host, claims, randbits
        self._by_ttl: dict[int, Session] = {}
        self._sessions: dict[Session, None] = {}
        self._numbers: dict[str, set[int]] = {}
        self._mutex = threading.Lock()
        self._name = self._new_name()

    def _new_name(self) -> str:
        return f"{self._randbits(64):016x}"

    def open(self, request: Acquire, ttl: int) -> Claim:
        """The claim of a holder, a new one if there is none."""
        key, holder, shares = request.key, request.holder, request.shares
        with self._mutex:
            claim = self.claims.get(holder)
            if claim is not None and not claim.leaving:
                return claim
            session = self._session(min(ttl, WAITING) if request.queue else ttl)
            taken = self._numbers.setdefault(key, set())
            number = next(number for number in range(len(taken) + 1) if number not in taken)
            taken.add(number)
            kind = "" if shares == 1 else f"{shares}/"
            place = place_of(key, f"{kind}{self._name}.{number}")
            claim = Claim(key, holder, session, number, place, shares)
            claim.need(session)
            self.claims[holder] = claim
            return claim

    def session_for(self, claim: Claim, ttl: int) -> Session:
        """A session of that ttl that the place of a claim can move to."""
        with self._mutex:
            session = self._session(ttl)
            claim.need(session)  # so that it is not revoked meanwhile
            return session

    def _session(self, ttl: int) -> Session:
        now = self._host.clock()
        for each in [each for each in self._sessions if each.granted and not each.claims]:
            if each.sent_at + each.ttl <= now:  # the servers have ended it by now
                self._retire(each)
                del self._sessions[each]
        session = self._by_ttl.get(ttl)
        if session is None:
            session = Session(ttl, ttl, self._randbits(62) + 1)
            self._sessions[session] = None
            self._by_ttl[ttl] = session
        return session

    def waited_for(self) -> list[Session]:
        """The sessions that a waiter needs."""
        with self._mutex:
            needed = {claim.session for claim in self.claims.values() if claim.waits}
            return [each for each in self._sessions if each in needed]

    def abandon(self, claim: Claim) -> None:
        """Its place may be on the servers although it is not needed any more."""
        with self._mutex:
            for session in claim.sessions or (claim.session,):
                session.strays[claim.place] = None
                self._retire(session)
            self._name = self._new_name()
            self._close(claim)

    def move(self, claim: Claim, session: Session, before: Iterable[Session]) -> None:
        """Its place is attached to this session now, instead of those before. Another exchange may
        be about to move it to one more."""
        with self._mutex:
            claim.leave(before)
            if self.claims.get(claim.holder) is claim:  # else it was released meanwhile
                claim.need(session)
            claim.session = session

    def is_wanted(self, claim: Claim) -> bool:
        """Whether it was neither released nor given up meanwhile."""
        return self.claims.get(claim.holder) is claim and not claim.leaving

    def find_held(self, holder: str) -> Claim | None:
        """The claim of this holder, if that has a lease; it may have expired."""
        claim = self.claims.get(holder)
        return claim if claim is not None and claim.ends_at < inf and not claim.leaving else None

    def find(self, holders: Iterable[str]) -> list[Claim]:
        """The claims of these holders."""
        with self._mutex:
            known = [each for each in dict.fromkeys(holders) if each in self.claims]
            return [self.claims[holder] for holder in known]

    def close(self, claim: Claim) -> None:
        """Its place is gone."""
        with self._mutex:
            self._close(claim)

    def _close(self, claim: Claim) -> None:
        if self.claims.get(claim.holder) is claim:
            del self.claims[claim.holder]
        if claim.sessions:  # else it was closed before, and the number may be another's
            taken = self._numbers[claim.key]
            taken.discard(claim.number)
            if not taken:
                del self._numbers[claim.key]
        claim.leave(claim.sessions)

    def leave(self, claim: Claim) -> None:
        """It is about to be released. Until that is confirmed, the claim is kept for as long as the
        servers may keep its place: that may be longer than its lease."""
        with self._mutex:
            claim.leaving = True
            claim.ends_at = self._host.clock() + claim.session.ttl

    def release_failed(self, claim: Claim) -> None:
        """It is unknown whether its place was deleted. The claim is kept for the next try."""
        if self.claims.get(claim.holder) is not claim:
            return  # another release of it was confirmed
        self.abandon(claim)
        with self._mutex:
            self.claims[claim.holder] = claim

    def expire(self, now: float) -> None:
        """Leases that were not extended in time are not to live on with their sessions."""
        with self._mutex:
            expired = [claim for claim in self.claims.values() if claim.ends_at <= now]
        for claim in expired:
            self.abandon(claim)

    def ended(self, session: Session) -> None:
        """The servers have ended a session: its leases are lost, and its waiters ask again."""
        with self._mutex:
            self._retire(session)
            self._sessions.pop(session, None)
            claims = [claim for claim in session.claims if claim.session is session]
            for claim in claims:
                claim.revision = 0
        if held := [claim.holder for claim in claims if claim.ends_at < inf]:
            self._host.lose(held)
        for claim in claims:
            if claim.waits:
                self._host.notify(claim.holder)

    def take_unused(self) -> list[int]:
        """The etcd leases that are to be revoked: of retired sessions without claims."""
        with self._mutex:
            unused = [each for each in self._sessions if each.retired and not each.claims]
            for each in unused:
                self._sessions.pop(each, None)
        return [each.lease for each in unused]

    def take_all(self) -> list[int]:
        """All etcd leases: the client is closed."""
        with self._mutex:
            sessions = list(self._sessions)
            self._sessions.clear()
            self._by_ttl.clear()
        return [each.lease for each in sessions]

    def _retire(self, session: Session) -> None:
        session.retired = True
        if self._by_ttl.get(session.asked_for) is session:
            del self._by_ttl[session.asked_for]
