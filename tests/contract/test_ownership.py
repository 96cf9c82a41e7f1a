"""Whose lease `Lock.release()` and leaving a `with` mean, on whichever thread or task."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast import LockLost, NotHeld

from .stage import AT_ONCE, Stage

pytestmark = pytest.mark.core


async def test_who_lost_a_lease_is_told_and_releases_nothing_of_others(stage: Stage) -> None:
    client = stage.client()
    ann, ben = stage.cast("ann", "ben", client=client)
    lock = client.lock("door", ttl=2 * stage.short)
    lost = await ann(lock.acquire, timeout=AT_ONCE)
    await ben(client.break_lock, "door")
    for _ in range(10):  # others come and go through the same lock
        await ben(lock.acquire, timeout=AT_ONCE)
        await ben(lock.release)
    await ben(lock.acquire, timeout=AT_ONCE)
    await stage.until(lambda: lost.lost)
    with pytest.raises(LockLost):
        await ann(lock.release)
    with pytest.raises(NotHeld) as raised:
        await ann(lock.release)
    assert not isinstance(raised.value, LockLost), "it was told already"
    assert not await stage.takes(ann, "door"), "the lease of another was released"


async def test_a_release_too_many_does_not_end_the_lease_of_another(stage: Stage) -> None:
    client = stage.client()
    ann, ben = stage.cast("ann", "ben", client=client)
    lock = client.lock("door")
    await ann(lock.acquire)
    await ann(lock.release)
    lease = await ben(lock.acquire)
    with pytest.raises(NotHeld):
        await ann(lock.release)
    assert lease.held


async def test_a_lost_lease_of_another_does_not_stand_in_the_way_of_a_hand_over(
    stage: Stage,
) -> None:
    client = stage.client()
    ann, ben, cleo = stage.cast("ann", "ben", "cleo", client=client)
    lock = client.lock("door", ttl=stage.short, renew=False)
    await ann(lock.acquire, timeout=AT_ONCE)
    longer = client.lock("gate", reentrant=True)
    lease = await ben(lock.acquire, timeout=3 * AT_ONCE)
    if lease.held:  # a busy machine may have lost it meanwhile
        await cleo(lock.release)
    await ben(longer.acquire)
    await ben(longer.acquire)
    await cleo(longer.release)
    assert not await stage.takes(ann, "gate"), "it was taken twice"
    await cleo(longer.release)
    assert await stage.takes(ann, "gate")


async def test_a_lease_is_a_context_manager_for_any_thread_or_task(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)
    if stage.mode == "sync":
        stack = ExitStack()
        assert await ann(stack.enter_context, lease) is lease
        await asyncio.to_thread(stack.close)
    else:
        async with lease as entered:
            assert entered is lease
    assert await stage.takes(ben, "door")
    with pytest.raises(NotHeld):
        await ann(lease.__enter__ if stage.mode == "sync" else lease.__aenter__)


@pytest.mark.mode("sync")
async def test_a_block_left_on_another_thread_releases_its_own_lease(stage: Stage) -> None:
    client = stage.client()
    ann, ben = stage.cast("ann", "ben", client=client)
    lock = client.lock("door", ttl=stage.short, renew=False, timeout=3 * AT_ONCE)

    def dependency() -> Any:
        """As web frameworks and fixtures run it: entered on one thread, left on another."""
        with lock as lease:
            yield lease

    def leave(generator: Any) -> None:
        with pytest.raises(StopIteration):
            next(generator)

    first = dependency()
    lost = await ann(next, first)
    await stage.until(lambda: lost.lost, stage.short + AT_ONCE)

    def in_a_block_of_its_own() -> Any:
        with client.lock("gate"), lock as lease:
            with pytest.raises(LockLost):
                next(first)  # the other block is left here
            return lease.held or lease.lost

    assert await ben(in_a_block_of_its_own), "the wrong lease was released"
    second = dependency()
    await ann(next, second)
    await asyncio.to_thread(leave, second)
    assert await stage.takes(ann, "door")


@pytest.mark.mode("sync")
async def test_a_block_that_cannot_be_attributed_is_refused(stage: Stage) -> None:
    client = stage.client()
    ann, ben = stage.cast("ann", "ben", client=client)
    lock = client.lock("door", ttl=stage.short, renew=False, timeout=3 * AT_ONCE)
    stacks = ExitStack(), ExitStack()
    lost = await ann(stacks[0].enter_context, lock)
    await stage.until(lambda: lost.lost, stage.short + AT_ONCE)
    await ben(stacks[1].enter_context, lock)
    with pytest.raises(NotHeld, match=r"with lock\.acquire"):
        await asyncio.to_thread(stacks[0].close)


@pytest.mark.mode("sync")
@pytest.mark.parametrize("reentrant", [False, True])
async def test_a_condition_works_with_a_lock(stage: Stage, reentrant: bool) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    condition = threading.Condition(ann.lock("door", reentrant=reentrant))
    ready: list[str] = []

    def consume() -> list[str]:
        with condition:
            if reentrant:
                with condition:
                    condition.wait_for(lambda: ready, AT_ONCE)
            else:
                condition.wait_for(lambda: ready, AT_ONCE)
            return list(ready)

    def produce() -> None:
        with condition:
            ready.append("it")
            condition.notify()

    consuming = ann.begins(consume)
    await stage.until(lambda: condition._waiters)  # type: ignore[attr-defined]
    await ben(produce)
    assert await consuming == ["it"]
    assert await stage.takes(ann, "door")
