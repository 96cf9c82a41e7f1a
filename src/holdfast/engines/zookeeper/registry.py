"""What a client has, or may have, on the servers.

1. A place in a queue is noted here before it is requested, until the server has confirmed that it
   is gone.
2. A session lives as long as its client does. So the client itself removes what is to end before: a
   lease that was not renewed in time, and a place whose release was not answered. Such claims are
   *overdue*.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from holdfast.core.ports import Notify
from holdfast.engines.zookeeper.sessions import Session


@dataclass(frozen=True, slots=True)
class Move:
    """To where a lease is moved that is to last for longer than its session does."""

    session: Session
    owner: int
    place: str
    entry: bytes


@dataclass(slots=True)
class Claim:
    """What one holder has, or may have."""

    key: str
    holder: str
    session: Session
    wake: Callable[[Any], None]
    """What to call when the place before is gone."""
    owner: int = 0
    """The id of the session in which the place was requested."""
    place: str = ""
    """The path of the place, if it is known."""
    entry: bytes = b""
    """What is written there."""
    asked: bool = False
    """Whether there may be a place, although none is known."""
    fence: int = 0
    created_at: int = 0
    """When the place was made, in milliseconds of the leader's clock; 0 if unknown."""
    ends_at: float = inf
    """When the lease ends unless it is extended; never, while it is only waited for."""
    move: Move | None = None
    """To where it may have been moved."""
    is_moving: bool = False
    """Whether an exchange is about to move it. Two at once would take each other's for a loss."""
    pending_release: bool = False
    """Whether it is to be released as soon as that can be done."""

    @property
    def held(self) -> bool:
        """Whether it is a lease, and not just a place."""
        return self.ends_at < inf

    def found(self, place: str, fence: int = 0) -> None:
        """There is a place."""
        self.place, self.fence, self.asked = place, fence or self.fence, True

    def moved(self, move: Move) -> None:
        """The place is there now."""
        self.session, self.owner = move.session, move.owner
        self.place, self.entry, self.move = move.place, move.entry, None

    def gone(self) -> None:
        """There is no place."""
        self.place, self.fence, self.asked = "", 0, False


class Registry:
    """The claims of a client, by holder."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self.begin()

    def begin(self) -> None:
        """There is nothing yet."""
        self._claims: dict[str, Claim] = {}
        self._mutex = threading.Lock()

    def open(self, key: str, holder: str, session: Session) -> Claim | None:
        """The claim of a holder, a new one if there is none; None if there is one whose release is
        pending."""
        with self._mutex:
            claim = self._claims.get(holder)
            if claim is None:
                wake = partial(_wake, self._notify, holder)
                claim = self._claims[holder] = Claim(key, holder, session, wake)
            claim.ends_at = inf
            return None if claim.pending_release else claim

    def find(self, holder: str) -> Claim | None:
        """The claim of a holder, if there is one."""
        return self._claims.get(holder)

    def held_in(self, session: Session) -> set[str]:
        """The holders whose leases are on a session."""
        with self._mutex:
            claims = list(self._claims.values())
        return {claim.holder for claim in claims if claim.held and claim.session is session}

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


def _wake(notify: Notify, holder: str, event: Any) -> None:
    notify(holder)
