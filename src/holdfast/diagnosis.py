"""What the guarantees are worth here: the servers are examined, and locks are tried on them.

The engine examines its servers (`Engine.examine`). Then all that a client may need is done once,
with a lock of a fixed name: acquire, extend, wait, hand over, share, compare and set. So a right
that is missing is found before a job needs it.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event as Flag
from typing import Any, TypeAlias

from holdfast.core.ports import Engine
from holdfast.core.records import Finding
from holdfast.engines.examining import NO_ANSWER
from holdfast.errors import LockError
from holdfast.events import Event, PollingOnly, Waiting

Sibling: TypeAlias = Callable[..., Any]
"""Makes another `Client` of the same engine, with these hooks. (Its module imports this one.)"""

NAME = "holdfast-doctor"
"""Of the lock, and of the cell."""

PATIENCE = 10.0
"""Seconds to wait for the lock: another diagnosis may have it."""

FAILING = 2.0
"""Seconds to try for on servers that fail."""

LATE = 1.0
"""Seconds after which a waiter that was not woken asks by itself."""

_ORDER = ("critical", "warning", "note")


def diagnose(engine: Engine, ttl: float, sibling: Sibling, url: str) -> list[Finding]:
    """All findings, the worst first."""
    found = list(engine.examine(ttl))
    silent = [each for each in found if NO_ANSWER in each.what]
    if not any(each.severity == "critical" for each in silent):
        found += _try_locks(engine, sibling)
    of_the_url = (
        f"check that its kind, its port and its TLS are those of {url.partition(':')[0]}://"
    )
    found = [
        replace(each, mend=f"{each.mend}; {of_the_url}") if each in silent else each
        for each in found
    ]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


class Waiter:
    """A hook of the client that waits for a lock."""

    def __init__(self) -> None:
        self.queued = Flag()
        """It has its place in the queue."""
        self.polls: list[PollingOnly] = []

    def __call__(self, event: Event) -> None:
        """Note what it does."""
        match event:
            case Waiting():
                self.queued.set()
            case PollingOnly():
                self.polls.append(event)


def _try_locks(engine: Engine, sibling: Sibling) -> Iterator[Finding]:
    waiter = Waiter()
    with sibling() as ann, sibling([waiter]) as ben:
        tries: list[tuple[str, Callable[[], Finding | None]]] = [
            ("hand a lock over", lambda: _hand_over(ann, ben, waiter.queued)),
        ]
        if not engine.no_sharing:
            tries.append(("take a read lock", lambda: _share(ann)))
        if not engine.no_cells:
            tries.append(("set a cell", lambda: _set_cell(ann)))
        for what, attempt in tries:
            try:
                finding = attempt()
                if finding:
                    yield finding
            except (LockError, TimeoutError) as error:
                yield Finding(
                    "critical",
                    ann.url,
                    f"to {what} failed: {error}",
                    "programs that need it will fail in the same way",
                    "look at the address, at what this user may do, and at the findings above",
                )
                break
        ben._driver.hooks.wait(LATE)  # noqa: SLF001 - the events are ours
    for event in waiter.polls:
        yield Finding(
            "warning",
            event.node,
            f"it cannot wake waiters: {event.why}",
            "a waiter learns only after `retry` seconds that the lock is free",
            "give this user the right, or upgrade the server",
        )


def _hand_over(ann: Any, ben: Any, queued: Flag) -> Finding:
    lock = ann.lock(NAME, retry=LATE)
    lease = lock.acquire(timeout=FAILING) or lock.acquire(timeout=PATIENCE)
    if lease is None:
        raise TimeoutError(f"{NAME!r} is taken; another diagnosis may be running")
    with ThreadPoolExecutor(1) as thread:
        with lease:
            lease.extend()
            waiting = thread.submit(ben.lock(NAME, timeout=PATIENCE, retry=LATE).acquire)
            waiting.add_done_callback(lambda _: queued.set())
            queued.wait(PATIENCE)
            released_at = time.monotonic()
        theirs = waiting.result()
        took = time.monotonic() - released_at
    if theirs is None:
        raise TimeoutError("a waiter did not get the lock that was released")
    theirs.release()
    what = f"a waiter had the lock {took * 1000:.0f} ms after its release"
    return Finding("note", ann.url, what, "", "")


def _share(client: Any) -> None:
    with client.rwlock(NAME, timeout=PATIENCE).read:
        pass


def _set_cell(client: Any) -> None:
    client.cell(NAME).update(lambda value: b"tried")
