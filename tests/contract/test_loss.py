"""Losing a lease: the holder is told, once, at the moment, and no other lease suffers for it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
from typing import Any

import pytest

from holdfast import LockLost, NotHeld

from .stage import Stage


async def test_an_expired_lease_is_lost(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(stage.fleeting(ann, "door").acquire)
    await stage.until(lambda: lease.lost, stage.short + 10)

    assert not lease.held
    assert lease.remaining() == 0
    with pytest.raises(LockLost, match="door"):
        lease.ensure_held()
    with pytest.raises(LockLost, match="door"):
        await ann(lease.release)


@pytest.mark.core
async def test_held_lost_and_remaining_agree_at_every_instant(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(stage.fleeting(ann, "door").acquire)
    give_up_at = time.monotonic() + stage.short + 10
    while not lease.lost and time.monotonic() < give_up_at:  # no pause: meet the very instant
        if lease.remaining() == 0:
            assert lease.lost
            assert not lease.held
    assert lease.remaining() == 0
    assert not lease.held


async def test_the_holder_is_told_once_and_when_it_happens(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    told: list[Any] = []

    def note(lost: Any) -> None:
        told.append((time.monotonic(), lost, lost.lost, lost.held, lost.remaining()))

    lease = await ann(stage.fleeting(ann, "door").acquire)
    ends = time.monotonic() + lease.remaining()
    lease.on_lost(note)
    await stage.until(lambda: told)
    instant, *facts = told[0]
    assert facts == [lease, True, False, 0]
    assert instant >= ends, "told before it happened"
    with pytest.raises(LockLost):
        await ann(lease.release)
    await stage.passes(stage.short)
    assert len(told) == 1


@pytest.mark.core
async def test_every_callback_is_told_even_if_one_fails(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    told: list[str] = []
    lease = await ann(stage.fleeting(ann, "door").acquire)
    other = await ann(stage.fleeting(ann, "gate", ttl=2 * stage.short).acquire)
    lease.on_lost(lambda _: told.append("first"))
    lease.on_lost(lambda _: 1 / 0)
    lease.on_lost(lambda _: told.append("last"))
    other.on_lost(lambda _: told.append("other"))
    await stage.until(lambda: len(told) == 3)
    assert sorted(told) == ["first", "last", "other"], (
        "a failing callback ends neither the others nor the renewer"
    )


@pytest.mark.core
async def test_who_asks_too_late_is_told_at_once(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(stage.fleeting(ann, "door").acquire)
    await stage.until(lambda: lease.lost)
    told: list[Any] = []
    lease.on_lost(told.append)
    await stage.until(lambda: told)
    await stage.passes(0.05)
    assert told == [lease]


@pytest.mark.core
async def test_a_release_is_no_loss(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    told: list[Any] = []
    lease = await ann(ann.lock("door", ttl=2 * stage.short).acquire)
    lease.on_lost(told.append)
    await ann(lease.release)
    lease.on_lost(told.append)
    await stage.passes(2.5 * stage.short)
    assert not told
    assert not lease.lost


class Fatal(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.core
@pytest.mark.mode("sync")
async def test_a_callback_that_blocks_or_raises_anything_hurts_no_other_lease(
    stage: Stage,
) -> None:
    (ann,) = stage.cast("ann")
    told: list[str] = []
    unblocked = threading.Event()
    kept = await ann(ann.lock("kept", ttl=2 * stage.short).acquire)

    def fails(lease: Any) -> None:
        raise Fatal

    try:
        for number, callback in enumerate((lambda _: unblocked.wait(), fails, fails)):
            lease = await ann(stage.fleeting(ann, f"door {number}").acquire)
            lease.on_lost(callback)
            lease.on_lost(lambda lease: told.append(lease.name))
        await stage.until(lambda: sorted(told) == ["door 1", "door 2"])
        end = time.monotonic() + kept.remaining()
        await stage.until(lambda: time.monotonic() + kept.remaining() > end + 0.1)
        assert not kept.lost
    finally:
        unblocked.set()
    await stage.until(lambda: "door 0" in told)


@pytest.mark.core
async def test_a_loss_that_is_noticed_just_before_closing_is_told_once(stage: Stage) -> None:
    told: list[Any] = []
    for _ in range(5):
        ann = stage.actor("ann")

        async def outlives(lease: Any) -> None:
            lease.on_lost(told.append)
            await stage.passes(max(0, lease.remaining() - 0.05))
            while lease.remaining():  # no pause: meet the very instant
                continue

        before = len(told)
        with pytest.raises(LockLost):
            await ann.inside(stage.fleeting(ann, "door"), outlives)
        await stage.close(ann.client)
        assert len(told) == before + 1
        assert all(lease.lost for lease in told), "once lost, always lost"


async def test_a_late_release_does_not_free_the_next_holder(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lock = stage.fleeting(ann, "door")
    lease = await ann(lock.acquire)
    others = await ben(ben.lock("door").acquire)

    with pytest.raises(LockLost):
        await ann(lease.release)
    with pytest.raises(NotHeld):
        await ann(lock.release)
    assert others.held
    assert not await stage.takes(cleo, "door")
    assert (await cleo(cleo.client.inspect, "door")).holder == others.holder


async def test_a_renewal_that_meets_another_holder_is_loss(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    told: list[float] = []
    lease = await ann(ann.lock("door", ttl=stage.ttl).acquire)
    lease.on_lost(lambda lost: told.append(lost.remaining()))
    assert await ben(ben.client.break_lock, "door")
    others = await stage.tries(ben, ben.lock("door"))

    await stage.until(lambda: told)
    assert lease.lost
    assert told == [0]
    with pytest.raises(LockLost):
        await ann(lease.release)
    assert others.held
    assert others.fence > lease.fence


@pytest.mark.core
async def test_leaving_with_after_a_loss_raises(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    finished = False

    async def body(lease: Any) -> None:
        nonlocal finished
        await stage.until(lambda: lease.lost)
        finished = True

    with pytest.raises(LockLost, match="door"):
        await ann.inside(stage.fleeting(ann, "door"), body)
    assert finished, "without cancel_on_loss the body is left alone"
    await stage.until(lambda: stage.takes(ben, "door"))


@pytest.mark.core
async def test_leaving_with_by_an_error_after_a_loss_keeps_the_error(stage: Stage) -> None:
    (ann,) = stage.cast("ann")

    async def body(lease: Any) -> None:
        await stage.until(lambda: lease.lost)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as error:
        await ann.inside(stage.fleeting(ann, "door"), body)
    assert "door" in " ".join(error.value.__notes__)


@pytest.mark.core
@pytest.mark.mode("async")
async def test_a_loss_cancels_the_body_that_asked_for_it(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    seen: list[Any] = []

    async def body(lease: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append((lease.lost, lease.remaining()))
            raise

    async def story() -> None:
        lock = stage.fleeting(ann, "door", cancel_on_loss=True)
        with pytest.raises(LockLost, match="door"):
            async with lock as lease:
                await body(lease)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0, "the cancellation was ours, and is over"
        async with asyncio.timeout(10):
            await asyncio.sleep(0)

    await ann(story)
    assert seen == [(True, 0)]


@pytest.mark.core
@pytest.mark.mode("async")
async def test_a_body_that_finishes_is_not_cancelled(stage: Stage) -> None:
    (ann,) = stage.cast("ann")

    async def story() -> None:
        for _ in range(3):
            async with ann.lock("door", ttl=2 * stage.short, cancel_on_loss=True) as lease:
                assert lease.held
        await stage.passes(2.5 * stage.short)

    await ann(story)


@pytest.mark.core
@pytest.mark.mode("async")
async def test_someone_elses_cancellation_is_no_loss(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    inside = asyncio.Event()

    async def story() -> None:
        async with ann.lock("door", cancel_on_loss=True):
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(story())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stage.takes(ben, "door")


@pytest.mark.core
async def test_an_abandoned_lease_is_warned_of_and_not_renewed(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await ann(ann.lock("left alone", ttl=stage.ttl).acquire)
        ann.forgets()

        def warned() -> bool:
            gc.collect()  # again and again: her thread may have it in hand for a moment yet
            return any(w.category is ResourceWarning for w in caught)

        await stage.until(warned)
        await stage.until(lambda: stage.takes(ben, "left alone"))
    (warning,) = [w for w in caught if w.category is ResourceWarning]
    assert "left alone" in str(warning.message)


@pytest.mark.core
@pytest.mark.slow
async def test_a_lease_that_its_lock_can_release_is_not_abandoned(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.lock("door", ttl=stage.ttl)
    gc.collect()  # what others have left behind
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await ann(lock.acquire)  # as with a `threading.Lock`: what it gives is thrown away
        ann.forgets()
        gc.collect()
        await stage.passes(1.3 * stage.ttl)
        assert not await stage.takes(ben, "door")
        await ann(lock.release)
    assert await stage.takes(ben, "door")
