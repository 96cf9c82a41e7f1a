"""One poller for all pages: it looks every second, and each page asks for what was seen last.

While a page asks, the servers are looked at, too, in a thread of their own: one that hangs does not
delay what is seen of the locks.

Holder ids contain a secret, so pages refer to holders by a hash. They refer to locks by a hash of
the name, because a name can be any text.
"""

import asyncio
import logging
import threading
import time
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
"""Seconds between two looks at the servers, at least."""

log = logging.getLogger("holdfast.ui")


class Feed:
    """What is seen of all locks, for any number of pages."""

    def __init__(self, client: Client, *, owned: bool = False) -> None:
        self.client = client
        self._owned = owned
        self._monitor = Monitor()
        self._monitor_lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._seen: Row = {"at": 0.0, "rows": [], "error": ""}
        self._nodes: Row = {"at": 0.0, "nodes": [], "margin": None, "error": ""}
        self._task: asyncio.Task[None] | None = None
        self._nodes_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, if it has not begun. (A mounted application is not told of a start.)"""
        if self._task is None:
            self._task = asyncio.create_task(self._poll())

    async def close(self) -> None:
        """End the poller."""
        for task in (self._task, self._nodes_task):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._owned:
            self.client.close()

    def state(self) -> Row:
        """What was seen last of the locks, and of the servers."""
        self.start()
        looking = self._nodes_task is not None and not self._nodes_task.done()
        if not looking and time.time() - self._nodes["at"] > NODES_INTERVAL:
            self._nodes_task = asyncio.create_task(self._look_at_nodes())
        return {**self._seen, "now": time.time(), "servers": self._nodes}

    def name(self, lock: str) -> str | None:
        """The name of a lock that is held, or was not long ago."""
        return self._names.get(lock)

    async def history(self, lock: str) -> list[Row]:
        """Who has held it, the latest first."""
        return await asyncio.to_thread(self._history, lock)

    async def _poll(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._seen = await asyncio.to_thread(self._look)
            except Exception as error:  # noqa: BLE001 - the page shows it, and the poll goes on
                self._seen = {**self._seen, "error": _explain(error, self._seen["error"])}
            await asyncio.sleep(max(INTERVAL, 4 * (time.monotonic() - began)))

    async def _look_at_nodes(self) -> None:
        nodes, error = list[NodeInfo](), ""
        try:
            nodes = await asyncio.to_thread(self.client.nodes)
        except Exception as raised:  # noqa: BLE001 - as above
            error = _explain(raised, self._nodes["error"])
        now, margin = time.time(), nodes[0].margin if nodes else None
        rows = [_node(node, now) for node in nodes]
        self._nodes = {"at": now, "nodes": rows, "margin": margin, "error": error}

    def _look(self) -> Row:
        """Runs in a thread: with many locks it takes a while."""
        leases = list(self.client.leases())
        now = time.time()
        with self._monitor_lock:
            self._monitor.look(leases, now)
            rows = [_row(lock, now) for lock in self._monitor.held()]
            self._names = {reference(name): name for name in self._monitor.names()}
        return {"at": now, "rows": rows, "error": ""}

    def _history(self, lock: str) -> list[Row]:
        with self._monitor_lock:
            watched = self._monitor.find(self._names.get(lock, ""))
            changes = [*watched.changes] if watched else []
        return [_event(change) for change in reversed(changes)]


def _row(lock: Watched, now: float) -> Row:
    info = lock.info
    assert info is not None  # noqa: S101 - it is held
    return {
        "id": reference(lock.name),
        "name": printable(lock.name),
        "kind": kind_of(info),
        "fence": str(info.fence),  # it may be greater than what a browser can count
        "waiters": info.waiters,
        "wait": lock.wait and _since(lock.wait),
        "spark": [*lock.waiters] if any(lock.waiters) else [],
        "members": [
            {
                **public(member.holder),
                **_since(lock.holders[member.holder]),
                "ends": _rounded(now + member.remaining),
                "full": _rounded(lock.holders[member.holder].most),
            }
            for member in info.members
        ],
    }


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
