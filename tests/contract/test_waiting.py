"""Waiting for a lock: forever, for a while, or not at all."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from holdfast import AcquireTimeout, LockError

from .stage import A_WHILE, Stage


@pytest.mark.turns
@pytest.mark.parametrize(
    "once", [{"blocking": False}, {"timeout": 0}], ids=["not blocking", "timeout 0"]
)
async def test_trying_once_does_not_wait(stage: Stage, once: dict[str, Any]) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ben.lock("door", timeout=1000)
    lease = await ann(ann.lock("door").acquire)
    assert await ben(lock.acquire, **once) is None
    await ann(lease.release)
    assert await ben(lock.acquire, **once)


@pytest.mark.turns
async def test_none_after_the_timeout(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    await ann(ann.lock("door").acquire)
    assert await stage.takes(ben, "gate")  # connected, from here on

    began = time.monotonic()
    assert await ben(ben.lock("door").acquire, timeout=A_WHILE) is None
    assert await ben(ben.lock("door", timeout=A_WHILE).acquire) is None
    assert time.monotonic() - began >= 2 * A_WHILE


@pytest.mark.core
async def test_with_raises_after_the_timeout(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    await ann(ann.lock("door").acquire)
    assert await stage.takes(ben, "gate")  # connected, from here on
    entered = False

    async def body(lease: Any) -> None:
        nonlocal entered
        entered = True

    for timeout in (0, A_WHILE):
        with pytest.raises(AcquireTimeout, match="door") as error:
            await ben.inside(ben.lock("door", timeout=timeout), body)
        assert isinstance(error.value, TimeoutError)
    assert not entered, "a body never runs unlocked"


@pytest.mark.turns
@pytest.mark.parametrize("forever", [None, -1], ids=["None", "-1"])
async def test_waiting_for_ever(stage: Stage, forever: float | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)

    waiting = ben.begins(ben.lock("door", timeout=0.01).acquire, timeout=forever)
    await stage.settles(ann, "door")
    assert not waiting.done(), "its own timeout goes before the lock's"
    await ann(lease.release)
    assert await asyncio.wait_for(waiting, 10)


@pytest.mark.turns
async def test_a_timeout_beyond_what_clocks_can_count(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)
    waiting = ben.begins(ben.lock("door").acquire, timeout=1e12)
    await stage.settles(ann, "door")
    await ann(lease.release)
    assert await asyncio.wait_for(waiting, 10)


async def test_a_release_wakes_the_waiter(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    for _ in range(3):
        lease = await ann(ann.lock("door").acquire)
        waiting = ben.begins(ben.lock("door").acquire)
        await stage.settles(ann, "door")
        await ann(lease.release)
        given = await asyncio.wait_for(waiting, 10)
        assert given.held
        assert given.fence > lease.fence
        await ben(given.release)


async def test_an_expiry_wakes_the_waiter(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(stage.fleeting(ann, "door").acquire)
    given = await asyncio.wait_for(ben(ben.lock("door").acquire), stage.short + 10)
    assert lease.lost, "no two hold it: the first has given up before the second gets it"
    assert given.fence > lease.fence


async def test_a_crowd_of_waiters_of_one_client_is_served_to_the_last(stage: Stage) -> None:
    client = stage.client()
    ann, *crowd = stage.cast(*(f"actor {number}" for number in range(21)), client=client)
    served = []

    async def body(lease: Any) -> None:
        served.append(lease.fence)

    lease = await ann(ann.lock("door").acquire)
    waiting = [asyncio.ensure_future(actor.inside(actor.lock("door"), body)) for actor in crowd]
    await stage.settles(ann, "door", waiters=1)
    await ann(lease.release)
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    assert len(served) == 20
    assert sorted(set(served)) == served


@pytest.mark.turns
async def test_closing_the_client_ends_the_wait(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)
    waiting = ben.begins(ben.lock("door").acquire)
    await stage.settles(ann, "door")
    await stage.close(ben.client)

    with pytest.raises(LockError):
        await asyncio.wait_for(waiting, 10)
    await ann(lease.release)
    assert await stage.takes(ann, "door")


@pytest.mark.core
@pytest.mark.mode("async")
async def test_release_after_an_acquire_in_another_task(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.lock("door")

    async def story() -> None:
        assert await asyncio.wait_for(lock.acquire(), 10)
        await lock.release()
        assert await asyncio.create_task(lock.acquire())
        await lock.release()

    await ann(story)
    assert await stage.takes(ben, "door")


@pytest.mark.mode("async")
async def test_wait_for_gives_up_and_leaves_nothing(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lease = await ann(ann.lock("door").acquire)

    async def story() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ben.lock("door").acquire(), 0.05)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ben.lock("door").acquire()

    await ben(story)
    assert (await ann(ann.client.inspect, "door")).waiters in (None, 0)
    await ann(lease.release)
    assert await stage.takes(cleo, "door")
