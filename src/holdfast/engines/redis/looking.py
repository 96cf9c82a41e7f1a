"""Looking at locks: one, or all whose keys begin alike."""

from collections.abc import Sequence

from holdfast.core.messages import Inspect, List, Listing, Seen
from holdfast.engines.redis.keys import fences_like, key_of_fence, keys_of
from holdfast.engines.redis.phrases import Answers, Phrase, Reply, call, command, failed

AT_ONCE = 100
"""Locks in one call of the script."""


def look(request: Inspect | List, counted: bytes) -> Phrase:
    """Put it into words."""
    if isinstance(request, List):
        return _scan(request, b"0", frozenset(), counted)
    return _inspect([request.key], 1, (), counted)


def _scan(request: List, cursor: bytes, found: frozenset[str], counted: bytes) -> Phrase:
    """Redis lists keys in no order, so all are looked through for each page."""

    def read(replies: list[Reply]) -> Answers | Phrase:
        if isinstance(replies[0], Exception):
            return [failed(replies[0])]
        following, fences = replies[0]
        keys = found.union(map(key_of_fence, fences))
        if following != b"0":
            return _scan(request, following, keys, counted)
        wanted = sorted(key for key in keys if key > request.after)
        return _inspect(wanted, request.limit, (), counted)

    pattern = fences_like(request.prefix)
    return Phrase((command(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000"),), read)


def _inspect(keys: Sequence[str], limit: int, seen: tuple[Seen, ...], counted: bytes) -> Phrase:
    """Look at these, until enough of them are held."""
    some, rest = keys[:AT_ONCE], keys[AT_ONCE:]

    def read(replies: list[Reply]) -> Answers | Phrase:
        if isinstance(replies[0], Exception):
            return [failed(replies[0])]
        leases = seen + _read(some, replies[0])
        if rest and len(leases) < limit:
            return _inspect(rest, limit, leases, counted)
        return [Listing(leases[:limit])]

    keys_of_some = [each for key in some for each in keys_of(key)]
    return Phrase((call("inspect", keys_of_some, counted),), read)


def _read(keys: Sequence[str], replies: Sequence[Reply]) -> tuple[Seen, ...]:
    return tuple(
        Seen(key, reply[0].decode(errors="replace"), int(reply[2]), reply[1] / 1000, reply[3])
        for key, reply in zip(keys, replies, strict=True)
        if reply is not None
    )
