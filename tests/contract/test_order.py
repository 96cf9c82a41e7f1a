"""First in, first out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .actors import Actor
from .stage import AT_ONCE, Stage

pytestmark = pytest.mark.needs("order")

NAMES = "123456"


async def queue_up(
    stage: Stage, holder: Actor, lease: Any, served: list[str]
) -> list[asyncio.Future[Any]]:
    """Have clients wait, one after the other; each tells when it is served, and goes."""
    waiting: list[asyncio.Future[Any]] = []
    for number, name in enumerate(NAMES, 1):
        actor = stage.actor(name)
        assert await stage.takes(actor, f"gate {name}")  # connected, from here on

        async def tell(lease: Any, name: str = name) -> None:
            served.append(name)

        lock = actor.lock("door", ttl=stage.long, timeout=60)
        waiting.append(asyncio.ensure_future(actor.inside(lock, tell)))
        await stage.settles(holder, "door", waiters=number)
        await holder(lease.extend)
    return waiting


async def test_behind_a_holder_that_releases(stage: Stage) -> None:
    served: list[str] = []
    ann = stage.actor("ann")
    lease = await ann(ann.lock("door", ttl=stage.long).acquire)
    waiting = await queue_up(stage, ann, lease, served)
    await ann(lease.release)
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert "".join(served) == NAMES


@pytest.mark.slow
async def test_behind_a_holder_that_died(stage: Stage) -> None:
    served: list[str] = []
    ann = stage.actor("ann")
    lease = await ann(ann.lock("door", ttl=stage.ttl, renew=False, timeout=AT_ONCE).acquire)
    waiting = await queue_up(stage, ann, lease, served)
    await asyncio.wait_for(asyncio.gather(*waiting), 60)  # from now on it is not extended
    assert "".join(served) == NAMES
