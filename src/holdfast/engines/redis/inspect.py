"""Inspecting one lock, and listing those whose keys have a prefix."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import inf
from typing import cast

from holdfast.core.messages import Inspect, List, Listing, Seen
from holdfast.engines.redis.keys import fences_like, key_of_fence, keys_of, shares_of
from holdfast.engines.redis.protocol import Answers, Exchange, Reply, call, command, failed

AT_ONCE = 100
"""Locks in one call of the script."""

SCAN_STEP, SCAN_STEPS = b"10000", 30
"""Keys that the server goes through in one step, in about 2 ms, and steps for one request."""

MAX_SCANS = 64
"""How many scans are kept; a listing that is older than the last ones starts again."""


class Scan:
    """The keys that one listing has found, on all nodes: a node that does not have one of them
    reports nothing about it."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._sorted: list[str] = []

    def after(self, key: str) -> Sequence[str]:
        """The keys that come after this one, in order."""
        if len(self._sorted) < len(self.found):
            self._sorted = sorted(self.found)
        return self._sorted[bisect_right(self._sorted, key) :]


class Inspector:
    """Inspects and lists locks. `in_cluster`: each lock needs a call of its own (default: no).

    Redis lists keys in no order, so the first page of a listing scans the whole database, some
    steps for each request. The pages that follow use what the last complete scan found. In a
    cluster, each page is a scan: another master's locks are no use to this one.
    """

    def __init__(self, *, in_cluster: bool = False) -> None:
        self._in_cluster = in_cluster
        self._started = 0
        self._scans: dict[str, Scan] = {}
        """Those that go on with another request, by number: the first part of its cursor."""
        self._complete: dict[str, Scan] = {}
        """The last complete scan of each prefix."""

    def exchange(self, request: Inspect | List) -> Exchange:
        """The commands for a request."""
        if isinstance(request, List):
            return self._list(request)
        return self._inspect([request.key], 1)

    def _list(self, request: List) -> Exchange:
        """Find the keys of the locks, held or free, and look at those after `request.after`."""
        number, _, cursor = request.cursor.partition(":")
        if number in self._scans:
            return self._scan(request, number, self._scans[number], cursor.encode(), SCAN_STEPS)
        complete = self._complete.get(request.prefix)
        if complete and not request.cursor and not request.prefix.startswith(request.after):
            return self._inspect(complete.after(request.after), request.limit)
        self._started += 1
        return self._scan(request, str(self._started), Scan(), b"0", SCAN_STEPS)

    def _scan(self, request: List, number: str, scan: Scan, cursor: bytes, steps: int) -> Exchange:
        def read(replies: list[Reply]) -> Answers | Exchange:
            if isinstance(replies[0], Exception):
                return [failed(replies[0])]
            following, fences = replies[0]
            keys = (key_of_fence(fence, in_cluster=self._in_cluster) for fence in fences)
            scan.found.update(key for key in keys if key is not None)
            if following == b"0":
                self._scans.pop(number, None)  # another node that is behind starts again
                if not self._in_cluster:
                    _put(self._complete, request.prefix, scan)
                found = scan.after(request.after)
                return self._inspect(found, request.limit) if found else [Listing(())]
            if steps == 1:
                _put(self._scans, number, scan)
                return [Listing((), f"{number}:{following.decode()}")]
            return self._scan(request, number, scan, following, steps - 1)

        pattern = fences_like(request.prefix, in_cluster=self._in_cluster)
        step = command(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", SCAN_STEP)
        return Exchange((step,), read)

    def _inspect(
        self, keys: Sequence[str], limit: int, start: int = 0, seen: tuple[Seen, ...] = ()
    ) -> Exchange:
        """Look at these, until enough of them are held."""
        some = keys[start : start + AT_ONCE]

        def read(replies: list[Reply]) -> Answers | Exchange:
            for reply in replies:
                if isinstance(reply, Exception):
                    return [failed(reply)]
            leases = seen
            if some:
                found = self.read(some, replies)
                if limit == 1 and isinstance(found[0], Exception):
                    return [failed(found[0])]
                leases += tuple(each for each in found if isinstance(each, Seen))
            if start + AT_ONCE < len(keys) and len(leases) < limit:
                return self._inspect(keys, limit, start + AT_ONCE, leases)
            return [Listing(leases[:limit])]

        return Exchange(self.commands(some) if some else (command(b"PING"),), read)

    def commands(self, keys: Sequence[str]) -> Sequence[bytes]:
        """What to send to look at these locks."""
        found = [keys_of(key, in_cluster=self._in_cluster) for key in keys]
        if self._in_cluster:
            return [call("inspect", each) for each in found]
        return [call("inspect", [each for of_one in found for each in of_one])]

    def read(self, keys: Sequence[str], replies: list[Reply]) -> Sequence[Seen | Exception | None]:
        """What was seen: None of a lock that is free, an error of a foreign key that is no lock."""
        states = [state for reply in replies for state in reply]
        pairs = zip(keys, states, strict=True)
        return [_seen(key, *state) if isinstance(state, list) else state for key, state in pairs]


def _put(scans: dict[str, Scan], key: str, scan: Scan) -> None:
    scans.pop(key, None)
    while len(scans) >= MAX_SCANS:
        scans.pop(next(iter(scans)), None)
    scans[key] = scan


def read_counter(fence: bytes) -> int:
    """0 if another program wrote what is no counter: Redis counts in 64 bits.

    >>> read_counter(b"7"), read_counter(b"seven"), read_counter(b"7" * 5000)
    (7, 0, 0)
    """
    return int(fence) if fence.isdigit() and len(fence) < 20 else 0


def _seen(
    key: str, owner: bytes, left: int, fence: bytes, waiters: int, *members: bytes | int
) -> Seen:
    holder = owner.decode(errors="surrogateescape")
    remaining = left / 1000 if left >= 0 else inf  # another program took it, without an expiry
    counter = read_counter(fence)
    if not members:
        return Seen(key, holder, counter, remaining, waiters)
    pairs = cast(Iterable[tuple[bytes, int]], zip(members[::2], members[1::2], strict=True))
    first, *others = (
        (member.decode(errors="surrogateescape"), ends / 1000) for member, ends in pairs
    )
    return Seen(key, first[0], counter, first[1], waiters, shares_of(holder) or 0, tuple(others))
