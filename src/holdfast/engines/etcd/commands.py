"""What is sent to etcd: keys, and calls as messages of its protocol. Pure.

A lock is a queue of keys, `name\\0lock\\0place`, in the order of their creation; the first holds
the lock. The value of a key is its holder. A cell is `name\\0cell`. No name contains NUL, so names
cannot be confused, and the keys are in the order of the names.

The place of a semaphore or a read lock begins with its shares, `3/place` or `0/place`; without that
it is exclusive. `engines.queue` has the rules.
"""

from base64 import b64encode
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from holdfast.engines.etcd import protocol
from holdfast.engines.etcd.protocol import Compare, Method

Part: TypeAlias = dict[str, Any]
"""Of a message: its fields. A message of its own would take three times as long to make."""


class Call(NamedTuple):
    """One call, with one reply; over a stream of its own where the method has streams."""

    method: Method
    request: Any


T = TypeVar("T")
Calls: TypeAlias = Generator[Call | list[Call], Any, T]
"""An exchange with one endpoint: it yields a call, or several that go out together, and is sent the
replies. It is closed in the middle if there is no reply, and begun again at another endpoint."""


class Span(NamedTuple):
    """All keys from the first up to, but not including, the second."""

    first: bytes
    end: bytes


def queue_of(key: str) -> Span:
    """Where the queue of a lock is.

    >>> queue_of("holdfast:door")
    Span(first=b'holdfast:door\\x00lock\\x00', end=b'holdfast:door\\x00lock\\x01')
    """
    name = key.encode()
    return Span(name + b"\0lock\0", name + b"\0lock\1")


def place_of(key: str, place: str) -> bytes:
    """The key of a place in the queue."""
    return b"%b\0lock\0%b" % (key.encode(), place.encode())


def shares_of(place: bytes) -> int:
    """The shares of the key of a place.

    >>> shares_of(place_of("door", "3/5ec2e7.0")), shares_of(place_of("door", "5ec2e7.0"))
    (3, 1)
    """
    shares, slash, _ = place.rpartition(b"\0")[2].partition(b"/")
    return int(shares) if slash and shares.isdigit() else 1


def cell_of(key: str) -> bytes:
    """The key of a cell."""
    return key.encode() + b"\0cell"


def names_after(prefix: str, last: str) -> Span:
    """Where the names are that begin with `prefix` and come after `last`."""
    start = prefix.encode()
    # No byte of UTF-8 is 0xff; and a range that ends with NUL has no end.
    end = start[:-1] + bytes((start[-1] + 1,)) if start else b"\0"
    return Span(max(start, last.encode() + b"\1"), end)


def lock_of(place: bytes) -> str | None:
    """The lock of a key; None if it is no place in a queue.

    >>> lock_of(place_of("holdfast:door", "5ec2e7.0"))
    'holdfast:door'
    """
    name, _, rest = place.partition(b"\0")
    return name.decode(errors="replace") if rest.startswith(b"lock\0") else None


def log_in(user: str, password: str) -> Call:
    """Log in; the reply has a token."""
    return _call(protocol.AUTHENTICATE, name=user, password=password)


def grant(lease: int, ttl: int) -> Call:
    """Create an etcd lease of that many seconds."""
    return _call(protocol.LEASE_GRANT, ID=lease, TTL=ttl)


def revoke(lease: int) -> Call:
    """End an etcd lease, and delete the keys that are attached to it."""
    return _call(protocol.LEASE_REVOKE, ID=lease)


def keep_alive(lease: int) -> Call:
    """Begin the ttl of an etcd lease anew; the reply has a ttl of 0 if it has ended."""
    return _call(protocol.LEASE_KEEP_ALIVE, ID=lease)


def time_to_live(lease: int, *, keys: bool = False) -> Call:
    """How long an etcd lease has, and the keys that are attached to it."""
    return _call(protocol.LEASE_TIME_TO_LIVE, ID=lease, keys=keys)


def take(queue: Span, place: bytes, lease: int, holder: str, since: int = 0) -> Call:
    """If no rival has come since that revision, at which there was room, be one more; else read my
    place, and my last rivals."""
    shares = shares_of(place)
    none_since = [
        {**_created(each.first, since + 1), "range_end": each.end, "result": protocol.LESS}
        for each in _rivals(queue, shares)
    ]
    return _txn(
        [_created(place, 0), *none_since],
        [_put(place, holder.encode(), lease)],
        [_read({"key": place}), *map(_read, _last(queue, shares, shares or 1))],
    )


def join(queue: Span, place: bytes, lease: int, holder: str) -> Call:
    """Go to the end of the queue, and read who is before me; read my place if there is one."""
    shares = shares_of(place)
    put = _put(place, holder.encode(), lease)
    last = _last(queue, shares, shares + 1)  # my own is the last in the queue
    return _txn([_created(place, 0)], [put, *map(_read, last)], [_read({"key": place})])


