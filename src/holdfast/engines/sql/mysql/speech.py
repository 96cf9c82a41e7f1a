"""What to say to MariaDB and MySQL, and what it means: scripts that yield statements and are sent
rows."""

from collections.abc import Generator, Sequence
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
from holdfast.engines.sql.mysql.line import Line
from holdfast.engines.sql.mysql.statements import AT_ONCE, Statement, Statements

Script: TypeAlias = Generator[Statement, list[Row], Answer]

MICROSECONDS = 1_000_000

LOCKED = 0.05
"""How soon to ask again for a lock that is free, but for a statement which is just being carried
out, or a transaction which still relies on the lease before."""


class Speech:
    """The scripts of one client."""

    def __init__(self, node: str, statements: Statements, clock: ServerClock, line: Line) -> None:
        self.node = node
        self._sql, self._clock, self._line = statements, clock, line

    def answer(self, request: Request, until: float) -> Script:
        """The script for a request whose answer nobody waits for after `until`."""
        if isinstance(request, Acquire):
            return self._queue_up(request, until) if request.queue else self._take(request, until)
        if isinstance(request, Release):
            return self._say(self._sql.release(request.key, request.holder))
        if isinstance(request, Extend):
            return self._say(self._sql.extend(request.key, request.holder, _micro(request.ttl)))
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
        """Many extensions in few statements."""
        answers: list[Answer] = []
        for first in range(0, len(requests), AT_ONCE):
            answers += yield from self._extend_some(requests[first : first + AT_ONCE])
        return answers

    def create(self) -> Generator[Statement, list[Row], None]:
        """Make the tables."""
        for text in self._sql.create:
            yield text()

    @property
    def ddl(self) -> str:
        """What makes the tables."""
        return self._sql.ddl

    def _queue_up(self, request: Acquire, until: float) -> Script:
        """Take it; or say when to ask again, to one who waits."""
        answer: Answer | None = None
        if not self._sql.returns:
            answer = yield from self._see_it_held(request)  # which is one statement, and not two
        if answer is None:
            answer = yield from self._take(request, until)
        if isinstance(answer, Held):
            return Held(self._line.pause(request, answer.remaining), wakes=True)
        return answer

    def _see_it_held(self, request: Acquire) -> Generator[Statement, list[Row], Held | None]:
        [(is_mine, _, left, _)] = yield self._sql.look(request.key, request.holder)
        if not is_mine and (left or 0) > 0:
            return Held(left / MICROSECONDS, wakes=False)
        return None

    def _take(self, request: Acquire, until: float) -> Script:
        for _ in range(2):
            deadline = _micro(self._clock.when(until))
            asked_at = self._clock.ours()
            rows = yield self._sql.acquire(
                request.key, request.holder, _micro(request.ttl), deadline
            )
            was_done = bool(rows)
            if not (was_done and self._sql.returns):
                asked_at = self._clock.ours()
                rows = yield self._sql.look(request.key, request.holder)
            [(is_mine, fence, left, now)] = rows
            self._clock.learn(asked_at, now / MICROSECONDS)
            if is_mine and was_done and left > 0:
                return Granted(fence)
            if not is_mine and (left or 0) > 0:
                return Held(left / MICROSECONDS, wakes=False)
            if was_done or now < deadline:
                # If it is mine, then by an earlier request, whose time is not counted from now.
                return Held(LOCKED, wakes=False)
            # The server's clock is not what we took it for. Now we know.
        return Failed.at(self.node, "the server's clock was set while it was asked")

    def _break(self, request: Break) -> Script:
        rows = yield self._sql.take_away(request.key)
        if not rows:
            rows = yield self._sql.take_away_guarded(request.key)
        return DONE if rows else NOT_YOURS

    def _say(self, statement: Statement) -> Script:
        rows = yield statement
        return DONE if rows else NOT_YOURS

    def _extend_some(
        self, requests: Sequence[Extend]
    ) -> Generator[Statement, list[Row], list[Answer]]:
        """All in one statement; if it did not find them all, one by one, to know which."""
        ttls = {_micro(request.ttl) for request in requests}
        if len(ttls) == 1:
            rows = yield self._sql.extend_many(
                ttls.pop(), [r.key for r in requests], [r.holder for r in requests]
            )
            if rows and rows[0][0] == len(requests):
                return [DONE] * len(requests)
        answers: list[Answer] = []
        for request in requests:
            statement = self._sql.extend(request.key, request.holder, _micro(request.ttl))
            answers.append((yield from self._say(statement)))
        return answers

    def _list(self, statement: Statement) -> Script:
        rows = yield statement
        return Listing(
            tuple(
                Seen(key.decode(), holder.decode(), fence, max(0, left) / MICROSECONDS, None)
                for key, holder, fence, left in rows
            )
        )


def _micro(seconds: float) -> int:
    return round(seconds * MICROSECONDS)
