"""Inspect locks, and break one."""

from kazoo.exceptions import NoNodeError

from holdfast.core.messages import DONE, NOT_YOURS, Answer, Break, Inspect, List, Listing, Seen
from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import Place, Tree, decode, in_order, read_entry
from holdfast.engines.zookeeper.exchange import Round, Steps
from holdfast.engines.zookeeper.sessions import Session, Sessions


class Inspection:
    """Inspect locks, and break one. A server may lag behind the leader, so it catches up first."""

    def __init__(self, tree: Tree, sessions: Sessions) -> None:
        self._tree, self._sessions = tree, sessions

    def inspect(self, request: Inspect) -> Steps[list[Answer]]:
        """The holder of a lock, and how many wait."""
        return [Listing((yield from self._seen(self._sessions.any(), [request.key])))]

    def list_locks(self, request: List) -> Steps[list[Answer]]:
        """The held locks, from as many as wanted."""
        session = self._sessions.any()
        _, names = yield Round(session, [commands.sync(), commands.children(self._tree.locks)])
        if isinstance(names, NoNodeError):
            return [Listing(())]
        wanted = sorted(
            key
            for key in map(decode, names)
            if key.startswith(request.prefix) and key > request.after
        )
        while wanted:
            some, wanted = wanted[: request.limit], wanted[request.limit :]
            found = yield from self._seen(session, some)
            if found:
                return [Listing(found)]
        return [Listing(())]

    def _seen(self, session: Session, keys: list[str]) -> Steps[tuple[Seen, ...]]:
        """Those of these locks that are held."""
        queues = yield from self._queues(session, keys)
        heads = [(key, places) for key, places in zip(keys, queues, strict=True) if places]
        paths = [f"{self._tree.queue(key)}/{places[0].name}" for key, places in heads]
        entries = yield Round(session, [commands.get(path) for path in paths])
        found = []
        for (key, places), entry in zip(heads, entries, strict=True):
            if isinstance(entry, NoNodeError):
                continue  # it ended since
            data, known = entry
            content = read_entry(data)
            if content is not None:
                fence = content.fence or known.czxid
                waiters = sum(place.waits for place in places[1:])
                found.append(Seen(key, content.holder, fence, content.ttl, waiters))
        return tuple(found)

    def _queues(self, session: Session, keys: list[str]) -> Steps[list[list[Place]]]:
        """The places in each queue."""
        calls = [commands.sync(), *(commands.children(self._tree.queue(key)) for key in keys)]
        _, *found = yield Round(session, calls)
        return [[] if isinstance(names, NoNodeError) else in_order(names) for names in found]

    def break_lock(self, request: Break) -> Steps[list[Answer]]:
        """Delete the first place; its holder finds that out when it extends its lease."""
        session = self._sessions.any()
        while True:
            [places] = yield from self._queues(session, [request.key])
            if not places:
                return [NOT_YOURS]
            path = f"{self._tree.queue(request.key)}/{places[0].name}"
            [gone] = yield Round(session, [commands.delete(path)])
            if not isinstance(gone, NoNodeError):
                return [DONE]
