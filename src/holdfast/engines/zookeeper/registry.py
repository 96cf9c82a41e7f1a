"""What a client has, or may have, on the servers.

1. A place in a queue is noted here before it is requested, until the server has confirmed that it
   is gone.
2. A session lives as long as its client does. So the client itself removes what is to end before: a
   lease that was not renewed in time, and a place whose release was not answered. Such claims are
   *overdue*.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Any

from holdfast.core.messages import Acquire
from holdfast.core.ports import Notify
from holdfast.engines.zookeeper.sessions import Session


@dataclass(slots=True)
class Claim:
    """What one holder has, or may have."""

    key: str
    holder: str
    session: Session
    """That of the place; while that is doubtful, the one that was asked to make a place."""
    shares: int = 1
    """How many may hold the lock together, as in `Acquire`."""
    owner: int = 0
    """The id of the session in which the place was requested."""
    place: str = ""
    """The path of the place, if it is known."""
    entry: bytes = b""
    """What is written there."""
    doubtful: bool = False
    """Whether a place was asked for, and the reply was lost: there may be one, or another one."""
    fence: int = 0
    created_at: int = 0
    """When the place was made, in milliseconds of the leader's clock; 0 if unknown."""
    ends_at: float = inf
    """When the lease ends unless it is extended; never, while it is only waited for."""
    extender: object = None
    """The exchange that extends its lease, if there is one."""
    pending_release: bool = False
    """Whether it is to be released as soon as that can be done."""
    watched: Collection[str] = ()
    """The places that it waits for."""

    @property
    def held(self) -> bool:
        """Whether it is a lease, and not just a place."""
        return self.ends_at < inf

    def found(self, place: str, fence: int = 0) -> None:
        """There is a place."""
        self.place, self.fence, self.doubtful = place, fence or self.fence, False

    def gone(self) -> None:
        """There is no place."""
        self.place, self.fence, self.doubtful = "", 0, False


class Registry:
    """The claims of a client, by holder."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._claims: dict[str, Claim] = {}
        self._mutex = threading.Lock()

    def open(self, request: Acquire, session: Session) -> Claim | None:
        """The claim of a holder, a new one if there is none; None if there is one whose release is
        pending."""
        with self._mutex:
            claim = self._claims.get(request.holder)
            if claim is None:
                claim = Claim(request.key, request.holder, session, request.shares)
                self._claims[request.holder] = claim
            claim.ends_at = inf
            return None if claim.pending_release else claim

    def find(self, holder: str) -> Claim | None:
        """The claim of a holder, if there is one."""
        return self._claims.get(holder)

    def held_in(self, session: Session) -> set[str]:
        """The holders whose leases are on a session."""
        return {
            claim.holder
            for claim in self._all()
            if claim.held and not claim.doubtful and claim.session is session
        }

    def begin_extension(self, claim: Claim, extender: object) -> bool:
        """Whether this exchange may extend a lease: no other one is about to."""
        with self._mutex:
            if claim.extender is None:
                claim.extender = extender
            return claim.extender is extender

    def wake(self, event: Any) -> None:
        """A place is gone, or a connection and all its watches: wake the waiters.

        kazoo keeps each function that watches a place until that is gone. So it is one for all
        waiters: one for each would stay behind with each that gave up."""
        for claim in self._all():
            if claim.watched and event.path in (None, *claim.watched):
                self._notify(claim.holder)

    def close(self, claim: Claim) -> None:
        """This holder has nothing any more."""
        self._claims.pop(claim.holder, None)

    def overdue(self, now: float) -> list[Claim]:
        """The claims to release."""
        with self._mutex:
            found = [
                s for s in list(self._claims.values()) if s.pending_release or s.ends_at <= now
            ]
            for claim in found:
                claim.pending_release = True
            return found

    def prolong(self, claim: Claim, ends_at: float, now: float) -> bool:
        """Let a lease end no earlier than that; False if it has ended."""
        with self._mutex:
            if claim.pending_release or not claim.held or claim.ends_at <= now:
                return False
            claim.ends_at = max(claim.ends_at, ends_at)
            return True

    def _all(self) -> list[Claim]:
        with self._mutex:
            return list(self._claims.values())
