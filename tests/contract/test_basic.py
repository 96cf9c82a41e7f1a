"""Taking and releasing a lock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from holdfast import LockError, LockLost, NotHeld, Unsupported

from .stage import Stage


async def test_a_free_lock_is_granted(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door", ttl=stage.long).acquire)

    assert lease
    assert lease.name == "door"
    assert isinstance(lease.holder, str)
    assert lease.holder
    assert isinstance(lease.fence, int)
    assert lease.ttl >= stage.long
    assert 0 < lease.remaining() < lease.ttl
    assert lease.held
    assert not lease.lost
    lease.ensure_held()


async def test_a_held_lock_is_refused(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)

    assert await stage.tries(ben, ben.lock("door")) is None
    assert await stage.tries(ann, ann.lock("door")) is None, "not even to the same client"
    assert lease.held

    await ann(lease.release)
    assert await stage.tries(ben, ben.lock("door"))


@pytest.mark.turns
async def test_a_released_lease_says_so(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door").acquire)
    await ann(lease.release)

    assert not lease.held
    assert not lease.lost, "it was released, not lost"
    assert lease.remaining() == 0
    with pytest.raises(NotHeld):
        lease.ensure_held()
    with pytest.raises(NotHeld):
        await ann(lease.extend)


@pytest.mark.turns
async def test_each_acquisition_has_a_holder_of_its_own(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = ann.lock("door")
    holders = set()
    for _ in range(5):
        lease = await ann(lock.acquire)
        holders.add(lease.holder)
        await ann(lease.release)
    assert len(holders) == 5


@pytest.mark.turns
async def test_releasing_twice_is_an_error(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)
    await ann(lease.release)
    others = await ben(ben.lock("door").acquire)

    with pytest.raises(NotHeld) as error:
        await ann(lease.release)
    assert not isinstance(error.value, LockLost), "it was not lost, it was released"
    assert others.held
    assert not await stage.takes(ann, "door"), (
        "the second release must not free the next holder's lock"
    )


@pytest.mark.turns
async def test_two_releases_at_once_release_once(stage: Stage) -> None:
    client = stage.client()
    ann, ben = stage.cast("ann", "ben", client=client)
    for _ in range(20):
        lease = await ann(ann.lock("door").acquire)
        outcomes = await asyncio.gather(
            ann(lease.release), ben(lease.release), return_exceptions=True
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "NotHeld"]


async def test_nobody_releases_what_another_holds(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)

    with pytest.raises(NotHeld):
        await ben(ben.lock("door").release)
    with pytest.raises(NotHeld):
        await ann(ann.lock("door").release)  # another `Lock` of the same name
    assert lease.held
    assert not await stage.takes(ben, "door")


@pytest.mark.turns
async def test_a_lease_is_released_from_anywhere(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    lease = await ann(ann.lock("door").acquire)
    await ben(lease.release)
    assert await stage.takes(ann, "door")


@pytest.mark.core
async def test_a_lock_releases_the_only_lease_taken_through_it(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    lock = ann.lock("door")
    lease = await ann(lock.acquire)
    await ben(lock.release)
    assert not lease.held
    assert await stage.takes(ann, "door")
    with pytest.raises(NotHeld):
        await ann(lock.release)


@pytest.mark.turns
async def test_locked_tells_whether_anybody_holds_it(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    assert not await ben(ben.lock("door").locked)
    lease = await ann(ann.lock("door").acquire)
    assert await ann(ann.lock("door").locked)
    assert await ben(ben.lock("door").locked)
    await ann(lease.release)
    assert not await ben(ben.lock("door").locked)


@pytest.mark.turns
async def test_with_holds_the_lock_for_its_body(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def body(lease: Any) -> int:
        assert lease.held
        assert not await stage.takes(ben, "door")
        return int(lease.fence)

    assert isinstance(await ann.inside(ann.lock("door"), body), int)
    assert await stage.takes(ben, "door")


@pytest.mark.core
async def test_with_releases_when_its_body_raises(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def body(lease: Any) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as error:
        await ann.inside(ann.lock("door"), body)
    assert not getattr(error.value, "__notes__", []), "nothing was lost: nothing to add"
    assert await stage.takes(ben, "door")


@pytest.mark.core
async def test_a_lock_is_a_description_to_use_again(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = ann.lock("door")

    async def body(lease: Any) -> int:
        return int(lease.fence)

    fences = [await ann.inside(lock, body) for _ in range(5)]
    assert sorted(set(fences)) == fences


@pytest.mark.turns
async def test_describing_a_lock_asks_nothing(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    ann.lock("door", ttl=stage.long, timeout=5, renew=False, reentrant=True, max_hold=5, retry=1)
    assert stage.backend.untouched()


async def test_a_ttl_is_rounded_up_within_the_engines_range(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    promised = ann.client.guarantees
    assert 0.01 <= promised.min_ttl <= promised.max_ttl <= 86_400

    ann.lock("door", ttl=promised.min_ttl)  # not refused; a busy machine could hardly keep it
    step = promised.ttl_step or 0
    asked = max(promised.min_ttl, stage.short) + 0.6 * step
    lease = await ann(ann.lock("door", ttl=asked, renew=False).acquire)
    assert asked <= lease.ttl <= asked + step
    await ann(ann.lock("gate", ttl=promised.max_ttl).acquire)


@pytest.mark.turns
async def test_what_the_engine_does_not_have_is_refused(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    kinds: dict[str, Callable[[], object]] = {
        "cells": lambda: ann.client.cell("door"),
        "shares": lambda: ann.client.rwlock("door"),
        "slots": lambda: ann.client.semaphore("door", 2),
    }
    for need, make in kinds.items():
        with pytest.raises(Unsupported) if need in stage.engine.cannot else nullcontext():
            make()
    assert stage.backend.untouched()


@pytest.mark.turns
async def test_a_closed_client_takes_no_orders(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.lock("door")
    await ann(lock.acquire)
    await stage.close(ann.client)
    await stage.close(ann.client)

    for call in (lock.acquire, lock.locked, lambda: ann.client.inspect("door")):
        with pytest.raises(LockError):
            await ann(call)
    assert await stage.takes(ben, "door")
