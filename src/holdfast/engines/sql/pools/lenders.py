"""Users' own pools, as lenders: a pool of psycopg, or an engine of SQLAlchemy, in both colours.

All of this may block, and is called in threads of our own. What asyncio owns is done on its loop.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from traceback import clear_frames
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.engines.sql.links import BrokenError, RefusedError

T = TypeVar("T")

INHERITED = (
    "the pool is the parent process's, and so are its connections; after a fork, make a pool and a "
    "client of the child's own, or let the child call dispose(close=False) on its Engine first"
)

IN_TRANSACTION = (
    "the pool gave a connection in the midst of a transaction; what prepares its connections, such "
    "as a listener, must commit"
)

GRACE = 5.0
"""How much longer than it should take to wait for the loop, which may be busy or gone."""


class Loan(NamedTuple):
    """A connection of the library's, and what has to be given back for it."""

    connection: Any
    receipt: Any


class Lender(Protocol):
    """A user's pool."""

    def lend(self, seconds: float) -> Loan:
        """Check a connection out. A pool that does not know how may take longer than `seconds`.
        Raises an `SqlError`."""
        ...

    def take_back(self, loan: Loan, *, sound: bool) -> None:
        """Check it in; one that is not sound is closed first."""
        ...

    def belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """This is the loop of whoever borrows."""
        ...

    def forget(self) -> None:
        """In a forked child: the pool is the parent's."""
        ...


class _Blocking:
    """What belongs to no loop."""

    def belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """It makes no difference."""


class _OnLoop:
    """What a loop has to do."""

    _loop: asyncio.AbstractEventLoop | None = None

    def belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """This is the loop."""
        self._loop = loop

    def _do(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Have it done by the loop, and wait for it."""
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise BrokenError("the event loop is closed")
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result(seconds + GRACE)
        except (TimeoutError, CancelledError) as error:
            raise BrokenError("the event loop did not have the time") from error
        finally:
            doing.cancel()  # unless it is done


class PsycopgPool(_Blocking):
    """A `psycopg_pool.ConnectionPool`."""

    def __init__(self, pool: Any) -> None:
        self._pool, self._is_inherited = pool, False

    def lend(self, seconds: float) -> Loan:
        """Check a connection out."""
        _check_inheritance(self._is_inherited)
        with refusals(seconds):
            connection = self._pool.getconn(timeout=seconds)
        return Loan(connection, connection)

    def take_back(self, loan: Loan, *, sound: bool) -> None:
        """Check it in."""
        if not sound:
            loan.connection.close()
        self._pool.putconn(loan.receipt)

    def forget(self) -> None:
        """In a forked child: the pool is the parent's."""
        self._is_inherited = True


class SqlAlchemyPool(_Blocking):
    """The pool of a `sqlalchemy.Engine`. It waits for as long as its `pool_timeout` says."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._inherited = engine, None

    def lend(self, seconds: float) -> Loan:
        """Check a connection out."""
        _check_inheritance(self._engine.pool is self._inherited)
        pool = self._engine.pool
        with refusals(seconds):
            proxy = self._engine.raw_connection()
        return Loan(proxy.driver_connection, (proxy, pool))

    def take_back(self, loan: Loan, *, sound: bool) -> None:
        """Check it in. If the engine was disposed of meanwhile, nobody else would close it."""
        proxy, pool = loan.receipt
        if not sound or pool is not self._engine.pool:
            proxy.invalidate()
        proxy.close()

    def forget(self) -> None:
        """In a forked child: the pool is the parent's, until the engine is disposed of."""
        self._inherited = self._engine.pool


class AsyncPsycopgPool(_OnLoop):
    """A `psycopg_pool.AsyncConnectionPool`."""

    def __init__(self, pool: Any) -> None:
        self._pool, self._is_inherited = pool, False

    def lend(self, seconds: float) -> Loan:
        """Check a connection out."""
        _check_inheritance(self._is_inherited)
        connection = self._do(self._lend(seconds), seconds)
        return Loan(connection, connection)

    async def _lend(self, seconds: float) -> Any:
        with refusals(seconds):
            return await self._pool.getconn(timeout=seconds)

    def take_back(self, loan: Loan, *, sound: bool) -> None:
        """Check it in."""
        self._do(self._take_back(loan, sound), GRACE)

    async def _take_back(self, loan: Loan, sound: bool) -> None:
        if not sound:
            await loan.connection.close()
        await self._pool.putconn(loan.receipt)

    def forget(self) -> None:
        """In a forked child: the pool is the parent's."""
        self._is_inherited = True


class AsyncSqlAlchemyPool(_OnLoop):
    """The pool of a `sqlalchemy.ext.asyncio.AsyncEngine`."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._inherited = engine, None

    def lend(self, seconds: float) -> Loan:
        """Check a connection out."""
        return self._do(self.lend_async(seconds), seconds)

    async def lend_async(self, seconds: float) -> Loan:
        """The same on the loop."""
        _check_inheritance(self._engine.pool is self._inherited)
        pool = self._engine.pool
        with refusals(seconds):
            async with asyncio.timeout(seconds):
                connection = await self._engine.connect()
        proxy = await connection.get_raw_connection()
        return Loan(proxy.driver_connection, (connection, pool))

    def take_back(self, loan: Loan, *, sound: bool) -> None:
        """Check it in. If the engine was disposed of meanwhile, nobody else would close it."""
        self._do(self.take_back_async(loan, sound=sound), GRACE)

    async def take_back_async(self, loan: Loan, *, sound: bool) -> None:
        """The same on the loop."""
        connection, pool = loan.receipt
        if not sound or pool is not self._engine.pool:
            await connection.invalidate()
        await connection.close()

    def forget(self) -> None:
        """In a forked child: the pool is the parent's, until the engine is disposed of."""
        self._inherited = self._engine.pool


def _check_inheritance(is_inherited: bool) -> None:
    if is_inherited:
        raise RefusedError(INHERITED)


@contextmanager
def refusals(seconds: float) -> Iterator[None]:
    """Raises a `BrokenError` for whatever a pool raises, or a creator or a listener of its user's.
    The original is let go, with all that it knows of: it may be a half-made connection."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        reason = _reason(error, seconds)
        origin: BaseException | None = error
        while origin is not None:
            clear_frames(origin.__traceback__)
            origin = origin.__cause__ or origin.__context__
    else:
        return
    raise BrokenError(reason)


def _reason(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError) or type(error).__name__ in ("PoolTimeout", "TimeoutError"):
        return exhausted(seconds)
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def exhausted(seconds: float) -> str:
    """What is said of a pool that gave nothing in this time."""
    return (
        f"the pool had no connection to give within {seconds:.3g} s; if it is exhausted, make it "
        "larger: this client needs one of its connections, and one more while somebody waits"
    )
