"""`memory://`: locks within one process, for tests, and the reference for what an engine does.

`Table` is the whole engine and pure: requests and an instant in, answers and wake-ups out.
`memory://` is one table for the process; `memory://something` is another one.
"""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from holdfast.core.messages import (
    CHANGED,
    DONE,
    NOT_YOURS,
    OFFER,
    Acquire,
    Answer,
    Break,
    Extend,
    Granted,
    Held,
    Inspect,
    Listing,
    Read,
    Release,
    Request,
    Seen,
    Write,
)
from holdfast.core.ports import Clock, Engine, Notify, StoreHost, same_clock
from holdfast.core.records import Guarantees, Versioned
from holdfast.engines import refuse_options

GUARANTEES = Guarantees(
    engine="one process's memory",
    exclusion="among the threads and tasks of one process",
    broken_by=("a second process: each has a memory of its own",),
    fence="a counter for each name",
    fence_ends="the end of the process",
    fairness="waiters in the order of their arrival",
    wake_up="the releasing thread or task wakes the next waiter",
    suits="efficiency",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)


NEVER_SET = Versioned(None, 0)


@dataclass(slots=True)
class Row:
    """One name: its holder, the end of the lease, and the waiters."""

    holder: str = ""
    ends_at: float = 0.0
    fence: int = 0
    queue: list[str] = field(default_factory=list)

    def is_held(self, now: float) -> bool:
        """Whether it is held at this instant."""
        return bool(self.holder) and now < self.ends_at


class Table:
    """All names of one space. Rows are never deleted: they hold the fence."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.cells: dict[str, Versioned] = {}
        self.to_wake: list[str] = []
        """Holder ids of waiters to be woken; the caller takes them out."""

    def answer(self, request: Request, now: float) -> Answer:
        """Carry out one request at the instant `now`."""
        if isinstance(request, Acquire):
            return self._acquire(request, now)
        if isinstance(request, Release):
            return self._release(request.key, request.holder, now)
        if isinstance(request, Extend):
            return self._extend(request, now)
        if isinstance(request, Break):
            row = self.rows.get(request.key)
            if row is None or not row.is_held(now):
                return NOT_YOURS
            return self._release(request.key, row.holder, now)
        if isinstance(request, Inspect):
            return self._listing([request.key] if request.key in self.rows else [], now)
        if isinstance(request, Read):
            return self.cells.get(request.key, NEVER_SET)
        if isinstance(request, Write):
            return self._write(request)
        keys = (k for k in self.rows if k.startswith(request.prefix) and k > request.after)
        held = [key for key in sorted(keys) if self.rows[key].is_held(now)]
        return self._listing(held[: request.limit], now)

    def _acquire(self, request: Acquire, now: float) -> Answer:
        row = self.rows.get(request.key)
        if row is None:
            row = self.rows[request.key] = Row()
        if not row.is_held(now) and row.queue and row.queue[0] != request.holder:
            self._offer_to_next(row, now)  # its holder died; the waiters come first, in order
        mine = row.holder == request.holder
        if row.is_held(now) and not mine:
            if request.queue and request.holder not in row.queue:
                row.queue.append(request.holder)
            return Held(row.ends_at - now, wakes=True)
        if not mine:
            row.fence += 1
        row.holder = request.holder
        row.ends_at = max(row.ends_at if mine else 0.0, now + request.ttl)
        if row.queue and request.holder in row.queue:
            row.queue.remove(request.holder)
        return Granted(row.fence)

    def _extend(self, request: Extend, now: float) -> Answer:
        row = self.rows.get(request.key)
        if row is None or row.holder != request.holder or not row.is_held(now):
            return NOT_YOURS
        row.ends_at = max(row.ends_at, now + request.ttl)
        return DONE

    def _release(self, key: str, holder: str, now: float) -> Answer:
        row = self.rows.get(key)
        if row is None:
            return NOT_YOURS
        if holder in row.queue:
            row.queue.remove(holder)
        if row.holder != holder:
            return NOT_YOURS
        row.holder = ""
        if row.queue:
            self._offer_to_next(row, now)
        return DONE

    def _offer_to_next(self, row: Row, now: float) -> None:
        row.holder = row.queue.pop(0)
        row.fence += 1
        row.ends_at = now + OFFER
        # The next waiter is woken, too: it asks when the offer lapses, and moves it on.
        self.to_wake += [row.holder, *row.queue[:1]]

    def _write(self, request: Write) -> Answer:
        if self.cells.get(request.key, NEVER_SET).version != request.expect:
            return CHANGED
        self.cells[request.key] = Versioned(request.value, request.expect + 1)
        return DONE

    def _listing(self, keys: list[str], now: float) -> Listing:
        rows = ((key, self.rows[key]) for key in keys)
        return Listing(
            tuple(
                Seen(key, row.holder, row.fence, row.ends_at - now, len(row.queue))
                for key, row in rows
                if row.is_held(now)
            )
        )


class Space:
    """A table shared by every client of the process, and how to notify its waiters."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.table = Table()
        self.waiters: dict[str, Notify] = {}

    def ask(self, requests: Sequence[Request], clock: Clock, notify: Notify) -> list[Answer]:
        """Answer, then wake the waiters that should ask again."""
        with self.mutex:
            now = clock()
            answers: list[Answer] = []
            for request in requests:
                answer = self.table.answer(request, now)
                answers.append(answer)
                if isinstance(request, Acquire) and request.queue:
                    if isinstance(answer, Held):
                        self.waiters[request.holder] = notify
                    else:
                        self.waiters.pop(request.holder, None)
                elif isinstance(request, Release):
                    self.waiters.pop(request.holder, None)
            if not self.table.to_wake:
                return answers
            to_wake = [(holder, self.waiters.get(holder)) for holder in self.table.to_wake]
            self.table.to_wake.clear()
        for holder, notify_waiter in to_wake:
            if notify_waiter is not None:
                notify_waiter(holder)
        return answers

    def forked(self) -> None:
        """In a forked child: there are no holders and no waiters; the fences stay."""
        self.mutex = threading.RLock()
        self.waiters.clear()
        for row in self.table.rows.values():
            row.holder = ""
            row.queue.clear()


