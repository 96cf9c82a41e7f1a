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
    """One name: its holders, when their leases end, and the waiters, in order, with their shares.

    A lock has one holder, a semaphore or a read lock several, all with the same `shares`.
    """

    fence: int = 0
    shares: int = 1
    holders: dict[str, float] = field(default_factory=dict)
    queue: dict[str, int] = field(default_factory=dict)

    def admits(self, shares: int) -> bool:
        """Whether there is room for one more holder of this kind."""
        if not self.holders:
            return True
        return shares == self.shares and (shares == 0 or len(self.holders) < shares)

    def admit(self, holder: str, shares: int, ends_at: float) -> None:
        """Let it in. Those that come together have one fence."""
        if not self.holders:
            self.fence += 1
            self.shares = shares
        self.holders[holder] = ends_at


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
            return self._release(request, now)
        if isinstance(request, Extend):
            return self._extend(request, now)
        if isinstance(request, Break):
            return self._break(request, now)
        if isinstance(request, Inspect):
            return self._listing([request.key], now)
        if isinstance(request, Read):
            return self.cells.get(request.key, NEVER_SET)
        if isinstance(request, Write):
            return self._write(request)
        keys = (k for k in self.rows if k.startswith(request.prefix) and k > request.after)
        held = [key for key in sorted(keys) if self._row(key, now).holders]
        return self._listing(held[: request.limit], now)

    def _row(self, key: str, now: float) -> Row:
        """The row, without the leases that have ended; what they leave is offered to the waiters,
        in order."""
        row = self.rows.get(key) or Row()
        for holder in [holder for holder, ends_at in row.holders.items() if ends_at <= now]:
            del row.holders[holder]
        if row.queue:
            self._offer(row, now)
        return row

    def _offer(self, row: Row, now: float) -> None:
        """Offer what is free to the head of the queue, and to those behind it that may share it."""
        offered = False
        while row.queue:
            holder, shares = next(iter(row.queue.items()))
            # The next waiter is woken, too: it asks when an offer lapses, and moves it on.
            if not row.admits(shares):
                self.to_wake += [holder] if offered else []
                return
            del row.queue[holder]
            row.admit(holder, shares, now + OFFER)
            self.to_wake.append(holder)
            offered = True

    def _acquire(self, request: Acquire, now: float) -> Answer:
        row, holder = self._row(request.key, now), request.holder
        if holder in row.holders:
            row.holders[holder] = max(row.holders[holder], now + request.ttl)
        elif row.queue or not row.admits(request.shares):
            if request.queue:
                row.queue.setdefault(holder, request.shares)
            return Held(min(row.holders.values()) - now, wakes=True)
        else:
            self.rows[request.key] = row
            row.admit(holder, request.shares, now + request.ttl)
        return Granted(row.fence)

    def _extend(self, request: Extend, now: float) -> Answer:
        row = self._row(request.key, now)
        if request.holder not in row.holders:
            return NOT_YOURS
        row.holders[request.holder] = max(row.holders[request.holder], now + request.ttl)
        return DONE

    def _release(self, request: Release, now: float) -> Answer:
        row = self._row(request.key, now)
        row.queue.pop(request.holder, None)
        held = row.holders.pop(request.holder, None)
        self._offer(row, now)
        return NOT_YOURS if held is None else DONE

    def _break(self, request: Break, now: float) -> Answer:
        row = self._row(request.key, now)
        broken = [request.holder] if request.holder else list(row.holders)
        answers = [self._release(Release(request.key, holder), now) for holder in broken]
        return DONE if DONE in answers else NOT_YOURS

    def _write(self, request: Write) -> Answer:
        if self.cells.get(request.key, NEVER_SET).version != request.expect:
            return CHANGED
        self.cells[request.key] = Versioned(request.value, request.expect + 1)
        return DONE

    def _listing(self, keys: list[str], now: float) -> Listing:
        rows = ((key, self._row(key, now)) for key in keys)
        return Listing(tuple(_seen(key, row, now) for key, row in rows if row.holders))


def _seen(key: str, row: Row, now: float) -> Seen:
    first, *others = ((holder, ends_at - now) for holder, ends_at in row.holders.items())
    return Seen(key, first[0], row.fence, first[1], len(row.queue), row.shares, tuple(others))


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
            row.holders.clear()
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
        joins_at_once=True,
        no_sharing="",
    )
