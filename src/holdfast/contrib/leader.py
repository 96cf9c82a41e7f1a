"""asyncio: work for one replica at a time, without a framework.

>>> import asyncio, holdfast
>>> from holdfast.contrib.leader import lead
>>> async def clean_up(lease: holdfast.AsyncLease) -> None:
...     print("this replica cleans up, under fence", lease.fence)

>>> async def main() -> None:
...     async with holdfast.AsyncClient("memory://leader-example") as client:
...         await lead(client, "clean-up", clean_up)
>>> asyncio.run(main())
this replica cleans up, under fence 1
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from holdfast.client import AsyncClient
from holdfast.errors import ClientClosed, LockError
from holdfast.lease import AsyncLease
from holdfast.lock import AsyncLock

__all__ = ["lead", "on_one_replica"]

logger = logging.getLogger("holdfast")

PAUSE = 1.0
"""Seconds between a failure and the next campaign."""


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
