"""What a client has, or may have, on the servers: kept so that all of it can be given back.

1. A place in a queue is written down here before it is asked for, and crossed out when the server
   has said that it is gone.
2. A session lives as long as its client does, so nothing ends by itself but with the client. What
   was to end is therefore ended by us: a lease that was not renewed in time, and a place whose
   release nobody answered. Such stakes are *overdue*.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from holdfast.core.ports import Notify
from holdfast.engines.zookeeper.session import Session


@dataclass(frozen=True, slots=True)
class Move:
    """To where a lease is moved that is to last for longer than its session does."""

    session: Session
    owner: int
    place: str
    entry: bytes


@dataclass(slots=True)
class Stake:
    """What one holder has, or may have."""

    key: str
    holder: str
    session: Session
    wake: Callable[[Any], None]
    """What to call when the one before us is gone."""
    owner: int = 0
    """The id of the session in which the place was asked for."""
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
    over: bool = False
    """Whether it is to be given back as soon as that can be done."""

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


class Books:
    """The stakes of a client, by holder."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self.begin()

    def begin(self) -> None:
        """There is nothing yet."""
        self._stakes: dict[str, Stake] = {}
        self._mutex = threading.Lock()

    def open(self, key: str, holder: str, session: Session) -> Stake | None:
        """The stake of one who asks for a lock, a new one if there is none; None if there is one
        that is being given back."""
        with self._mutex:
            stake = self._stakes.get(holder)
            if stake is None:
                wake = partial(_wake, self._notify, holder)
                stake = self._stakes[holder] = Stake(key, holder, session, wake)
            stake.ends_at = inf
            return None if stake.over else stake

    def find(self, holder: str) -> Stake | None:
        """The stake of a holder, if there is one."""
        return self._stakes.get(holder)

    def held_in(self, session: Session) -> set[str]:
        """The holders whose leases hang on a session."""
        with self._mutex:
            stakes = list(self._stakes.values())
        return {stake.holder for stake in stakes if stake.held and stake.session is session}

    def close(self, stake: Stake) -> None:
        """There is nothing of this holder's any more."""
        self._stakes.pop(stake.holder, None)

    def overdue(self, now: float) -> list[Stake]:
        """What is to be given back."""
        with self._mutex:
            found = [s for s in list(self._stakes.values()) if s.over or s.ends_at <= now]
            for stake in found:
                stake.over = True
            return found

    def prolong(self, stake: Stake, ends_at: float, now: float) -> bool:
        """Let a lease end no earlier than that; False if it has ended."""
        with self._mutex:
            if stake.over or not stake.held or stake.ends_at <= now:
                return False
            stake.ends_at = max(stake.ends_at, ends_at)
            return True


def _wake(notify: Notify, holder: str, event: Any) -> None:
    notify(holder)
