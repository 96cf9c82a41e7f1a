"""What is said to etcd, as messages of its protocol. Pure.

The parts of a message are dictionaries: as messages of their own, which are copied into the whole,
they would take three times as long to make, and that is 2 % of what a lock costs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from holdfast.core.messages import Acquire, Extend, Release, Request
from holdfast.engines.etcd.keys import Span
from holdfast.engines.etcd.protocol import (
    ASCENDING,
    AUTHENTICATE,
    BY_CREATION,
    CREATION,
    DESCENDING,
    EQUAL,
    GREATER,
    LEASE_GRANT,
    LEASE_REVOKE,
    LEASE_TIME_TO_LIVE,
    MODIFICATION,
    NO_PUTS,
    RANGE,
    TXN,
    AuthenticateRequest,
    Compare,
    LeaseGrantRequest,
    LeaseRevokeRequest,
    LeaseTimeToLiveRequest,
    Method,
    RangeRequest,
    TxnRequest,
    WatchRequest,
)

HOLDING, WAITING = b"holding", b"waiting"
"""What the first, and what the others in a queue have in their keys: for people who look at them,
and so that nobody takes a waiter for a holder. Whoever takes it without having waited says who it
is besides, since the key may be named after another holder."""

Part: TypeAlias = dict[str, Any]
"""Of a message: its fields."""


class Call(NamedTuple):
    """One call, with one answer."""

    method: Method
    request: Any


class KeepAlives(NamedTuple):
    """Let these leases live on, all over one stream; the answer has a ttl for each, 0 for dead."""

    leases: Sequence[int]


def log_in(user: str, password: str) -> Call:
    """Say who we are; gives a token."""
    return Call(AUTHENTICATE, AuthenticateRequest(name=user, password=password))


def grant(lease: int, ttl: int) -> Call:
    """Make a lease of that many seconds."""
    return Call(LEASE_GRANT, LeaseGrantRequest(ID=lease, TTL=ttl))


def revoke(lease: int) -> Call:
    """End a lease, and with it whatever key hangs on it."""
    return Call(LEASE_REVOKE, LeaseRevokeRequest(ID=lease))


def time_to_live(lease: int) -> Call:
    """How long a lease has."""
    return Call(LEASE_TIME_TO_LIVE, LeaseTimeToLiveRequest(ID=lease))


def take(queue: Span, place: bytes, lease: int, holder: str) -> Call:
    """If nobody is in the queue, be the first; else tell who is. The place may be named after
    another holder."""
    empty = {**_created(queue.first, 0), "range_end": queue.end}
    value = b"%b %b" % (HOLDING, holder.encode())
    return _txn([empty], [_put(place, value, lease)], [_read(_first(queue))])


def join(queue: Span, place: bytes, lease: int) -> Call:
    """Go to the end of the queue, and tell who is before me; tell my place if I have one."""
    last_two = _read(_range(queue, DESCENDING, limit=2))
    return _txn([_created(place, 0)], [_put(place, WAITING, lease), last_two], [_get(place)])


def confirm(queue: Span, place: bytes, revision: int, modified: int, lease: int) -> Call:
    """If my place is as I know it, and is the first, hold the lock; else tell who is before me."""
    nobody_before = {
        **_created(queue.first, revision - 1),
        "range_end": queue.end,
        "result": GREATER,
    }
    return _txn(
        [_unchanged(place, modified), nobody_before],
        [_put(place, HOLDING, lease)],
        [_get(place), _read(_before(queue, revision))],
    )


def look(queue: Span, revision: int) -> Call:
    """My place, and who is before me. Not a transaction: one that only reads, and whose caller goes
    away meanwhile, ends the process of some servers (3.5.1; etcd's issue 14110)."""
    places = _range(queue, DESCENDING, limit=2, max_create_revision=revision)
    return Call(RANGE, RangeRequest(**places))


def attach(place: bytes, value: bytes, modified: int, lease: int) -> Call:
    """Hang my place on another lease, if it is as I know it. Its creation stays what it was."""
    return _txn([_unchanged(place, modified)], [_put(place, value, lease)], [])


def part(place: bytes, modified: int) -> Call:
    """Give up a place that is as I know it."""
    return _txn([_unchanged(place, modified)], [_delete(place)], [])


def leave(place: bytes) -> Call:
    """Give up a place."""
    return _txn([], [_delete(place)], [])


def touch(place: bytes, revision: int) -> Call:
    """Write to a place, if it is still the same one, and leave it as it is; tell how it is. Then
    nobody keeps its lease: see `spares`."""
    written = {"request_put": {"key": place, "ignore_value": True, "ignore_lease": True}}
    return _txn([_created(place, revision)], [written, _get(place)], [])


def find(place: bytes) -> Call:
    """What is under this key."""
    return Call(RANGE, RangeRequest(key=place))


def first_of(queue: Span) -> Call:
    """Who is the first in the queue, and how many there are."""
    return Call(RANGE, RangeRequest(**_first(queue)))


def page(span: Span, limit: int) -> Call:
    """Some keys, in their order."""
    return Call(
        RANGE, RangeRequest(key=span.first, range_end=span.end, limit=limit, keys_only=True)
    )


def replace(key: bytes, value: bytes, version: int) -> Call:
    """Write, if nobody has written since."""
    return _txn([_unchanged(key, version)], [_put(key, value, 0)], [])


def same(place: bytes, revision: int) -> Any:
    """The comparison that holds for as long as this place is there."""
    return Compare(**_created(place, revision))


def watch(number: int, place: bytes, since: int) -> Any:
    """Tell when this key is deleted, from that revision on."""
    return WatchRequest(
        create_request={
            "key": place,
            "start_revision": since,
            "filters": [NO_PUTS],
            "watch_id": number,
        }
    )


def unwatch(number: int) -> Any:
    """Watch it no more."""
    return WatchRequest(cancel_request={"watch_id": number})


def _created(key: bytes, revision: int) -> Part:
    """Holds if the key was created at that revision; 0: if it is not there."""
    return {"target": CREATION, "result": EQUAL, "key": key, "create_revision": revision}


def _unchanged(key: bytes, modified: int) -> Part:
    """Holds until the key is written or deleted. So what comes late, when another try has come
    through, does nothing: it would hang a key on a lease that nobody renews."""
    return {"target": MODIFICATION, "result": EQUAL, "key": key, "mod_revision": modified}


def _txn(compare: list[Part], success: list[Part], failure: list[Part]) -> Call:
    return Call(TXN, TxnRequest(compare=compare, success=success, failure=failure))


def _put(key: bytes, value: bytes, lease: int) -> Part:
    return {"request_put": {"key": key, "value": value, "lease": lease}}


def _delete(key: bytes) -> Part:
    return {"request_delete_range": {"key": key}}


def _get(key: bytes) -> Part:
    return _read({"key": key})


def _read(span: Part) -> Part:
    return {"request_range": span}


def _first(queue: Span) -> Part:
    return _range(queue, ASCENDING, limit=1)


def _before(queue: Span, revision: int) -> Part:
    return _range(queue, DESCENDING, limit=1, max_create_revision=revision - 1)


def _range(queue: Span, order: int, limit: int, max_create_revision: int = 0) -> Part:
    return {
        "key": queue.first,
        "range_end": queue.end,
        "limit": limit,
        "sort_order": order,
        "sort_target": BY_CREATION,
        "max_create_revision": max_create_revision,
    }


def holder_of(requests: Sequence[Request]) -> str:
    """Whose these are; nobody's, if they are not about a lease."""
    first = requests[0]
    return first.holder if isinstance(first, (Acquire, Extend, Release)) else ""
