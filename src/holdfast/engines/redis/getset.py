"""`protocol=getset`: the lock of old fleets, whose value is the time when it ends.

The recipe is: SETNX a timestamp; if there is one and it has passed, GETSET another, and if that
gives the one that had passed, the lock is ours. Timestamps are seconds since 1970 by the *client's*
wall clock, written in decimal, and lie a second beyond the ttl: `time.time() + ttl + 1`.

1. Our steps are scripts, which the server executes as one: we never change another client's
   timestamp. Clients of the recipe may: the second GETSET overwrites what the first had set.
2. Our timestamps have twelve more digits, which mark the holder and which a float does not notice.
   So a client recognises its own lock, also when a reply was lost.
3. A lock that is not marked as ours is never extended or released, and never taken before its time.
4. Beside the lock are `{key}:fence`, which only holdfast counts, and `{key}:holder`. They, and a
   lock that was never released, expire when they have not been used for `fence_keep`.
"""

from collections.abc import Callable, Sequence
from hashlib import sha1
from math import inf, isnan
from typing import cast

from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Granted,
    Held,
    Inspect,
    List,
    Release,
    Seen,
    ToNode,
)
from holdfast.engines.redis.inspect import Inspector, read_counter
from holdfast.engines.redis.keys import keys_of
from holdfast.engines.redis.protocol import (
    Answers,
    Exchange,
    Reply,
    call,
    command,
    failed,
    milliseconds,
)

GRACE = 1.0
"""How much later than its ttl a lock ends: for clocks that differ by less."""

MARK_DIGITS = 12


class Getset:
    """The commands of one client about its locks."""

    def __init__(self, *, keep: float, wall_clock: Callable[[], float]) -> None:
        self._keep = keep
        self._now = wall_clock
        self._inspector = GetsetInspector(wall_clock)

    def exchange(self, requests: Sequence[ToNode], wakes: bool = False) -> Exchange:
        """What to send for requests that are all of one kind."""
        first = requests[0]
        if type(first) is Acquire:
            return Exchange((self._acquire(first),), self._read_acquired)
        if type(first) is Extend:
            extensions = map(self._extend, cast(Sequence[Extend], requests))
            return Exchange(tuple(extensions), _read_codes)
        if type(first) is Release:
            releases = (
                self._release(r.key, mark(r.holder)) for r in cast(Sequence[Release], requests)
            )
            return Exchange(tuple(releases), _read_codes)
        if type(first) is Break:
            whose = mark(first.holder) if first.holder else b""
            breaking = self._release(
                first.key, whose, first.holder.encode(errors="surrogateescape")
            )
            return Exchange((breaking,), _read_codes)
        return self._inspector.exchange(cast(Inspect | List, first))

    def _acquire(self, request: Acquire) -> bytes:
        return call(
            "getset_acquire", _keys(request.key), *self._terms(request), request.holder.encode()
        )

    def _extend(self, request: Extend) -> bytes:
        return call("getset_extend", _keys(request.key), *self._terms(request))

    def _terms(self, request: Acquire | Extend) -> tuple[bytes, ...]:
        now, mine = self._now(), mark(request.holder)
        value = b"%.6f%b" % (now + request.ttl + GRACE, mine)
        return b"%.6f" % now, value, mine, milliseconds(request.ttl + GRACE + self._keep)

    def _release(self, key: str, mine: bytes, *broken: bytes) -> bytes:
        now = b"%.6f" % self._now()
        return call("getset_release", _keys(key), now, mine, milliseconds(self._keep), *broken)

    def _read_acquired(self, replies: list[Reply]) -> Answers:
        [reply] = replies
        if type(reply) is int:
            return [Granted(reply)]
        if isinstance(reply, Exception):
            return [failed(reply)]
        return [Held(max(0.0, ends_at(reply) - self._now()), wakes=False)]


class GetsetInspector(Inspector):
    """Inspects and lists such locks."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        super().__init__()
        self._now = wall_clock

    def commands(self, keys: Sequence[str]) -> Sequence[bytes]:
        """What to send to look at these locks."""
        return [command(b"MGET", *(each for key in keys for each in _keys(key)))]

    def read(self, keys: Sequence[str], replies: list[Reply]) -> Sequence[Seen | None]:
        """What was seen: None of a lock that is free."""
        [reply] = replies
        values = zip(keys, reply[::3], reply[1::3], reply[2::3], strict=True)
        return [self._seen(*each) for each in values]

    def _seen(
        self, key: str, value: bytes | None, fence: bytes | None, holder: bytes | None
    ) -> Seen | None:
        """A lock of ours as its holder sees it; any other by its timestamp."""
        remaining = -inf if value is None else ends_at(value) - self._now()
        if value is None or remaining < 0:
            return None
        who = (holder or b"").decode(errors="surrogateescape")
        if not value.endswith(mark(who)):
            return Seen(key, value.decode(errors="surrogateescape"), 0, remaining, None)
        return Seen(key, who, read_counter(fence or b""), max(0.0, remaining - GRACE), None)


def mark(holder: str) -> bytes:
    """The digits at the end of a timestamp that identify its holder."""
    digest = sha1(holder.encode(errors="surrogateescape"), usedforsecurity=False).digest()
    return b"%0*d" % (MARK_DIGITS, int.from_bytes(digest[:8]) % 10**MARK_DIGITS)


def ends_at(value: bytes) -> float:
    """When a lock ends; never, if its value is no timestamp.

    >>> ends_at(b"1700000000.5"), ends_at(b"soon")
    (1700000000.5, inf)
    """
    try:
        instant = float(value)
    except ValueError:
        return inf
    return inf if isnan(instant) else instant


def _keys(key: str) -> tuple[bytes, bytes, bytes]:
    lock, fence, _ = keys_of(key)
    return lock, fence, b"{%b}:holder" % lock


def _read_codes(replies: list[Reply]) -> Answers:
    codes: dict[int, Answer] = {1: DONE, 0: NOT_YOURS}
    return [codes[reply] if type(reply) is int else failed(reply) for reply in replies]
