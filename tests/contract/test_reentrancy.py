"""Taking the same lock again: by the same thread or task, or by another through one `Lock`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import LockLost, NotHeld

from .stage import A_WHILE, Stage

pytestmark = pytest.mark.core


async def test_the_same_actor_takes_a_reentrant_lock_again(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.lock("door", reentrant=True)
    first = await ann(lock.acquire)
    again = await ann(lock.acquire, blocking=False)

    assert again.fence == first.fence
    assert again.holder == first.holder
    await ann(lock.release)
    assert first.held
    assert again.held
    assert not await stage.takes(ben, "door"), "taken twice, released once"
    await ann(lock.release)
    assert not first.held
    assert await stage.takes(ben, "door")
    with pytest.raises(NotHeld):
        await ann(lock.release)


async def test_with_within_with(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.lock("door", reentrant=True)
    fences: list[int] = []

    async def inner(lease: Any) -> None:
        fences.append(lease.fence)

    async def outer(lease: Any) -> None:
        fences.append(lease.fence)
        await ann.inside(lock, inner)
        lease.ensure_held()
        assert not await stage.takes(ben, "door")

    await ann.inside(lock, outer)
    assert fences[0] == fences[1]
    assert await stage.takes(ben, "door")


@pytest.mark.needs("outage")
async def test_taking_it_again_asks_nothing(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = ann.lock("door", reentrant=True)
    await ann(lock.acquire)
    with stage.backend.outage():
        assert await ann(lock.acquire, blocking=False)
        await ann(lock.release)
    await ann(lock.release)


async def test_another_actor_does_not_take_it_again(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    lock = ann.lock("door", reentrant=True)
    lease = await ann(lock.acquire)

    assert await stage.tries(ben, lock) is None
    waiting = ben.begins(lock.acquire)
    await ann(lock.acquire)
    await ann(lock.release)
    assert not waiting.done()
    await ann(lock.release)
    given = await asyncio.wait_for(waiting, 10)
    assert given.fence > lease.fence
    again = await ben(lock.acquire)
    assert again.fence == given.fence


async def test_another_lock_of_the_same_name_is_another_lock(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await ann(ann.lock("door", reentrant=True).acquire)
    assert await stage.tries(ann, ann.lock("door", reentrant=True)) is None


async def test_a_lock_is_not_reentrant_unless_asked(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = ann.lock("door")
    lease = await ann(lock.acquire)
    assert await stage.tries(ann, lock) is None
    assert await ann(lock.acquire, timeout=A_WHILE) is None
    assert lease.held


async def test_a_lost_lease_is_not_taken_again(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = stage.fleeting(ann, "door", reentrant=True)
    lease = await ann(lock.acquire)
    await stage.until(lambda: lease.lost)
    try:
        again = await ann(lock.acquire)
    except LockLost:
        return
    assert again.held, "no entry without the lock"
    assert again.fence > lease.fence


async def test_two_actors_share_one_lock(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    lock = ann.lock("door")
    present: list[str] = []
    fences: list[int] = []

    async def visits(name: str) -> None:
        actor = ann if name == "ann" else ben

        async def body(lease: Any) -> None:
            present.append(name)
            fences.append(lease.fence)
            await asyncio.sleep(0)
            assert present == [name]
            present.remove(name)

        for _ in range(20):
            await actor.inside(lock, body)

    await asyncio.gather(visits("ann"), visits("ben"))
    assert len(fences) == 40
    assert sorted(set(fences)) == fences


async def test_each_releases_their_own_through_a_shared_lock(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    lock = stage.fleeting(ann, "door")
    first = await ann(lock.acquire)
    second = await ben(lock.acquire)  # when the first has run out
    await ben(second.extend, ttl=stage.long)
    assert first.lost

    with pytest.raises(LockLost):
        await ann(lock.release)  # her own, though his came later
    assert second.held
    await ben(lock.release)
    assert not second.held
