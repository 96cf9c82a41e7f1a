"""One node of a quorum, pure: a request and an instant in, an answer and wake-ups out.

It says in plain Python what the Redis engine's scripts for a quorum should do on a server, and was
not made from them: a test holds one against the other. Each request is one atomic step; a lock that
has expired is not there; what is not there is `Missing`, and what is somebody else's is `NotYours`.
"""

from dataclasses import dataclass, field
from math import inf

from holdfast.core.messages import (
    DONE,
    MISSING,
    NOT_YOURS,
    OFFER,
    Acquire,
    Answer,
    Break,
    Extend,
    Granted,
    Held,
    Inspect,
    List,
    Listing,
    Raise,
    Release,
    Repair,
    Seen,
    ToNode,
)

EPOCH = 1_700_000_000.0
"""What a calendar says at instant 0."""

CLAMP = 60_000_000
"""How far a proposed fence may lie from the node's own clock, in microseconds."""

AT_ONCE, IN_ALL = 2, 4
"""How many waiters are woken: at once, and if these should have died, a little later."""


@dataclass(slots=True)
class Row:
    """One name: the lock, the counter beside it, and who waits."""

    holder: str = ""
    ends_at: float = -inf
    counter: int = 0
    keep_until: float = -inf
    room: list[str] = field(default_factory=list)

    def lapse(self, now: float) -> None:
        """Drop what has expired."""
        if now >= self.ends_at:
            self.holder = ""
        if now >= self.keep_until:
            self.counter = 0


class Votes:
    """All names of one node."""

    def __init__(self, keep: float = 3600.0) -> None:
        self.keep = keep
        """How long a counter outlives its lock."""
        self.rows: dict[str, Row] = {}
        self.to_wake: list[tuple[str, float]] = []
        """Waiters to be woken, and after how long; the caller takes them out."""

    def answer(self, request: ToNode, now: float) -> Answer:
        """Carry out one request at the instant `now`."""
        for row in self.rows.values():
            row.lapse(now)
        match request:
            case Inspect(key):
                return self._listing([key], now)
            case List(prefix, after, limit):
                keys = (k for k in self.rows if k.startswith(prefix) and k > after)
                held = [key for key in sorted(keys) if self.rows[key].holder]
                return self._listing(held[:limit], now)
        row = self.rows.setdefault(request.key, Row())
        match request:
            case Acquire():
                return self._acquire(row, request, now)
            case Raise():
                return self._raise(row, request, now)
            case Extend():
                return self._extend(row, request, now)
            case Repair():
                return self._repair(row, request, now)
            case Release():
                return self._release(row, request, now)
            case Break():
                return self._free(row, now, wake=True)
        raise TypeError(f"nothing that is said to a node of a quorum: {request}")

    def holder_of(self, key: str, now: float) -> str:
        """Who has the lock; empty: nobody."""
        row = self.rows.get(key)
        return row.holder if row is not None and now < row.ends_at else ""

    def _acquire(self, row: Row, request: Acquire, now: float) -> Answer:
        me, number = _ballot(request.holder)
        whose, last = _ballot(row.holder)
        if row.holder and (whose != me or last > number):
            if request.queue and me not in row.room:
                row.room.append(me)
            return Held(row.ends_at - now, request.queue, row.holder)
        if row.holder != request.holder:
            if request.queue and me in row.room:
                row.room.remove(me)
            clock = int((EPOCH + now) * 1_000_000)
            proposed = max(clock - CLAMP, min(request.proposed or clock, clock + CLAMP))
            row.counter = max(row.counter + 1, proposed)
            row.holder, row.ends_at = request.holder, now
        row.ends_at = max(row.ends_at, now + request.ttl)
        row.keep_until = now + request.ttl + self.keep
        return Granted(row.counter)

    def _raise(self, row: Row, request: Raise, now: float) -> Answer:
        if row.holder != request.holder or row.counter > request.fence:
            return NOT_YOURS
        row.counter = request.fence
        row.keep_until = max(row.keep_until, now + self.keep)
        return Granted(row.counter)

    def _extend(self, row: Row, request: Extend, now: float) -> Answer:
        if row.holder != request.holder:
            return NOT_YOURS if row.holder else MISSING
        row.ends_at = max(row.ends_at, now + request.ttl)
        row.keep_until = row.ends_at + self.keep
        return DONE

    def _release(self, row: Row, request: Release, now: float) -> Answer:
        me, number = _ballot(request.holder)
        if me in row.room:
            row.room.remove(me)
        whose, last = _ballot(row.holder)
        if row.holder and (whose != me or (request.holder != me and last > number)):
            return NOT_YOURS
        return self._free(row, now, wake=request.wake)

    def _free(self, row: Row, now: float, *, wake: bool) -> Answer:
        was_held = bool(row.holder)
        if was_held:
            row.holder, row.ends_at = "", -inf
        if wake:
            woken, row.room = row.room[:IN_ALL], row.room[IN_ALL:]
            self.to_wake += [(w, 0.0 if i < AT_ONCE else OFFER) for i, w in enumerate(woken)]
        return DONE if was_held else MISSING

    def _repair(self, row: Row, request: Repair, now: float) -> Answer:
        if row.holder:
            return DONE if row.holder == request.holder else NOT_YOURS
        row.holder, row.ends_at = request.holder, now + request.ttl
        if row.counter < request.fence:
            row.counter, row.keep_until = request.fence, row.ends_at + self.keep
        return DONE

    def _listing(self, keys: list[str], now: float) -> Listing:
        rows = ((key, self.rows.get(key, Row())) for key in keys)
        return Listing(
            tuple(
                Seen(key, row.holder, row.counter, row.ends_at - now, len(row.room))
                for key, row in rows
                if row.holder
            )
        )


def _ballot(name: str) -> tuple[str, int]:
    """Whose it is, and how many of the same holder came before it."""
    holder, _, number = name.partition("#")
    return holder, int(number or 0)
