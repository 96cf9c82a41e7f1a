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
        campaign.cancel()
        await asyncio.gather(campaign, return_exceptions=True)


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
        term = None
        try:
            async with (
                lock as lease,
                lease._driver.cancel_before_end(lease._state, grace) as term,  # noqa: SLF001
            ):
                await _finish(work(lease))
                return
        except ClientClosed:
            return
        except LockError as error:
            logger.warning("%s; trying again", error)
        except Exception:
            if term is not None and term.expired():
                logger.warning("%r is not renewed in time; its work was cancelled", lock.name)
            else:
                logger.exception("the work under %r failed; trying again", lock.name)
        await asyncio.sleep(PAUSE)


async def _finish(work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the work was cancelled, but not by this replica") from None
