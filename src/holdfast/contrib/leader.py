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
from functools import partial
from typing import Any, TypeAlias

from holdfast.client import AsyncClient
from holdfast.election import AsyncElection
from holdfast.errors import ClientClosed, LockError
from holdfast.lease import AsyncLease

__all__ = ["lead", "on_one_replica"]

logger = logging.getLogger("holdfast")

Work: TypeAlias = Callable[[AsyncLease], Coroutine[Any, Any, object]]

PAUSE = 1.0
"""Seconds between a failure and the next campaign."""


@asynccontextmanager
async def on_one_replica(
    client: AsyncClient, name: str, work: Work, *, ttl: float | None = None
) -> AsyncIterator[None]:
    """For a lifespan: `lead` in the background, until the application ends."""
    campaign = asyncio.create_task(lead(client, name, work, ttl=ttl), name=name)
    try:
        yield
    finally:
        campaign.cancel()
        await asyncio.gather(campaign, return_exceptions=True)


def lead(
    client: AsyncClient, name: str, work: Work, *, ttl: float | None = None
) -> Coroutine[Any, Any, None]:
    """Wait until this replica is elected (`client.election(name)`), and await `work(lease)`. It is
    cancelled before its lease ends, when a sixth of its time is left. After that, or a failure, the
    replica waits for its turn again. When `work` returns, it is done here, and another replica has
    its turn."""
    return _campaign(client.election(name, ttl=ttl), work)


async def _campaign(election: AsyncElection, work: Work) -> None:
    while True:
        try:
            return await election.run(partial(_turn, work))
        except ClientClosed:
            return None
        except LockError as error:
            logger.warning("%s; trying again", error)
        except Exception:
            logger.exception("the work under %r failed; trying again", election.name)
        await asyncio.sleep(PAUSE)


async def _turn(work: Work, lease: AsyncLease) -> None:
    """The work; whether it was cancelled by this replica is for its task to say, not for itself."""
    task = asyncio.current_task()
    try:
        await work(lease)
    except asyncio.CancelledError:
        if task is None or not task.cancelling():
            raise RuntimeError("the work was cancelled, but not by this replica") from None
        raise
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
