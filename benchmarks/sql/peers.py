"""Other people's locks over SQL databases. They are made of the locks that databases have, which
know neither ttl nor fence, and end with the connection.

`sqlalchemy-dlock` is measured in two ways: as its documentation shows it, which takes a connection
from the pool for as long as the lock is held; and at its quickest, on one connection that is kept
for this lock alone and commits nothing. `pals` always takes a connection from its pool.
"""

from contextlib import AsyncExitStack, ExitStack

from benchmarks.peers import AsyncPair, Pair, find

DLOCK, KEPT, PALS = "sqlalchemy-dlock", "sqlalchemy-dlock, kept", "pals"

DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
ASYNC_DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mysql+asyncmy"}
"""How SQLAlchemy calls the drivers that the floors use."""

PATIENCE = 5
"""To wait for ever is not for MariaDB, in the way in which `sqlalchemy-dlock` asks for it."""


def sqlalchemy_dlock(url: str, stack: ExitStack) -> dict[str, Pair]:
    """Both ways; nothing if it is not installed."""
    module = find("sqlalchemy_dlock")
    if module is None:
        return {}
    from sqlalchemy import create_engine  # which takes long, and every process would pay for it

    engine = create_engine(_by(DRIVERS, url))
    stack.callback(engine.dispose)
    at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
    kept = module.create_sadlock(stack.enter_context(at_once.connect()), "bench-kept")

    def as_documented() -> None:
        with (
            engine.connect() as connection,
            module.create_sadlock(connection, "bench", contextual_timeout=PATIENCE),
        ):
            pass

    def on_one_connection() -> None:
        assert kept.acquire(timeout=PATIENCE)
        kept.release()

    return {DLOCK: as_documented, KEPT: on_one_connection}


async def async_sqlalchemy_dlock(url: str, stack: AsyncExitStack) -> dict[str, AsyncPair]:
    """The same for a task."""
    module = find("sqlalchemy_dlock")
    if module is None:
        return {}
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(_by(ASYNC_DRIVERS, url))
    stack.push_async_callback(engine.dispose)
    at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
    connection = await stack.enter_async_context(at_once.connect())
    kept = module.create_async_sadlock(connection, "bench-kept")

    async def as_documented() -> None:
        async with (
            engine.connect() as connection,
            module.create_async_sadlock(connection, "bench", contextual_timeout=PATIENCE),
        ):
            pass

    async def on_one_connection() -> None:
        assert await kept.acquire(timeout=PATIENCE)
        await kept.release()

    return {DLOCK: as_documented, KEPT: on_one_connection}


def pals(url: str, stack: ExitStack) -> dict[str, Pair]:
    """By its name; nothing if it is not installed."""
    module = find("pals")
    if module is None:
        return {}
    locker = module.Locker("bench", _by(DRIVERS, url))
    stack.callback(locker.engine.dispose)
    lock = locker.lock("bench")

    def acquire_and_release() -> None:
        assert lock.acquire()
        lock.release()

    return {PALS: acquire_and_release}


def _by(drivers: dict[str, str], url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{drivers[scheme]}://{rest}"
