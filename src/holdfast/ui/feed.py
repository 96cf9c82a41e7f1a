"""One poller for all pages: it looks every second, and hands each page only what has changed.

While a page is open, the servers are looked at, too, by a poller of their own: one that hangs does
not delay what is seen of the locks.

Holder ids contain a secret, so pages refer to holders by a hash. They refer to locks by a hash of
the name, because a name can be any text.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from math import inf
from typing import Any, TypeAlias

from holdfast.breaking import public, reference
from holdfast.client import Client
from holdfast.core.records import NodeInfo
from holdfast.errors import LockError
from holdfast.monitor import Change, Monitor, Seen, Watched, kind_of
from holdfast.options import printable

Row: TypeAlias = dict[str, Any]
"""A lock as the page sees it, for JSON."""

INTERVAL = 1.0
"""Seconds between two looks; more if a look takes more than a quarter of that."""

NODES_INTERVAL = 5.0
"""Seconds between two looks at the servers."""

MOST_PENDING = 30
"""Messages that wait for one reader. One that falls behind by more is cut off."""

MOST_READERS = 50

log = logging.getLogger("holdfast.ui")


class Feed:
    """What is seen of all locks, for any number of readers."""

    def __init__(self, client: Client, *, owned: bool = False) -> None:
        self.client = client
        self._owned = owned
        self._monitor = Monitor()
        self._monitor_lock = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._names: dict[str, str] = {}
        self._at = 0.0
        self._error = ""
        self._nodes: Row = {"at": 0.0, "nodes": [], "margin": None, "error": ""}
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self._is_read = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def readers(self) -> int:
        """How many pages are fed."""
        return len(self._queues)

    def start(self) -> None:
        """Begin to look, if it has not begun. (A mounted application is not told of a start.)"""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End all streams, and the poller."""
        self.end_streams()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def end_streams(self) -> None:
        """Every page is told that no more comes."""
        for queue in [*self._queues]:
            self._cut_off(queue)

    def name(self, lock: str) -> str | None:
        """The name of a lock that is held, or was not long ago."""
        return self._names.get(lock)

    async def messages(self, greeting: Row) -> AsyncIterator[bytes]:
        """The greeting, all that is known, and then what changes."""
        self.start()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_PENDING)
        queue.put_nowait(_message("hello", greeting))
        queue.put_nowait(self._snapshot())
        if self._nodes["nodes"] and time.time() - self._nodes["at"] < 2 * NODES_INTERVAL:
            queue.put_nowait(_message("nodes", self._nodes))
        self._queues.add(queue)
        self._is_read.set()
        try:
            while (message := await queue.get()) is not None:
                yield message
        finally:
            self._queues.discard(queue)
            if not self._queues:
                self._is_read.clear()

    async def history(self, lock: str) -> list[Row]:
        """Who has held it, the latest first."""
        return await asyncio.to_thread(self._history, lock)

    async def _run(self) -> None:
        try:
            await asyncio.gather(self._poll(), self._poll_nodes())
        finally:
            self.end_streams()
            if self._owned:
                self.client.close()

    async def _poll(self) -> None:
        while True:
            began = time.monotonic()
            try:
                rows, changed, gone = await asyncio.to_thread(self._look)
            except Exception as error:  # noqa: BLE001 - the page shows it, and the poll goes on
                self._error = _explain(error, self._error)
                self._publish(_message("failure", {"error": self._error}))
            else:
                self._rows, self._error = rows, ""
                self._publish(_message("changes", {"at": self._at, "rows": changed, "gone": gone}))
            await asyncio.sleep(max(INTERVAL, 4 * (time.monotonic() - began)))

    async def _poll_nodes(self) -> None:
        while True:
            await self._is_read.wait()  # servers that no page shows are left alone
            before, nodes, error = self._nodes, list[NodeInfo](), ""
            try:
                nodes = await asyncio.to_thread(self.client.nodes)
            except Exception as raised:  # noqa: BLE001 - as above
                error = _explain(raised, before["error"])
            now, margin = time.time(), nodes[0].margin if nodes else None
            rows = [_node(node, now) for node in nodes]
            self._nodes = {"at": now, "nodes": rows, "margin": margin, "error": error}
            if rows or error or before["nodes"] or before["error"]:  # not for an embedded engine
                self._publish(_message("nodes", self._nodes))
            await asyncio.sleep(NODES_INTERVAL)

    def _look(self) -> tuple[dict[str, Row], list[Row], list[str]]:
        """Runs in a thread: with many locks it takes a while."""
        leases = list(self.client.leases())
        now = time.time()
        with self._monitor_lock:
            self._monitor.look(leases, now)
            held = self._monitor.held()
            rows = {reference(lock.name): self._row(lock, now) for lock in held}
            self._names = {reference(name): name for name in self._monitor.names()}
        self._at = now
        changed = [row for key, row in rows.items() if row != self._rows.get(key)]
        return rows, changed, [key for key in self._rows if key not in rows]

    def _row(self, lock: Watched, now: float) -> Row:
        """What the page is told of it: the same as before, if nothing has changed."""
        info = lock.info
        assert info is not None  # noqa: S101 - it is held
        before = self._rows.get(reference(lock.name))
        known = {each["id"]: each for each in before["members"]} if before else {}
        members = []
        for member in info.members:
            who, seen = public(member.holder), lock.holders[member.holder]
            ends, full = _rounded(now + member.remaining), _rounded(seen.most)
            before_ends = known.get(who["id"], {}).get("ends")
            if ends and full and before_ends and abs(ends - before_ends) < max(INTERVAL, full / 10):
                ends = before_ends  # not renewed, but seen a little later or earlier
            members.append({**who, **_since(seen), "ends": ends, "full": full})
        return {
            "id": reference(lock.name),
            "name": printable(lock.name),
            "kind": kind_of(info),
            "fence": str(info.fence),  # it may be greater than what a browser can count
            "waiters": info.waiters,
            "wait": lock.wait and _since(lock.wait),
            "spark": [*lock.waiters] if any(lock.waiters) else [],
            "members": members,
        }

    def _history(self, lock: str) -> list[Row]:
        with self._monitor_lock:
            watched = self._monitor.find(self._names.get(lock, ""))
            changes = [*watched.changes] if watched else []
        return [_event(change) for change in reversed(changes)]

    def _snapshot(self) -> bytes:
        rows = [*self._rows.values()]
        return _message("snapshot", {"at": self._at, "rows": rows, "error": self._error})

    def _publish(self, message: bytes) -> None:
        for queue in [*self._queues]:
            if queue.full():
                self._cut_off(queue)
            else:
                queue.put_nowait(message)

    def _cut_off(self, queue: asyncio.Queue[bytes | None]) -> None:
        self._queues.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


