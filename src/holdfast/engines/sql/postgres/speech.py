"""What to say to PostgreSQL, and what it means: scripts that yield statements and are sent rows."""

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
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
from holdfast.engines.sql import cells
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.links import Row
from holdfast.engines.sql.postgres.statements import Statement, Statements

Script: TypeAlias = Generator[Statement, list[Row], Answer]

GUARDED = 0.05
"""How soon to ask again for a lock that is free, but for a transaction which still relies on it."""

ROUNDS = 3
"""How often a lock may change hands while somebody tries to join its queue."""


@dataclass(frozen=True, slots=True)
class Bell:
    """Where waiters of this client are woken: the channel, and the server process that listens."""

    channel: str
    pid: int


class Speech:
    """The scripts of one client."""

    def __init__(self, node: str, statements: Statements, clock: ServerClock) -> None:
        self.node = node
        self._sql = statements
        self._clock = clock
        self.bell: Bell | None = None
        """None while wake-ups do not reach us."""
        self.pooled = False
        """Whether we are behind a pooler, where nobody queues up."""

    def answer(self, request: Request, until: float) -> Script:
        """The script for a request whose answer nobody waits for after `until`."""
        if isinstance(request, Acquire):
            return self._queue_up(request, until) if request.queue else self._try(request, until)
        if isinstance(request, Release):
            return self._release(request.key, request.holder)
        if isinstance(request, Extend):
            return self._extend(request)
        if isinstance(request, Break):
            return self._break(request)
        if isinstance(request, Inspect):
            return self._list(self._sql.inspect(request.key))
        if isinstance(request, Read):
            return cells.read(self._sql, request)
        if isinstance(request, Write):
            return cells.write(self._sql, request)
        return self._list(self._sql.listing(request.prefix, request.after, request.limit))

    def extend_all(
        self, requests: Sequence[Extend]
    ) -> Generator[Statement, list[Row], list[Answer]]:
        """Many extensions in one statement."""
        asked = [{"name": r.key, "holder": r.holder, "ttl": r.ttl} for r in requests]
        rows = yield self._sql.extend_all(json.dumps(asked))
        done = {(name, holder) for name, holder in rows}
        return [DONE if (r.key, r.holder) in done else NOT_YOURS for r in requests]

    def create(self) -> Generator[Statement, list[Row], None]:
        """Make the tables."""
        yield self._sql.create()

    @property
    def ddl(self) -> str:
        """What makes the tables."""
        return self._sql.ddl

    def _try(self, request: Acquire, until: float) -> Script:
        answer, _ = yield from self._take(request, until)
        return answer

    def _queue_up(self, request: Acquire, until: float) -> Script:
        """Take it, or a place in the queue; the place must be taken while somebody has the lock,
        or nobody would hand it on."""
        answer: Answer = Held(GUARDED, wakes=False)
        for _ in range(ROUNDS):
            bell = self.bell
            answer, is_waiting = yield from self._take(request, until)
            if bell is None or not isinstance(answer, Held):
                return answer
            if is_waiting:
                return Held(answer.remaining, wakes=True)
            rows = yield self._sql.join(
                request.key, request.holder, bell.channel, bell.pid, self._clock.when(until)
            )
            if rows:
                return Held(max(0.0, rows[0][0]), wakes=True)
        return answer

    def _take(
        self, request: Acquire, until: float
    ) -> Generator[Statement, list[Row], tuple[Answer, bool]]:
        """Take it if it is free; the answer, and whether we are in the queue for it."""
        pid = self.bell.pid if self.bell else 0
        for _ in range(2):
            deadline = self._clock.when(until)
            asked_at = self._clock.ours()
            [(fence, now, left, is_anothers, is_waiting)] = yield self._sql.acquire(
                request.key, request.holder, request.ttl, deadline, pid
            )
            self._clock.learn(asked_at, now)
            if fence is not None:
                return Granted(fence), False
            if is_anothers:
                return Held(max(0.0, left), wakes=False), is_waiting
            if now < deadline:
                # Somebody has just taken it; or a transaction still relies on the lease before.
                return Held(GUARDED, wakes=False), False
            # The server's clock is not what we took it for. Now we know.
        return Failed.at(self.node, "the server's clock was set while it was asked"), False

    def _extend(self, request: Extend) -> Script:
        rows = yield self._sql.extend(request.key, request.holder, request.ttl)
        return DONE if rows else NOT_YOURS

    def _release(self, key: str, holder: str) -> Script:
        """Give back, and hand on to the first waiter that lives."""
        rows = yield self._sql.release(key, holder)
        if not rows:
            if (yield self._sql.leave(key, holder)):
                return NOT_YOURS
            # It may have been offered to us between the two. From now on it cannot be.
            rows = yield self._sql.release(key, holder)
            if not rows:
                return NOT_YOURS
        while rows:
            waiter, is_alive, *_ = rows[0]
            if waiter is None or is_alive:
                break
            rows = yield self._sql.release(key, waiter)  # it is dead: give back what it has
        return DONE

    def _break(self, request: Break) -> Script:
        rows = yield self._sql.holder(request.key)
        if not rows or rows[0][0] is None:
            return NOT_YOURS
        return (yield from self._release(request.key, rows[0][0]))

    def _list(self, statement: Statement) -> Script:
        rows = yield statement
        return Listing(
            tuple(
                Seen(key, holder, fence, max(0.0, left), None if self.pooled else waiters)
                for key, holder, fence, left, waiters in rows
            )
        )
