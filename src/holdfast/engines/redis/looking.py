"""Looking at locks: one, or all whose keys begin alike."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, TypeAlias

from holdfast.core.messages import Inspect, List, Listing, Seen
from holdfast.engines.redis.keys import fences_like, key_of_fence, keys_of
from holdfast.engines.redis.phrases import Answers, Phrase, Reply, call, command, failed

AT_ONCE = 100
"""Locks in one call of the script."""

SCAN_STEP = b"10000"
"""Keys that the server goes through in one step, in about 2 ms."""

MAX_SCANS = 4
"""How many lists of keys are kept."""

Look: TypeAlias = Callable[[Sequence[str]], Answers | Phrase]


class Scan:
    """The keys that a scan of each node has found, for all pages of one listing."""

    def __init__(self) -> None:
        self.found: list[frozenset[str]] = []
        self._sorted: list[str] = []
        self._counted = 0

    def after(self, key: str) -> Sequence[str]:
        """The keys that come after this one, in order."""
        if self._counted < len(self.found):
            self._counted = len(self.found)
            self._sorted = sorted(frozenset().union(*self.found))
        return self._sorted[bisect_right(self._sorted, key) :]


class Looking:
    """Inspects and lists locks. `in_cluster`: each lock needs a call of its own (default: no).

    Redis lists keys in no order, so the first page of a listing scans the whole database. The pages
    that follow use what it found. The nodes of a quorum put together what they found: a node that
    does not have a key reports nothing about it.
    """

    def __init__(self, *, in_cluster: bool = False) -> None:
        self._in_cluster = in_cluster
        self._scans: dict[str, Scan] = {}

    def phrase(self, request: Inspect | List) -> Phrase:
        """The commands for a request."""
        if isinstance(request, List):
            return self.list_keys(request, lambda keys: self._inspect(keys, request.limit))
        return self._inspect([request.key], 1)

    def list_keys(self, request: List, look: Look) -> Phrase:
        """Find the keys of the locks, held or free, and `look` at those after `request.after`."""
        scan = self._scans.get(request.prefix)
        if scan is not None and not request.prefix.startswith(request.after):
            following = look(scan.after(request.after))
            if isinstance(following, Phrase):
                return following
        if len(self._scans) >= MAX_SCANS:
            self._scans.clear()
        scan = self._scans[request.prefix] = Scan()
        return self._scan(request, look, scan, b"0", ())

    def _scan(
        self, request: List, look: Look, scan: Scan, cursor: bytes, found: tuple[Any, ...]
    ) -> Phrase:
        """`found`: the replies of the steps before, each with those before it."""

        def read(replies: list[Reply]) -> Answers | Phrase:
            if isinstance(replies[0], Exception):
                return [failed(replies[0])]
            following, fences = replies[0]
            if following != b"0":
                return self._scan(request, look, scan, following, (found, fences))
            scan.found.append(self._keys((found, fences)))
            return look(scan.after(request.after))

        pattern = fences_like(request.prefix, in_cluster=self._in_cluster)
        step = command(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", SCAN_STEP)
        return Phrase((step,), read)

    def _keys(self, found: tuple[Any, ...]) -> frozenset[str]:
        keys: set[str] = set()
        while found:
            found, fences = found
            for fence in fences:
                key = key_of_fence(fence, in_cluster=self._in_cluster)
                if key is not None:
                    keys.add(key)
        return frozenset(keys)

    def _inspect(
        self, keys: Sequence[str], limit: int, start: int = 0, seen: tuple[Seen, ...] = ()
    ) -> Phrase:
        """Look at these, until enough of them are held."""
        some = keys[start : start + AT_ONCE]

        def read(replies: list[Reply]) -> Answers | Phrase:
            for reply in replies:
                if isinstance(reply, Exception):
                    self._scans.clear()  # in a cluster, keys may have moved to another master
                    return [failed(reply)]
            states = [state for reply in replies for state in reply]
            if limit == 1 and isinstance(states[0], Exception):
                return [failed(states[0])]
            leases = seen + _read(some, states)
            if start + AT_ONCE < len(keys) and len(leases) < limit:
                return self._inspect(keys, limit, start + AT_ONCE, leases)
            return [Listing(leases[:limit])]

        calls = [[key] for key in some] if self._in_cluster and some else [some]
        return Phrase(tuple(map(self._call, calls)), read)

    def _call(self, keys: Sequence[str]) -> bytes:
        found = (keys_of(key, in_cluster=self._in_cluster) for key in keys)
        return call("inspect", [each for of_one in found for each in of_one])


def _read(keys: Sequence[str], states: Sequence[Reply]) -> tuple[Seen, ...]:
    """Free locks, and foreign keys that are no locks, are left out."""
    pairs = zip(keys, states, strict=True)
    return tuple(_seen(key, *state) for key, state in pairs if isinstance(state, list))


def _seen(key: str, owner: bytes, left: int, fence: bytes, waiters: int) -> Seen:
    remaining = left / 1000 if left >= 0 else inf  # another program took it, without an expiry
    counter = int(fence) if fence.isdigit() else 0
    return Seen(key, owner.decode(errors="replace"), counter, remaining, waiters)
