"""Inspect locks, and break one; read and write cells."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.messages import (
    CHANGED,
    DONE,
    NOT_YOURS,
    Answer,
    Break,
    Inspect,
    List,
    Listing,
    Read,
    Seen,
    Write,
)
from holdfast.core.records import Versioned
from holdfast.engines.etcd import commands
from holdfast.engines.etcd.commands import Calls, Span, cell_of, shares_of
from holdfast.engines.etcd.connection import ErrorReply, accepted
from holdfast.engines.queue import holders, read_value, write_value

PAGE = 1000
"""How many keys are read at a time."""


def inspect(request: Inspect) -> Calls[list[Answer]]:
    """Who holds this one, and how many wait."""
    return [Listing((yield from _seen([request.key])))]


def list_locks(request: List) -> Calls[list[Answer]]:
    """The holders of each lock, from as many queues as wanted."""
    last = request.after
    while names := (yield from _names(request.prefix, last, request.limit)):
        if found := (yield from _seen(names)):
            return [Listing(found)]
        last = names[-1]
    return [Listing(())]


def break_lock(request: Break, broken: list[Any]) -> Calls[list[Answer]]:
    """Delete the places of the holders, or of that one; each finds that out when it extends its
    lease.

    `broken` is kept if the exchange begins again: the places that may be deleted by now. They are
    deleted again, and not those of the next holders.
    """
    again = bool(broken)
    while True:
        if not broken:
            [queue] = yield from _queues([request.key])
            broken += [each for each in _head(queue) if request.holder in ("", _holder(each))]
        if not broken:
            return [NOT_YOURS]
        replies = yield [commands.delete(each.key, each.create_revision) for each in broken]
        deleted = [accepted(reply).succeeded for reply in replies]
        if again or any(deleted):
            return [DONE]
        broken.clear()  # they were released just now


def read_cell(request: Read) -> Calls[list[Answer]]:
    """The value of a cell; its version is the revision at which it was written."""
    reply = accepted((yield commands.find(cell_of(request.key))))
    if not reply.kvs:
        return [Versioned(None, 0)]
    [found] = reply.kvs
    value = read_value(found.value, repr(cell_of(request.key)))
    return [Versioned(value, found.mod_revision)]


def write_cell(request: Write) -> Calls[list[Answer]]:
    """Write the value of a cell if its version is the expected one."""
    key, value = cell_of(request.key), write_value(request.value)
    reply = accepted((yield commands.replace(key, value, request.expect)))
    return [DONE if reply.succeeded else CHANGED]


def _names(prefix: str, last: str, limit: int) -> Calls[list[str]]:
    """The locks that have a queue, in order: those that come after that one."""
    span, names = commands.names_after(prefix, last), dict[str, None]()
    more = True
    while more and len(names) < limit:
        reply = accepted((yield commands.page(span, PAGE)))
        names.update(
            (name, None) for each in reply.kvs if (name := commands.lock_of(each.key)) is not None
        )
        more = reply.more
        if more:
            span = Span(reply.kvs[-1].key + b"\0", span.end)
    return list(names)[:limit]


def _queues(keys: Sequence[str]) -> Calls[list[list[Any]]]:
    """The places in each queue, the first one first."""
    replies = yield [commands.places(commands.queue_of(key)) for key in keys]
    return [list(accepted(reply).kvs) for reply in replies]


def _seen(keys: Sequence[str]) -> Calls[tuple[Seen, ...]]:
    """Those of these locks whose holders' etcd leases live, and for how long."""
    queues = yield from _queues(keys)
    leases = list(dict.fromkeys(place.lease for queue in queues for place in _head(queue)))
    lives = yield [commands.time_to_live(lease) for lease in leases]
    remaining = {
        lease: float(min(life.TTL + 1, life.grantedTTL))  # it is rounded down
        for lease, life in zip(leases, lives, strict=True)
        if not isinstance(life, ErrorReply) and life.TTL >= 0  # or it ended since
    }
    found = []
    for key, queue in zip(keys, queues, strict=True):
        head = _head(queue)
        living = [place for place in head if place.lease in remaining]
        if living:
            (holder, left), *others = ((_holder(each), remaining[each.lease]) for each in living)
            fence, shares = living[-1].create_revision, shares_of(living[0].key)
            waiters = len(queue) - len(head)
            found.append(Seen(key, holder, fence, left, waiters, shares, tuple(others)))
    return tuple(found)


def _head(queue: Sequence[Any]) -> list[Any]:
    """The places that hold the lock."""
    return holders(queue, lambda place: shares_of(place.key))


def _holder(place: Any) -> str:
    holder: str = place.value.decode(errors="replace")
    return holder
