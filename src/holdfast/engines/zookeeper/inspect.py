"""Inspect locks, and break one; read and write cells. A server may lag behind the leader, so it
catches up before it is asked."""

from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from kazoo.exceptions import NoNodeError

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
from holdfast.engines.queue import holders, read_value, write_value
from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import Entry, Place, Tree, in_order, parents
from holdfast.engines.zookeeper.sessions import Calls, Send, Session, Sessions


def inspect(tree: Tree, sessions: Sessions, request: Inspect) -> Calls[Answer]:
    """The holders of a lock, and how many wait."""
    return Listing((yield from _seen(tree, sessions.any(), [request.key])))


def list_locks(tree: Tree, sessions: Sessions, request: List) -> Calls[Answer]:
    """The held locks, from as many as wanted."""
    session = sessions.any()
    _, names = yield Send(session, [commands.sync(), commands.children(tree.locks)])
    if isinstance(names, NoNodeError):
        return Listing(())
    wanted = sorted(
        key
        for key in map(commands.decode, names)
        if key.startswith(request.prefix) and key > request.after
    )
    while wanted:
        some, wanted = wanted[: request.limit], wanted[request.limit :]
        found = yield from _seen(tree, session, some)
        if found:
            return Listing(found)
    return Listing(())


def _seen(tree: Tree, session: Session, keys: list[str]) -> Calls[tuple[Seen, ...]]:
    """Those of these locks that are held."""
    queues = yield from _queues(tree, session, keys)
    paths = [
        f"{tree.queue(key)}/{place.name}"
        for key, places in zip(keys, queues, strict=True)
        for place in _holders(places)
    ]
    replies = iter((yield Send(session, [commands.get(path) for path in paths])))
    found = []
    for key, places in zip(keys, queues, strict=True):
        head = _holders(places)
        entries = [each for each in map(_entry, islice(replies, len(head))) if each is not None]
        if entries:
            first, *others = [(each.holder, each.ttl) for each in entries]
            fence = max(each.fence for each in entries)
            waiters = sum(place.waits for place in places[len(head) :])
            shares = head[0].shares
            found.append(Seen(key, first[0], fence, first[1], waiters, shares, tuple(others)))
    return tuple(found)


def _queues(tree: Tree, session: Session, keys: list[str]) -> Calls[list[list[Place]]]:
    """The places in each queue."""
    calls = [commands.sync(), *(commands.children(tree.queue(key)) for key in keys)]
    _, *found = yield Send(session, calls)
    return [[] if isinstance(names, NoNodeError) else in_order(names) for names in found]


def break_lock(tree: Tree, sessions: Sessions, request: Break) -> Calls[Answer]:
    """Delete the places of the holders, or of that one; each finds that out when it extends its
    lease."""
    if not request.is_text:
        return NOT_YOURS
    session, queue, only = sessions.any(), tree.queue(request.key), request.holder
    while True:
        [places] = yield from _queues(tree, session, [request.key])
        broken = [p for p in _holders(places) if not only or p.secret == commands.secret_of(only)]
        if not broken:
            return NOT_YOURS
        gone = yield Send(session, [commands.delete(f"{queue}/{each.name}") for each in broken])
        if not all(isinstance(each, NoNodeError) for each in gone):
            return DONE  # else they were released just now


def read_cell(tree: Tree, sessions: Sessions, request: Read) -> Calls[Answer]:
    """The value of a cell; its version is that of the node, counted from 1."""
    path = tree.cell(request.key)
    _, found = yield Send(sessions.any(), [commands.sync(), commands.get(path)])
    if isinstance(found, NoNodeError):
        return Versioned(None, 0)
    data, known = found
    return Versioned(read_value(data, path), known.version + 1)


def write_cell(tree: Tree, sessions: Sessions, request: Write) -> Calls[Answer]:
    """Write the value of a cell if its version is the expected one."""
    session, path, data = sessions.any(), tree.cell(request.key), write_value(request.value)
    if request.expect:
        writing = commands.put(path, data, request.expect - 1)
    else:
        writing = commands.create(path, data)
    [written] = yield Send(session, [writing])
    if isinstance(written, NoNodeError) and not request.expect:
        above = [commands.node(each) for each in parents(tree.cells)]
        written = (yield Send(session, [*above, writing]))[-1]
    return CHANGED if isinstance(written, Exception) else DONE


def _holders(places: Sequence[Place]) -> list[Place]:
    return holders(places, attrgetter("shares"))


def _entry(reply: Any) -> Entry | None:
    """What is in a place, with its fence; None if it ended since, or is not holdfast's."""
    if isinstance(reply, NoNodeError):
        return None
    data, known = reply
    entry = commands.read_entry(data)
    return entry and entry._replace(fence=entry.fence or known.czxid)
