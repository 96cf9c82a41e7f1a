"""Other libraries' locks over SQL databases. They are made of the locks that databases have, which
know neither ttl nor fence, and end with the connection.

`sqlalchemy-dlock` is measured in two ways: as its documentation shows it, which takes a connection
from the pool for as long as the lock is held; and at its quickest, on one connection that is kept
for this lock alone and commits nothing. `pals` always takes a connection from its pool.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack

from benchmarks.contenders import AsyncPair, Pair, library, pair_with

DLOCK, KEPT, PALS = "sqlalchemy-dlock", "sqlalchemy-dlock, kept", "pals"

DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
ASYNC_DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mysql+asyncmy"}
"""How SQLAlchemy calls the drivers that the floors use."""

AT_ONCE = {"isolation_level": "AUTOCOMMIT"}

WITHIN = 5
"""Seconds. Without a timeout, `sqlalchemy-dlock` sends MariaDB one that it does not take."""


def dlock_as_documented(url: str, stack: ExitStack) -> Pair:
    from sqlalchemy import create_engine

    dlock = library("sqlalchemy_dlock")
    engine = create_engine(_by(DRIVERS, url))
    stack.callback(engine.dispose)

    def acquire_and_release() -> None:
        with (
            engine.connect() as connection,
            dlock.create_sadlock(connection, "bench", contextual_timeout=WITHIN),
        ):
            pass

    return acquire_and_release


def dlock_kept(url: str, stack: ExitStack) -> Pair:
    from sqlalchemy import create_engine

    dlock = library("sqlalchemy_dlock")
    engine = create_engine(_by(DRIVERS, url), execution_options=AT_ONCE)
    stack.callback(engine.dispose)
    lock = dlock.create_sadlock(stack.enter_context(engine.connect()), "bench-kept")

    def acquire_and_release() -> None:
        assert lock.acquire(timeout=WITHIN)
        lock.release()

    return acquire_and_release


async def async_dlock_as_documented(url: str, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    from sqlalchemy.ext.asyncio import create_async_engine

    dlock = library("sqlalchemy_dlock")
    engine = create_async_engine(_by(ASYNC_DRIVERS, url))
    stack.push_async_callback(engine.dispose)

    async def acquire_and_release() -> None:
        async with (
            engine.connect() as connection,
            dlock.create_async_sadlock(connection, "bench", contextual_timeout=WITHIN),
        ):
            pass

    return [acquire_and_release]


async def async_dlock_kept(url: str, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    from sqlalchemy.ext.asyncio import create_async_engine

    dlock = library("sqlalchemy_dlock")
    engine = create_async_engine(_by(ASYNC_DRIVERS, url), execution_options=AT_ONCE)
    stack.push_async_callback(engine.dispose)
    connection = await stack.enter_async_context(engine.connect())
    lock = dlock.create_async_sadlock(connection, "bench-kept")

    async def acquire_and_release() -> None:
        assert await lock.acquire(timeout=WITHIN)
        await lock.release()

    return [acquire_and_release]


def pals(url: str, stack: ExitStack) -> Pair:
    locker = library("pals").Locker("bench", _by(DRIVERS, url))
    stack.callback(locker.engine.dispose)
    return pair_with(locker.lock("bench"))


def _by(drivers: dict[str, str], url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{drivers[scheme]}://{rest}"
