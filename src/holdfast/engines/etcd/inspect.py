"""Inspect locks, and break one."""

from typing import Any

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Break, Inspect, List, Listing, Seen
from holdfast.engines.etcd import commands
from holdfast.engines.etcd.commands import Span, Steps, lock_of, names_after, queue_of
from holdfast.engines.etcd.connection import ErrorReply, accepted

PAGE = 1000
"""How many places are read at a time."""


def inspect(request: Inspect) -> Steps[Answer]:
    """Who holds this one, and how many wait."""
    reply = accepted((yield commands.first_of(queue_of(request.key))))
    if not reply.kvs:
        return Listing(())
    return Listing((yield from _seen([(request.key, reply.kvs[0], reply.count - 1)])))


def list_locks(request: List) -> Steps[Answer]:
    """The first of each queue, from as many queues as wanted."""
    last, exhausted = request.after, False
    while not exhausted:
        queues, more = yield from _queues(request.prefix, last, request.limit)
        # Of the last one, more places may follow.
        names = list(queues)[: min(request.limit, len(queues) - more)]
        exhausted = len(names) == len(queues)
        last = names[-1] if names else last
        found = yield from _heads({name: queues[name] for name in names})
        if found:
            return Listing(found)
    return Listing(())


def _queues(prefix: str, last: str, limit: int) -> Steps[tuple[dict[str, list[Any]], bool]]:
    """The places in more than `limit` queues, if there are so many; whether there are more."""
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


def _heads(queues: dict[str, list[Any]]) -> Steps[tuple[Seen, ...]]:
    """The first of each queue. Their values are read one by one: between them there may be cells of
    any size."""
    firsts = [min(places, key=_creation) for places in queues.values()]
    replies = yield [commands.find(first.key) for first in firsts]
    heads = []
    for (name, places), first, reply in zip(queues.items(), firsts, replies, strict=True):
        found = accepted(reply).kvs
        if found and found[0].create_revision == first.create_revision:  # or it ended since
            heads.append((name, found[0], len(places) - 1))
    return (yield from _seen(heads))


def _creation(place: Any) -> int:
    return int(place.create_revision)


def _seen(heads: list[tuple[str, Any, int]]) -> Steps[tuple[Seen, ...]]:
    """Those whose etcd leases live, and for how long."""
    lives = yield [commands.time_to_live(first.lease) for _, first, _ in heads]
    found = []
    for (key, first, waiters), life in zip(heads, lives, strict=True):
        if isinstance(life, ErrorReply) or life.TTL < 0:
            continue  # it ended since
        holder = first.value.decode(errors="replace")
        remaining = float(min(life.TTL + 1, life.grantedTTL))  # it is rounded down
        found.append(Seen(key, holder, first.create_revision, remaining, waiters))
    return tuple(found)


def break_lock(request: Break, known: dict[str, Any]) -> Steps[Answer]:
    """Delete the first place; its holder finds that out when it extends its lease.

    `known` is kept from one endpoint to the next: if it is unknown whether the place was deleted,
    it is still that one which is deleted, and not the next holder's.
    """
    while True:
        again = request.key in known
        if not again:
            reply = accepted((yield commands.first_of(queue_of(request.key))))
            if not reply.kvs:
                return NOT_YOURS
            known[request.key] = reply.kvs[0]
        first = known[request.key]
        deleted = accepted((yield commands.delete_created(first.key, first.create_revision)))
        if deleted.succeeded or again:
            return DONE
        del known[request.key]  # its holder has released it
