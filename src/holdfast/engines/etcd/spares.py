"""Leases whose keys were given back, kept for a moment: the next one who takes a lock uses one, and
also the name of its key, if it is the same lock.

To grant and to revoke a lease is half of what a lock costs, and in a loop that takes one lock after
the other all of that would be for nothing. What can happen, and what then:

1. Something that was said about a lease comes late. It would hang the key of one who is gone on a
   lease that another one renews, and so block that lock for ever. So a lease becomes a spare only
   if whatever was said about it was said once, and answered; in any doubt it is revoked, and what
   comes late finds no lease. (A late keep-alive does no harm.)
2. Another thread hangs the key on another lease, or somebody breaks the lock, and the old lease is
   revoked for that. Both write to the key before; and a lease becomes a spare only if its key was
   deleted while nobody had written to it. So it is one or the other.
3. A lease is in one hand at a time: who gives it back takes it out of the books first, and whoever
   uses or revokes a spare takes it out of here first.
4. A spare was granted before it was asked for, and so it ends earlier at the servers: by its age at
   most, which is looked at when its new holder has begun to count. So it may not be older than
   `oldest`, and every holder believes in that much less of its ttl. A process may be stopped right
   after the look: it has begun to count, and what it says too late finds no lease.
5. The servers have ended it: whoever wants to use it is told so, and has a new one granted.
6. Nobody wants it: it is revoked, after `LINGER` at the latest, and when the client is closed. What
   a process leaves behind that is killed, or ends without closing, ends by itself, as every lease
   does; so none of a long ttl is kept. A forked child has no spares: they are its parent's.

The name of a key is used again because the servers keep every name that there ever was, until an
operator has the history compacted, and look through all those of a queue whenever somebody takes
the lock: after ten thousand holders, that takes half as long as all the rest. What comes late finds
a key that was created, and written, at another revision.

Nothing is kept unless locks are given back in quick succession: a spare that nobody uses costs one
call more than none.
"""

import threading
from dataclasses import dataclass
from math import inf

from holdfast.core.ports import Clock

LINGER = 0.1
"""Seconds for which a spare is kept at the most; and that is how soon after another one a lock must
be given back for its lease to be kept."""

OLDEST = 0.3
"""Seconds since the grant of a lease after which nobody may begin to use it, however long its ttl.
A loop that is quick enough to gain by it comes round a hundred times in that."""

MOST = 100
"""Spares of one client: more than its threads are likely to need, and few enough for the servers
if it is killed."""

LONGEST = 60
"""Seconds: the ttl of a lease that is worth keeping."""

NEVER = -inf
"""The instant of what has not happened."""


def oldest(ttl: float) -> float:
    """How old a lease of that ttl may be when somebody begins to use it."""
    return min(ttl * 0.01, OLDEST)


@dataclass(frozen=True, slots=True)
class Spare:
    """A lease on which nothing hangs."""

    lease: int
    place: bytes
    """The key that hung on it."""
    ttl: int
    granted_at: float
    """The instant before it was asked for."""
    until: float
    """From then on it is of no use."""


class Spares:
    """The spares of one client."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.begin()

    def begin(self) -> None:
        """With none: those that there were are the parent's, or end by themselves."""
        self._spares: list[Spare] = []
        self._given_back_at = NEVER
        self._mutex = threading.Lock()

    def take(self, ttl: int, start: bytes) -> Spare | None:
        """One of that ttl that can still be used, if there is one; best one whose place begins like
        that."""
        with self._mutex:
            now = self.clock()
            fit = [each for each in self._spares if each.ttl == ttl and now < each.until]
            if not fit:
                return None
            spare = max(reversed(fit), key=lambda each: each.place.startswith(start))
            self._spares.remove(spare)
            return spare

    def wants(self, ttl: int, granted_at: float) -> bool:
        """Whether it is worth keeping a lease whose key is given back now."""
        with self._mutex:
            now = self.clock()
            soon = now < self._given_back_at + LINGER
            self._given_back_at = now
            young = now < granted_at + oldest(ttl)
            return soon and young and ttl <= LONGEST and len(self._spares) < MOST

    def keep(self, lease: int, place: bytes, ttl: int, granted_at: float) -> None:
        """Its key was given back, and nothing is to come for it any more."""
        with self._mutex:
            until = min(self.clock() + LINGER, granted_at + oldest(ttl))
            self._spares.append(Spare(lease, place, ttl, granted_at, until))

    def due_in(self) -> float | None:
        """Seconds until one of them is of no use any more; None if there are none."""
        with self._mutex:
            if not self._spares:
                return None
            return max(0.0, min(each.until for each in self._spares) - self.clock())

    def take_useless(self) -> list[int]:
        """The leases that nobody wanted in time: they are to be revoked."""
        with self._mutex:
            now = self.clock()
            useless = [each.lease for each in self._spares if each.until <= now]
            self._spares = [each for each in self._spares if now < each.until]
            return useless

    def take_all(self) -> list[int]:
        """All leases: they are to be revoked."""
        with self._mutex:
            spares, self._spares = self._spares, []
            return [each.lease for each in spares]