_spaces: dict[str, Space] = {}


def _after_fork_in_child() -> None:
    for space in _spaces.values():
        space.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class MemoryStore:
    """The way to a space for threads."""

    def __init__(self, space: Space, host: StoreHost) -> None:
        self._space, self._clock, self._notify = space, host.clock, host.notify

    def ask(self, requests: Sequence[Request], until: float) -> list[Answer]:
        """Answer each request at once."""
        return self._space.ask(requests, self._clock, self._notify)

    def close(self) -> None:
        """Nothing to release."""

    def forget(self) -> None:
        """Nothing to drop."""


class AsyncMemoryStore:
    """The way to a space for asyncio."""

    def __init__(self, space: Space, host: StoreHost) -> None:
        self._space, self._clock, self._notify = space, host.clock, host.notify

    async def ask(self, requests: Sequence[Request], until: float) -> list[Answer]:
        """Answer each request at once."""
        return self._space.ask(requests, self._clock, self._notify)

    async def close(self) -> None:
        """Nothing to release."""

    def abandon(self) -> None:
        """Nothing to release."""

    def forget(self) -> None:
        """Nothing to drop."""


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind `memory://`."""
    refuse_options(options)
    if url.path.strip("/"):
        raise ValueError(f"url: memory:// takes a name and no path, got the path {url.path!r}")
    space = _spaces.setdefault(url.netloc, Space())
    return Engine(
        guarantees=GUARANTEES,
        drift=same_clock,
        connect=lambda host: MemoryStore(space, host),
        connect_async=lambda host: AsyncMemoryStore(space, host),
    )
