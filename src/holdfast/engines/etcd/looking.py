"""Looking at locks, breaking one, and cells."""

from typing import TYPE_CHECKING, Any

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
from holdfast.engines.etcd import phrases
from holdfast.engines.etcd.keys import Span, cell_of, names_after, queue_of, read_place
from holdfast.engines.etcd.phrases import HOLDING
from holdfast.engines.etcd.replies import Refused, Rejected, accepted

if TYPE_CHECKING:
    from holdfast.engines.etcd.speech import Talk

PAGE = 1000
"""How many places are read at a time."""

TEXT, BYTES = b"t", b"b"
"""What the value of a cell begins with."""


def look(request: Break | List | Inspect | Read | Write, known: dict[str, Any]) -> "Talk[Answer]":
    """Whatever needs no books. `known` is what earlier talks about this request have found out."""
    if isinstance(request, Inspect):
        return (yield from _inspect(request))
    if isinstance(request, List):
        return (yield from _list(request))
    if isinstance(request, Break):
        return (yield from _break(request, known))
    if isinstance(request, Read):
        return (yield from _read(request))
    return (yield from _write(request))


def _inspect(request: Inspect) -> "Talk[Answer]":
    reply = accepted((yield phrases.first_of(queue_of(request.key))))
    if not reply.kvs:
        return Listing(())
    first = reply.kvs[0]
    return Listing((yield from _seen([(request.key, first, reply.count - 1)])))


def _list(request: List) -> "Talk[Answer]":
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


def _queues(prefix: str, last: str, limit: int) -> "Talk[tuple[dict[str, list[Any]], bool]]":
    """The places in more than `limit` queues, if there are so many; whether there are more."""
    span, more = names_after(prefix, last), True
    queues: dict[str, list[Any]] = {}
    while more and len(queues) <= limit:
        reply = accepted((yield phrases.page(span, PAGE)))
        for each in reply.kvs:
            place = read_place(each.key)
            if place is not None:
                queues.setdefault(place[0], []).append(each)
        more = reply.more
        if more:
            span = Span(reply.kvs[-1].key + b"\0", span.end)
    return queues, more


def _heads(queues: dict[str, list[Any]]) -> "Talk[tuple[Seen, ...]]":
    """The first of each queue: who they are is in their values, which are read one by one, for in
    between there may be cells of any size."""
    firsts = [min(places, key=_creation) for places in queues.values()]
    replies = yield [phrases.find(first.key) for first in firsts]
    heads = []
    for (name, places), first, reply in zip(queues.items(), firsts, replies, strict=True):
        found = accepted(reply).kvs
        if found and found[0].create_revision == first.create_revision:  # or it ended since
            heads.append((name, found[0], len(places) - 1))
    return (yield from _seen(heads))


def _creation(place: Any) -> int:
    return int(place.create_revision)


def _seen(heads: list[tuple[str, Any, int]]) -> "Talk[tuple[Seen, ...]]":
    """Those whose leases live, and for how long."""
    lives = yield [phrases.time_to_live(first.lease) for _, first, _ in heads]
    found = []
    for (key, first, waiters), life in zip(heads, lives, strict=True):
        if isinstance(life, Refused) or life.TTL < 0:
            continue  # it ended since
        _, first_user = read_place(first.key) or ("", "")
        holder = first.value.partition(b" ")[2].decode(errors="replace") or first_user
        remaining = float(min(life.TTL + 1, life.grantedTTL))  # it is rounded down
        found.append(Seen(key, holder, first.create_revision, remaining, waiters))
    return tuple(found)


def _break(request: Break, known: dict[str, Any]) -> "Talk[Answer]":
    """Take the first one's place away. If it is not known whether that was done, it is still the
    same one's, and not that of whoever comes next."""
    while True:
        again = request.key in known
        if not again:
            reply = accepted((yield phrases.first_of(queue_of(request.key))))
            if not reply.kvs:
                return NOT_YOURS
            known[request.key] = reply.kvs[0]
        taken_away = yield from _take_away(known[request.key])
        if taken_away or again:
            return DONE
        del known[request.key]  # it has left by itself


def _take_away(first: Any) -> "Talk[bool]":
    """Take a place away, and the lease, so that its holder learns of it; False if it is gone. The
    place is written to before: from then on the lease is nobody else's. It is taken away only as it
    was then: a waiter may hold it meanwhile, or a holder have hung it on another lease."""
    taken = False
    while True:
        touched = accepted((yield phrases.touch(first.key, first.create_revision)))
        if not touched.succeeded:
            return taken
        taken = True
        [found] = touched.responses[1].response_range.kvs
        if found.value.startswith(HOLDING):  # a waiter's lease is not its own
            yield phrases.revoke(found.lease)
        accepted((yield phrases.part(first.key, found.mod_revision)))


def _read(request: Read) -> "Talk[Answer]":
    reply = accepted((yield phrases.find(cell_of(request.key))))
    if not reply.kvs:
        return Versioned(None, 0)
    [found] = reply.kvs
    kind, raw = found.value[:1], found.value[1:]
    if kind not in (TEXT, BYTES):
        raise Rejected(f"{cell_of(request.key)!r} is not a cell")
    return Versioned(raw.decode() if kind == TEXT else raw, found.mod_revision)


def _write(request: Write) -> "Talk[Answer]":
    value = request.value
    raw = TEXT + value.encode() if isinstance(value, str) else BYTES + value
    reply = accepted((yield phrases.replace(cell_of(request.key), raw, request.expect)))
    return DONE if reply.succeeded else CHANGED
