"""Connections of asyncmy and aiomysql that are lent by a user's own pool. The event loop has their
sockets, so we speak by their cursors; and what a cursor does cannot be given up in the midst of it
without losing its place. So whoever is cancelled leaves it to its end; if that does not come in
time, the connection is thrown away.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from holdfast.core.ports import Clock
from holdfast.engines.sql.clock import ServerClock
from holdfast.engines.sql.links import BrokenError, RefusedError, Row, SqlError
from holdfast.engines.sql.mysql.errors import LockedError, read_error
from holdfast.engines.sql.mysql.lent import check, words_for
from holdfast.engines.sql.mysql.statements import SETTLE, Statement, Text
from holdfast.engines.sql.mysql.wire import CLIENT_ERRORS
from holdfast.engines.sql.pools.desk import LEAVING, MOST_DEAD, keep_for_parent
from holdfast.engines.sql.pools.lenders import IN_TRANSACTION, AsyncSqlAlchemyPool, Loan
from holdfast.engines.sql.wired import SILENT


class CursorLink:
    """A connection, spoken to by cursors."""

    def __init__(self, connection: Any, clock: Clock) -> None:
        self.connection, self._clock = connection, clock
        self._loop = asyncio.get_running_loop()
        library = type(connection).__module__.partition(".")[0]
        self._plain = import_module(f"{library}.cursors").Cursor
        self._asking: asyncio.Task[list[Row]] | None = None
        self._in_doubt = self._closed = False
        self.give_back: Callable[[], None] | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it owes nothing, and nothing about it is in doubt."""
        return not self._in_doubt and not self.owes

    @property
    def owes(self) -> bool:
        """Whether an answer is to come."""
        return self._asking is not None and not self._asking.done()

    def is_well(self) -> bool:
        """Whether it is still there, as far as we know."""
        return not self._closed and not self._in_doubt

    async def exchange(self, statement: Statement, until: float) -> list[Row]:
        """Say a statement and give its rows."""
        self._asking = asyncio.ensure_future(self._say(statement, until))
        self._asking.add_done_callback(_note)
        return await asyncio.shield(self._asking)

    def when_answered(self, then: Callable[[], None]) -> None:
        """Call `then` when the answer that it owes is there, or will not come."""
        if self._asking is not None:
            self._asking.add_done_callback(lambda _: then())

    def close(self) -> None:
        """Give it back. What it owes is not waited for."""
        if not self._closed and not self._loop.is_closed():
            self._closed = True
            if self._asking is not None and not self._asking.done():
                self._in_doubt = True
                self._asking.cancel()
            if self.give_back is not None:
                self.give_back()

    def forget(self) -> None:
        """In a forked child: nobody touches it."""
        self._closed = True

    async def _say(self, statement: Statement, until: float) -> list[Row]:
        text, _ = statement
        try:
            async with asyncio.timeout(max(0.0, until - self._clock())):
                async with self.connection.cursor(self._plain) as cursor:
                    found = await cursor.execute(in_words(statement))
                    if cursor.description is None:
                        return [(found,)] if found else []
                    return [tuple(row) for row in await cursor.fetchall()]
        except Exception as error:
            reason = _reason(error)
            if isinstance(reason, LockedError) and text.skips_locked:
                return []
            self._in_doubt = self._in_doubt or isinstance(reason, BrokenError)
            raise reason from error
        except BaseException:
            self._in_doubt = True
            raise


class CursorDesk:
    """Borrows such connections for one client. All of it is done on the loop, in tasks."""

    def __init__(self, lender: AsyncSqlAlchemyPool, clock: ServerClock, *, returns: bool) -> None:
        self._lender, self._clock, self._returns = lender, clock, returns
        self._begin()

    def _begin(self) -> None:
        self._out: dict[CursorLink, Loan] = {}
        self._returning: set[asyncio.Task[None]] = set()

    async def borrow(self, until: float) -> CursorLink:
        """Borrow one that answers; raises an `SqlError` if there is none in time."""
        dead = 0
        while True:
            loan = await self._lender.lend_async(max(0.001, until - self._clock.ours()))
            try:
                return await self._begin_on(loan, until)
            except BrokenError:
                dead += 1
                if dead == MOST_DEAD or self._clock.ours() >= until:
                    raise

    async def _begin_on(self, loan: Loan, until: float) -> CursorLink:
        try:
            check(loan.connection, returns=self._returns)
            link = CursorLink(loan.connection, self._clock.ours)
            was_set = await self._greet(link, until)
        except BaseException:
            await self._begin_returning(self._take_back(loan, sound=False))
            raise
        self._out[link] = loan
        link.give_back = partial(self._give_back, link, was_set)
        return link

    async def leave(self) -> None:
        """Wait until all is given back."""
        for link in list(self._out):
            link.close()
        if self._returning:
            await asyncio.wait(self._returning)

    def forget(self) -> None:
        """In a forked child: all of it is the parent's."""
        self._lender.forget()
        keep_for_parent(self._out)
        self._begin()

    async def _greet(self, link: CursorLink, until: float) -> Row:
        words = words_for(link.connection)
        asked_at = self._clock.ours()
        [(now, is_in_transaction, *was_set)] = await link.exchange(words.greeting(1), until)
        self._clock.learn(asked_at, now / 1_000_000)
        if is_in_transaction:
            raise RefusedError(IN_TRANSACTION)
        for sql in SETTLE:
            await link.exchange(Text(sql.encode(), ())(), until)
        return tuple(was_set)

    def _give_back(self, link: CursorLink, was_set: Row) -> None:
        self._begin_returning(self._return(link, self._out.pop(link), was_set))

    def _begin_returning(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        returning = asyncio.ensure_future(work)
        self._returning.add(returning)
        returning.add_done_callback(self._returning.discard)
        return returning

    async def _return(self, link: CursorLink, loan: Loan, was_set: Row) -> None:
        is_sound = link.is_sound
        if is_sound:
            resettling = words_for(loan.connection).resettle(*was_set)
            try:
                await link.exchange(resettling, self._clock.ours() + LEAVING)
            except SqlError:
                is_sound = False
        await self._take_back(loan, sound=is_sound)

    async def _take_back(self, loan: Loan, *, sound: bool) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVING):
                await self._lender.take_back_async(loan, sound=sound)


def in_words(statement: Statement) -> str:
    """A statement as text. Whatever is not a number stands there as hexadecimal digits: nothing in
    it can be taken for anything else, whatever the session's character set and modes.

    >>> in_words((Text(b"SELECT ?, ?", (0, 1)), [7, "it's"]))
    "SELECT 7, x'69742773'"
    """
    text, values = statement
    first, *rest = text.sql.decode().split("?")
    return first + "".join(_literal(value) + part for value, part in zip(values, rest, strict=True))


def _literal(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return str(int(value))
    return f"x'{(value.encode() if isinstance(value, str) else value).hex()}'"


def _reason(error: Exception) -> SqlError:
    """What an error of these libraries means."""
    if isinstance(error, TimeoutError):
        return BrokenError(SILENT)
    match error.args:
        case (int(number), str(message)) if number < CLIENT_ERRORS:
            return read_error(number, message)
        case (_, message):
            return BrokenError(str(message))
        case _:
            return BrokenError(str(error) or type(error).__name__)


def _note(asking: "asyncio.Task[list[Row]]") -> None:
    """Whoever asked may be gone."""
    if not asking.cancelled():
        asking.exception()
