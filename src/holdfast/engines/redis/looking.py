"""Looking at locks: one, or all whose keys begin alike."""

from collections.abc import Callable, Sequence
from math import inf

from holdfast.core.messages import Inspect, List, Listing, Seen
from holdfast.engines.redis.keys import fences_like, key_of_fence, keys_of
from holdfast.engines.redis.phrases import Answers, Phrase, Reply, call, command, failed

AT_ONCE = 100
"""Locks in one call of the script."""


def look(request: Inspect | List, *, scattered: bool) -> Phrase:
    """Put it into words; `scattered` over the slots of a cluster, each lock needs its own call."""
    if isinstance(request, List):
        return scan(request, lambda keys: _inspect(keys, request.limit, (), scattered))
    return _inspect([request.key], 1, (), scattered)


def scan(
    request: List,
    then: Callable[[list[str]], Answers | Phrase],
    cursor: bytes = b"0",
    found: frozenset[str] = frozenset(),
) -> Phrase:
    """Find the locks, also those that are free, and say what there is to say of them `then`. Redis
    lists keys in no order, so all are looked through for each page."""

    def read(replies: list[Reply]) -> Answers | Phrase:
        if isinstance(replies[0], Exception):
            return [failed(replies[0])]
        following, fences = replies[0]
        keys = found.union(map(key_of_fence, fences))
        if following != b"0":
            return scan(request, then, following, keys)
        return then(sorted(key for key in keys if key > request.after))

    pattern = fences_like(request.prefix)
    return Phrase((command(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000"),), read)


def _inspect(keys: Sequence[str], limit: int, seen: tuple[Seen, ...], scattered: bool) -> Phrase:
    """Look at these, until enough of them are held."""
    some, rest = keys[:AT_ONCE], keys[AT_ONCE:]

    def read(replies: list[Reply]) -> Answers | Phrase:
        for reply in replies:
            if isinstance(reply, Exception):
                return [failed(reply)]
        leases = seen + _read(some, [each for reply in replies for each in reply])
        if rest and len(leases) < limit:
            return _inspect(rest, limit, leases, scattered)
        return [Listing(leases[:limit])]

    calls = [[key] for key in some] if scattered and some else [some]
    return Phrase(tuple(_call(keys) for keys in calls), read)


def _call(keys: Sequence[str]) -> bytes:
    return call("inspect", [each for key in keys for each in keys_of(key)])


def _read(keys: Sequence[str], replies: Sequence[Reply]) -> tuple[Seen, ...]:
    return tuple(
        _seen(key, *reply) for key, reply in zip(keys, replies, strict=True) if reply is not None
    )


def _seen(key: str, owner: bytes, left: int, fence: bytes, waiters: int) -> Seen:
    remaining = left / 1000 if left >= 0 else inf  # some other program took it, without an end
    return Seen(key, owner.decode(errors="replace"), int(fence), remaining, waiters)
