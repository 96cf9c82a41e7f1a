"""FastAPI and Starlette: one request at a time for each order, and work for one replica alone.

>>> import contextlib, typing, fastapi, holdfast
>>> from holdfast.contrib.fastapi import locked, on_one_replica
>>> client = holdfast.AsyncClient("memory://fastapi-example")

>>> async def clean_up(lease: holdfast.AsyncLease) -> None:
...     print("this replica cleans up")

>>> @contextlib.asynccontextmanager
... async def lifespan(app):
...     async with client, on_one_replica(client, "clean-up", clean_up):
...         yield

>>> app = fastapi.FastAPI(lifespan=lifespan)

>>> def order_lock(order_id: int) -> str:
...     return f"order:{order_id}"

>>> @app.post("/orders/{order_id}/pay")
... async def pay(
...     order_id: int, lease: typing.Annotated[holdfast.AsyncLease, locked(client, order_lock)]
... ) -> dict[str, int]:
...     return {"order": order_id, "fence": lease.fence}

>>> from fastapi.testclient import TestClient
>>> with TestClient(app) as browser:
...     browser.post("/orders/042/pay").json()
this replica cleans up
{'order': 42, 'fence': 1}
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from holdfast.client import AsyncClient
from holdfast.errors import ClientClosed, EngineUnavailable, LockError
from holdfast.lease import AsyncLease
from holdfast.lock import AsyncLock

__all__ = ["holding", "lead", "locked", "on_one_replica"]

logger = logging.getLogger("holdfast")

PAUSE = 1.0
"""Seconds between a failure and the next campaign."""


@asynccontextmanager
async def holding(
    client: AsyncClient,
    name: str,
    *,
    timeout: float = 0.0,
    ttl: float | None = None,
    status: int = 409,
) -> AsyncIterator[AsyncLease]:
    """Hold a lock in an endpoint: `async with holding(client, f"order:{number}") as lease:`.

    If another request has it for longer than `timeout` seconds (default: do not wait), the answer
    is `status`: 409 Conflict, or 423 Locked if you prefer. If the engine is unreachable, it is 503.
    If the lease is lost, the endpoint is cancelled, and `LockLost` raised.
    """
    lock = client.lock(name, ttl=ttl, cancel_on_loss=True)
    try:
        lease = await lock.acquire(timeout=timeout)
    except EngineUnavailable as error:
        raise HTTPException(503, "the lock server is unreachable") from error
    if lease is None:
        raise HTTPException(status, f"{name} is locked by another request")
    async with lease:
        yield lease


def locked(
    client: AsyncClient,
    name: str | Callable[..., Any],
    *,
    timeout: float = 0.0,
    ttl: float | None = None,
    status: int = 409,
) -> Any:
    """A dependency of FastAPI that holds a lock while the endpoint runs, and gives it the lease.

    `name` is a function that returns the name of the lock. It is a dependency itself: FastAPI
    calls it with the arguments of the request that it asks for, converted and checked. Or it is
    text, such as `"order:{order_id}"`, filled with the parameters of the path as the router has
    them: there, `042` and `42` differ, unless the path has `{order_id:int}`. The rest is as for
    `holding`. The lock is released before the response is sent.
    """
    from fastapi import Depends

    def from_path(connection: HTTPConnection) -> str:
        return str(name).format_map(connection.path_params)

    async def hold(
        name: str = Depends(name if callable(name) else from_path),
    ) -> AsyncIterator[AsyncLease]:
        async with holding(client, name, timeout=timeout, ttl=ttl, status=status) as lease:
            yield lease

    return Depends(hold, scope="function")


@asynccontextmanager
async def on_one_replica(
    client: AsyncClient,
    name: str,
    work: Callable[[AsyncLease], Coroutine[Any, Any, object]],
    *,
    ttl: float | None = None,
    grace: float | None = None,
) -> AsyncIterator[None]:
    """For a lifespan: `lead` in the background, until the application ends."""
    campaign = asyncio.create_task(lead(client, name, work, ttl=ttl, grace=grace), name=name)
    try:
        yield
    finally:
        await _cancelled(campaign)


def lead(
    client: AsyncClient,
    name: str,
    work: Callable[[AsyncLease], Coroutine[Any, Any, object]],
    *,
    ttl: float | None = None,
    grace: float | None = None,
) -> Coroutine[Any, Any, None]:
    """Wait until this replica has the lock, and await `work(lease)`. It is cancelled `grace`
    seconds before the lease ends (default: 5, at most a third of the ttl). After that, or a
    failure, the replica waits for its turn again. When `work` returns, it is done here, and
    another replica has its turn."""
    lock = client.lock(name, ttl=ttl)
    grace = min(5.0, lock.ttl / 3) if grace is None else grace
    if not 0 <= grace < lock.ttl * 2 / 3:  # a renewal comes after a third of the ttl
        raise ValueError(f"grace: must be less than 2/3 of the ttl, {lock.ttl:g}; got {grace!r}")
    return _campaign(lock, work, grace)


async def _campaign(
    lock: AsyncLock, work: Callable[[AsyncLease], Coroutine[Any, Any, object]], grace: float
) -> None:
    while True:
        try:
            async with lock as lease:
                if await _finished(asyncio.ensure_future(work(lease)), lease, grace):
                    return
                logger.warning("%r is not renewed in time; its work was cancelled", lock.name)
        except ClientClosed:
            return
        except LockError as error:
            logger.warning("%s; trying again", error)
        except Exception:
            logger.exception("the work under %r failed; trying again", lock.name)
        await asyncio.sleep(PAUSE)


async def _finished(work: "asyncio.Future[Any]", lease: AsyncLease, grace: float) -> bool:
    """Whether the work has ended by itself; if not, it has been cancelled in time."""
    lost = asyncio.Event()
    lease.on_lost(lambda _: lost.set())
    loss: asyncio.Future[Any] = asyncio.ensure_future(lost.wait())
    try:
        while (left := lease.remaining() - grace) > 0:  # it grows with each renewal
            await asyncio.wait([work, loss], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if work.cancelled():
                raise RuntimeError("the work was cancelled, but not by this replica")
            if work.done():
                await work
                return True
        return False
    finally:
        loss.cancel()
        await _cancelled(work)


async def _cancelled(work: "asyncio.Future[Any]") -> None:
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
