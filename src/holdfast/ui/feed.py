"""One poller for all pages: it looks every second, and each page asks for what was seen last.

The answer is made once a look, in a thread. It has a version (an ETag), so that a page which has it
already is sent nothing. A lease whose end is about where it was is the same as before.

Holder ids contain a secret, so pages refer to holders by a hash. They refer to locks by a hash of
the name, because a name can be any text.
"""

import asyncio
import hashlib
import json
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

log = logging.getLogger("holdfast.ui")


class Feed:
    """What is seen of all locks, for any number of pages."""

    def __init__(self, client: Client, *, may_break: bool, owned: bool = False) -> None:
        self.client = client
        self._owned = owned
        self._monitor = Monitor()
        self._monitor_lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._about = {
            "url": client.url,
            "engine": client.guarantees.engine,
            "may_break": may_break,
        }
        self._rows: dict[str, Row] = {}
        self._live, self._error = False, ""
        self._task: asyncio.Task[None] | None = None
        self._publish()

    def start(self) -> None:
        """Begin to look, if it has not begun. (A mounted application is not told of a start.)"""
        if self._task is None:
            self._task = asyncio.create_task(self._poll())

    async def close(self) -> None:
        """End the poller."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._owned:
            self.client.close()

    def name(self, lock: str) -> str | None:
        """The name of a lock that is held, or was not long ago."""
        return self._names.get(lock)

    async def history(self, lock: str) -> list[Row]:
        """Who has held it, the latest first."""
        return await asyncio.to_thread(self._history, lock)

    async def servers(self) -> Row:
        """What each server answers just now, and how many more of them may fail."""
        nodes = await asyncio.to_thread(self.client.nodes)
        now, margin = time.time(), nodes[0].margin if nodes else None
        return {"nodes": [_node(node, now) for node in nodes], "margin": margin}

    async def _poll(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.to_thread(self._look)
            await asyncio.sleep(max(INTERVAL, 4 * (time.monotonic() - began)))

    def _look(self) -> None:
        """Runs in a thread: with many locks it takes a while."""
        try:
            self._rows = self._see()
            self._live, self._error = True, ""
        except Exception as error:  # noqa: BLE001 - the page shows it, and the poll goes on
            self._error = _explain(error, self._error)
        self._publish()

    def _see(self) -> dict[str, Row]:
        leases = list(self.client.leases())
        now = time.time()
        with self._monitor_lock:
            self._monitor.look(leases, now)
            self._names = {reference(name): name for name in self._monitor.names()}
            return {reference(lock.name): self._row(lock, now) for lock in self._monitor.held()}

    def _publish(self) -> None:
        facts = {"about": self._about, "live": self._live, "error": self._error}
        body = json.dumps({**facts, "rows": [*self._rows.values()]}, allow_nan=False).encode()
        self.answer = hashlib.sha256(body).hexdigest(), body
        """What was seen last, as JSON, after its version."""

    def _row(self, lock: Watched, now: float) -> Row:
        """What the page is told of it: the same as before, if nothing has changed."""
        info = lock.info
        assert info is not None  # noqa: S101 - it is held
        before = self._rows.get(reference(lock.name))
        known = {each["id"]: each["ends"] for each in before["members"]} if before else {}
        members = list[Row]()
        for member in info.members:
            who, seen = public(member.holder), lock.holders[member.holder]
            ends, full = _rounded(now + member.remaining), _rounded(seen.most)
            was = known.get(who["id"])
            if ends and full and was and abs(ends - was) < max(INTERVAL, full / 10):
                ends = was  # not renewed, but seen a little later or earlier
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
