"""Looking at locks, breaking one, and cells."""

from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

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
from holdfast.engines.zookeeper import phrases
from holdfast.engines.zookeeper.conversation import Rejected, Round, Talk
from holdfast.engines.zookeeper.names import Place, Tree, decode, in_order, parents
from holdfast.engines.zookeeper.phrases import read_entry
from holdfast.engines.zookeeper.session import Session, Sessions

TEXT, BYTES = b"t", b"b"
"""What the value of a cell begins with."""


class Looking:
    """Whatever needs no memory of earlier talks."""

    def __init__(self, tree: Tree, sessions: Sessions) -> None:
        self._tree, self._sessions = tree, sessions

    def look(self, request: Break | List | Inspect | Read | Write) -> Talk[list[Answer]]:
        """Answer one request. A server may lag behind, so it catches up first."""
        session = self._sessions.any()
        if isinstance(request, Write):
            return [(yield from self._write(session, request))]
        if isinstance(request, Read):
            return [(yield from self._read(session, request))]
        if isinstance(request, Break):
            return [(yield from self._break(session, request))]
        if isinstance(request, Inspect):
            return [Listing((yield from self._seen(session, [request.key])))]
        return [(yield from self._list(session, request))]

    def _list(self, session: Session, request: List) -> Talk[Answer]:
        _, names = yield Round(session, [phrases.sync(), phrases.children(self._tree.locks)])
        if isinstance(names, NoNodeError):
            return Listing(())
        wanted = sorted(
            key
            for key in map(decode, names)
            if key.startswith(request.prefix) and key > request.after
        )
        while wanted:
            some, wanted = wanted[: request.limit], wanted[request.limit :]
            found = yield from self._seen(session, some)
            if found:
                return Listing(found)
        return Listing(())

    def _seen(self, session: Session, keys: list[str]) -> Talk[tuple[Seen, ...]]:
        """Those of these locks that are held."""
        queues = yield from self._queues(session, keys)
        heads = [(key, places) for key, places in zip(keys, queues, strict=True) if places]
        paths = [f"{self._tree.queue(key)}/{places[0].name}" for key, places in heads]
        entries = yield Round(session, [phrases.get(path) for path in paths])
        found = []
        for (key, places), entry in zip(heads, entries, strict=True):
            if isinstance(entry, NoNodeError):
                continue  # it ended since
            data, known = entry
            said = read_entry(data)
            if said is not None:
                fence = said.fence or known.czxid
                waiters = sum(place.waits for place in places[1:])
                found.append(Seen(key, said.holder, fence, said.ttl, waiters))
        return tuple(found)

    def _queues(self, session: Session, keys: list[str]) -> Talk[list[list[Place]]]:
        """The places in each queue."""
        calls = [phrases.sync(), *(phrases.children(self._tree.queue(key)) for key in keys)]
        _, *found = yield Round(session, calls)
        return [[] if isinstance(names, NoNodeError) else in_order(names) for names in found]

    def _break(self, session: Session, request: Break) -> Talk[Answer]:
        while True:
            [places] = yield from self._queues(session, [request.key])
            if not places:
                return NOT_YOURS
            path = f"{self._tree.queue(request.key)}/{places[0].name}"
            [gone] = yield Round(session, [phrases.delete(path)])
            if not isinstance(gone, NoNodeError):
                return DONE

    def _read(self, session: Session, request: Read) -> Talk[Answer]:
        path = self._tree.cell(request.key)
        _, found = yield Round(session, [phrases.sync(), phrases.get(path)])
        if isinstance(found, NoNodeError):
            return Versioned(None, 0)
        data, known = found
        kind, raw = data[:1], data[1:]
        if kind not in (TEXT, BYTES):
            raise Rejected(f"{path} is not a cell")
        return Versioned(raw.decode() if kind == TEXT else raw, known.version + 1)

    def _write(self, session: Session, request: Write) -> Talk[Answer]:
        path, value = self._tree.cell(request.key), request.value
        data = TEXT + value.encode() if isinstance(value, str) else BYTES + value
        writing = (
            phrases.put(path, data, request.expect - 1)
            if request.expect
            else phrases.create(path, data)
        )
        [written] = yield Round(session, [writing])
        if isinstance(written, NoNodeError) and not request.expect:
            above = [phrases.node(each) for each in parents(self._tree.cells)]
            written = (yield Round(session, [*above, writing]))[-1]
        return CHANGED if _has_failed(written) else DONE


def _has_failed(reply: Any) -> bool:
    return isinstance(reply, (NoNodeError, NodeExistsError, BadVersionError))