def _explain(error: Exception, before: str) -> str:
    """What the page says of a poll that failed. An exception that is not ours may contain anything:
    it goes to the log, once in a row."""
    if isinstance(error, LockError):
        return printable(str(error))
    text = f"internal error: {type(error).__name__}, see the log of holdfast ui; trying again"
    if text != before:
        log.error("a poll of holdfast ui failed", exc_info=error)
    return text


def _node(node: NodeInfo, now: float) -> Row:
    """A server as the page sees it. Infinity is not JSON: `votes_at` is None if it never votes."""
    return {
        "name": printable(node.name),
        "error": printable(node.error),
        "round_trip": node.round_trip,
        "offset": node.offset,
        "uncertainty": node.uncertainty,
        "votes": not node.quarantine,
        "votes_at": None if node.quarantine == inf else round(now + node.quarantine, 1),
    }


def _since(seen: Seen) -> Row:
    return {"since": round(seen.since, 1), "mark": seen.mark}


def _event(change: Change) -> Row:
    return {
        "at": change.at,
        "what": change.what,
        "fence": str(change.fence),
        **public(change.holder),
    }


def _rounded(seconds: float) -> float | None:
    """None: never, since another program took the lock without an expiry. Infinity is not JSON."""
    return round(seconds, 1) if seconds < inf else None


def _message(event: str, data: Row) -> bytes:
    """A server-sent event. JSON of `dumps` is ASCII, on one line."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"event: {event}\ndata: {text}\n\n".encode()
