"""Closing a client ends its leases: their holders are told, and no body runs without the lock."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from holdfast import ClientClosed, LockLost

from .stage import AT_ONCE, Stage


async def test_closing_the_client_is_a_loss_that_is_told_once(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    told: list[Any] = []
    leases = [await ann(ann.lock(f"door {number}").acquire) for number in range(20)]
    for lease in leases:
        lease.on_lost(told.append)
    await stage.close(ann.client)
    assert sorted(lease.name for lease in told) == sorted(lease.name for lease in leases)
    for lease in leases:
        assert (lease.held, lease.lost, lease.remaining()) == (False, True, 0)
        with pytest.raises(LockLost, match="the client was closed"):
            lease.ensure_held()
        with pytest.raises(LockLost, match="the client was closed"):
            await ann(lease.release)
        assert await stage.takes(ben, lease.name)
    await stage.close(ann.client)
    assert len(told) == len(leases)


@pytest.mark.core
async def test_a_block_whose_client_is_closed_ends_with_a_loss(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def closes(lease: Any) -> None:
        await stage.close(ann.client)

    async def closes_and_raises(lease: Any) -> None:
        await closes(lease)
        raise ValueError("mine")

    with pytest.raises(LockLost, match="the client was closed"):
        await ann.inside(ann.lock("door"), closes)
    assert await stage.takes(ben, "door")
    ann = stage.actor("ann again")
    with pytest.raises(ValueError, match="mine") as raised:
        await ann.inside(ann.lock("door"), closes_and_raises)
    assert "the client was closed" in raised.value.__notes__[0]


@pytest.mark.core
@pytest.mark.mode("async")
async def test_cancel_on_loss_cancels_the_body_of_a_closed_client(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    inside = asyncio.Event()

    async def waits(lease: Any) -> None:
        inside.set()
        await asyncio.Event().wait()

    section = asyncio.ensure_future(ann.inside(ann.lock("door", cancel_on_loss=True), waits))
    await inside.wait()
    await stage.close(ann.client)
    with pytest.raises(LockLost, match="the client was closed"):
        await asyncio.wait_for(section, AT_ONCE)


@pytest.mark.turns
async def test_a_waiter_of_a_closed_client_does_not_enter(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    await ann(ann.lock("door").acquire)
    waiting = asyncio.ensure_future(ben.inside(ben.lock("door"), _never))
    await stage.settles(ann, "door")
    await stage.close(ben.client)
    with pytest.raises(ClientClosed):
        await asyncio.wait_for(waiting, AT_ONCE)
    await stage.until(lambda: _nobody_waits(stage, ann))


async def _nobody_waits(stage: Stage, ann: Any) -> bool:
    return (await ann(ann.client.inspect, "door")).waiters in (None, 0)


@pytest.mark.needs("outage")
async def test_an_acquire_in_flight_does_not_enter_and_leaves_nothing(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    await stage.takes(ann, "door")
    await stage.takes(ben, "gate")
    with stage.backend.outage():
        section = asyncio.ensure_future(ann.inside(ann.lock("door", ttl=stage.long), _never))
        await stage.passes(0.05)
        closing = asyncio.ensure_future(_close(ann.client))
        second = asyncio.ensure_future(_close(ann.client))
        await stage.passes(0.05)
    with pytest.raises(ClientClosed):
        await asyncio.wait_for(section, AT_ONCE)
    await asyncio.wait_for(asyncio.gather(closing, second), AT_ONCE)
    assert await stage.takes(ben, "door")


async def _close(client: Any) -> None:
    if hasattr(client, "aclose"):
        await client.aclose()
    else:
        await asyncio.to_thread(client.close)


@pytest.mark.turns
async def test_every_use_of_a_closed_client_says_so(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock, client = ann.lock("door"), ann.client
    await stage.takes(ann, "door")
    await stage.close(client)
    for use in (
        lock.acquire,
        lock.locked,
        lambda: client.inspect("door"),
        lambda: client.leases(),
        lambda: client.break_lock("door"),
        client.nodes,
    ):
        with pytest.raises(ClientClosed, match="closed"):
            await ann(use)
    with pytest.raises(ClientClosed):
        await ann.inside(lock, _never)


@pytest.mark.turns
@pytest.mark.mode("async")
async def test_a_client_can_be_closed_after_its_loop_has_ended(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    def in_loops_of_their_own() -> list[Any]:
        client = type(ann.client)(stage.backend.url)
        told: list[Any] = []

        async def acquires() -> Any:
            lease = await client.lock("door", ttl=stage.ttl).acquire()
            lease.on_lost(told.append)
            return lease

        lease = asyncio.run(acquires())
        asyncio.run(client.aclose())
        asyncio.run(client.aclose())
        assert lease.lost
        return told

    assert len(await asyncio.to_thread(in_loops_of_their_own)) == 1
    # Its connections ended with the loop: it is released on new ones, or ends with its ttl.
    await stage.until(lambda: stage.takes(ben, "door"), stage.ttl + AT_ONCE)


@pytest.mark.core
async def test_nothing_of_a_client_can_be_pickled(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door").acquire)
    for thing in (ann.client, ann.lock("door"), lease):
        with pytest.raises(TypeError, match="make a client there"):
            pickle.dumps(thing)


async def _never(lease: Any) -> None:
    raise AssertionError("the body ran without the lock")
