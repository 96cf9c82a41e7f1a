"""Inspect locks, and break one."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Break, Inspect, List, Listing, Seen
from holdfast.engines.etcd import commands
from holdfast.engines.etcd.commands import (
    Calls,
    Span,
    lock_of,
    names_after,
    queue_of,
    shares_of,
)
from holdfast.engines.etcd.connection import ErrorReply, accepted
from holdfast.engines.queue import holders

PAGE = 1000
"""How many places are read at a time."""


def inspect(request: Inspect) -> Calls[list[Answer]]:
    """Who holds this one, and how many wait."""
    head, waiters = yield from _head(request.key)
    return [Listing((yield from _seen([(request.key, head, waiters)] if head else [])))]


def list_locks(request: List) -> Calls[list[Answer]]:
    """The holders of each lock, from as many queues as wanted."""
    last, exhausted = request.after, False
    while not exhausted:
        queues, more = yield from _queues(request.prefix, last, request.limit)
        # Of the last one, more places may follow.
        names = list(queues)[: min(request.limit, len(queues) - more)]
        exhausted = len(names) == len(queues)
        last = names[-1] if names else last
        found = yield from _heads({name: queues[name] for name in names})
        if found:
            return [Listing(found)]
    return [Listing(())]


def _queues(prefix: str, last: str, limit: int) -> Calls[tuple[dict[str, list[Any]], bool]]:
    """The places in more than `limit` queues, if there are that many; whether there are more."""
    span, more = names_after(prefix, last), True
    queues: dict[str, list[Any]] = {}
    while more and len(queues) <= limit:
        reply = accepted((yield commands.page(span, PAGE)))
        for each in reply.kvs:
            name = lock_of(each.key)
            if name is not None:
                queues.setdefault(name, []).append(each)
        more = reply.more
        if more:
            span = Span(reply.kvs[-1].key + b"\0", span.end)
    return queues, more


def _head(key: str) -> Calls[tuple[list[Any], int]]:
    """The places that hold a lock, and how many wait."""
    queue = queue_of(key)
    reply = accepted((yield commands.first_of(queue)))
    if not reply.kvs:
        return [], 0
    shares = shares_of(reply.kvs[0].key)
    if shares != 1:
        reply = accepted((yield commands.first_of(queue, shares)))
    head = _holders(reply.kvs)
    return head, reply.count - len(head)


def _holders(places: Sequence[Any]) -> list[Any]:
    return holders(places, lambda place: shares_of(place.key))


def _heads(queues: dict[str, list[Any]]) -> Calls[tuple[Seen, ...]]:
    """The holders in each queue. Their values are read one by one: between them there may be cells
    of any size."""
    heads = {name: _holders(sorted(places, key=_creation)) for name, places in queues.items()}
    replies = yield [commands.find(place.key) for head in heads.values() for place in head]
    found = {_identity(each): each for reply in replies for each in accepted(reply).kvs}
    seen = []
    for name, head in heads.items():
        same = [found[_identity(each)] for each in head if _identity(each) in found]
        seen.append((name, same, len(queues[name]) - len(head)))
    return (yield from _seen(seen))


def _identity(place: Any) -> tuple[bytes, int]:
    """A place that has ended is another one, though its name may be used again."""
    return place.key, place.create_revision


def _creation(place: Any) -> int:
    return int(place.create_revision)


def _seen(heads: list[tuple[str, list[Any], int]]) -> Calls[tuple[Seen, ...]]:
    """Those whose etcd leases live, and for how long."""
    leases = list(dict.fromkeys(place.lease for _, head, _ in heads for place in head))
    lives = yield [commands.time_to_live(lease) for lease in leases]
    remaining = {
        lease: float(min(life.TTL + 1, life.grantedTTL))  # it is rounded down
        for lease, life in zip(leases, lives, strict=True)
        if not isinstance(life, ErrorReply) and life.TTL >= 0  # or it ended since
    }
    found = []
    for key, head, waiters in heads:
        living = [place for place in head if place.lease in remaining]
        if living:
            (holder, left), *others = ((_holder(each), remaining[each.lease]) for each in living)
            fence, shares = living[-1].create_revision, shares_of(living[0].key)
            found.append(Seen(key, holder, fence, left, waiters, shares, tuple(others)))
    return tuple(found)


def _holder(place: Any) -> str:
    holder: str = place.value.decode(errors="replace")
    return holder


def break_lock(request: Break, known: dict[str, Any]) -> Calls[list[Answer]]:
    """Delete the places of the holders, or of that one; each finds that out when it extends its
    lease.

    `known` is kept from one endpoint to the next: if it is unknown whether the places were deleted,
    it is still those which are deleted, and not the next holder's.
    """
    while True:
        again = request.key in known
        if not again:
            head, _ = yield from _head(request.key)
            wanted = [each for each in head if request.holder in ("", _holder(each))]
            if not wanted:
                return [NOT_YOURS]
            known[request.key] = wanted
        places = known[request.key]
        replies = yield [commands.delete(p.key, p.create_revision) for p in places]
        deleted = [accepted(reply).succeeded for reply in replies]
        if again or any(deleted):
            return [DONE]
        del known[request.key]  # they have been released