def look(queue: Span, shares: int, created: int) -> list[Call]:
    """Read who is before my place, which was created at that revision. (No transaction: servers
    from 3.5.0 to 3.5.6 panic if one that only reads is cancelled, as when its client is killed.)"""
    before = _last(queue, shares, shares or 1, created - 1)
    return [_call(protocol.RANGE, **each) for each in before]


def attach(place: bytes, modified: int, lease: int, holder: str) -> Call:
    """If my place was written last at that revision, attach it to another etcd lease. Its create
    revision stays."""
    return _txn([_modified(place, modified)], [_put(place, holder.encode(), lease)], [])


def delete(place: bytes, revision: int = 0) -> Call:
    """Delete a place if it was created at that revision; 0: at any."""
    return _txn([_created(place, revision)] if revision else [], [_delete(place)], [])


def find(key: bytes) -> Call:
    """Read one key."""
    return _call(protocol.RANGE, key=key)


def places(queue: Span) -> Call:
    """Read a queue, the first place first."""
    return _call(protocol.RANGE, **_range(queue, protocol.ASCENDING))


def page(span: Span, limit: int) -> Call:
    """Some keys, in their order."""
    return _call(protocol.RANGE, key=span.first, range_end=span.end, limit=limit, keys_only=True)


def replace(key: bytes, value: bytes, version: int) -> Call:
    """Write a key if it was last written at that revision; 0: if it is not there."""
    return _txn([_modified(key, version)], [_put(key, value, 0)], [])


class Comparison(NamedTuple):
    """What a user's own transaction is guarded with: it holds for as long as the lease does, since
    the holder's key is there, and is the same key.

    A transaction with this comparison is carried out while the lock is held, or not at all: the
    cluster decides, so neither a clock nor a pause can come between.

    >>> Comparison(b"k", 7).as_json()
    {'key': 'aw==', 'target': 'CREATE', 'result': 'EQUAL', 'create_revision': '7'}
    """

    key: bytes
    create_revision: int

    def as_bytes(self) -> bytes:
        """A message `etcdserverpb.Compare`, encoded, for any client that uses gRPC."""
        message = Compare(**_created(self.key, self.create_revision))
        encoded: bytes = message.SerializeToString()
        return encoded

    def as_json(self) -> dict[str, str]:
        """The same, for the JSON gateway."""
        return {
            "key": b64encode(self.key).decode(),
            "target": "CREATE",
            "result": "EQUAL",
            "create_revision": str(self.create_revision),
        }


def watch(number: int, place: bytes, since: int) -> Any:
    """Report when this key is deleted, from that revision on."""
    created = {
        "key": place,
        "start_revision": since,
        "filters": [protocol.NO_PUTS],
        "watch_id": number,
    }
    return protocol.WATCH.request(create_request=created)


def unwatch(number: int) -> Any:
    """End a watch."""
    return protocol.WATCH.request(cancel_request={"watch_id": number})


def _created(key: bytes, revision: int) -> Part:
    """Holds if the key was created at that revision; 0: if it is not there."""
    return {
        "target": protocol.CREATION,
        "result": protocol.EQUAL,
        "key": key,
        "create_revision": revision,
    }


def _modified(key: bytes, revision: int) -> Part:
    """Holds if the key was written last at that revision. So a call that comes late, when another
    try was carried out, does nothing."""
    return {
        "target": protocol.MODIFICATION,
        "result": protocol.EQUAL,
        "key": key,
        "mod_revision": revision,
    }


def _txn(compare: list[Part], success: list[Part], failure: list[Part]) -> Call:
    return _call(protocol.TXN, compare=compare, success=success, failure=failure)


def _call(method: Method, **fields: Any) -> Call:
    return Call(method, method.request(**fields))


def _put(key: bytes, value: bytes, lease: int) -> Part:
    return {"request_put": {"key": key, "value": value, "lease": lease}}


def _delete(key: bytes) -> Part:
    return {"request_delete_range": {"key": key}}


def _read(span: Part) -> Part:
    return {"request_range": span}


def _rivals(queue: Span, shares: int) -> list[Span]:
    """Where the places are that may keep one with these shares out: any, but other readers are
    never in a reader's way."""
    if shares:
        return [queue]
    readers = queue.first + b"0/"
    return [Span(queue.first, readers), Span(readers[:-1] + b"0", queue.end)]


def _last(queue: Span, shares: int, limit: int, created: int = 0) -> list[Part]:
    """So many of the last rivals, created no later than that."""
    return [_range(each, protocol.DESCENDING, limit, created) for each in _rivals(queue, shares)]


def _range(span: Span, order: int, limit: int = 0, max_create_revision: int = 0) -> Part:
    return {
        "key": span.first,
        "range_end": span.end,
        "limit": limit,
        "sort_order": order,
        "sort_target": protocol.BY_CREATION,
        "max_create_revision": max_create_revision,
    }
