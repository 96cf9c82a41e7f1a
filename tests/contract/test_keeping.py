"""`min_hold`: a lock that is kept for a while; `label`: what is shown of its holder."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast import LockLost

from .stage import Stage

pytestmark = pytest.mark.core

LONG = 600.0
"""Longer than any scenario: what waits for it has to be ended by something else."""


async def test_a_release_waits_and_is_then_carried_out(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("nightly", min_hold=0.3).acquire)
    await ann(lease.release)
    assert not lease.held
    assert not lease.lost
    assert await stage.takes(ben, "nightly")


async def test_it_is_held_and_renewed_meanwhile(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.lock("nightly", ttl=stage.ttl, min_hold=LONG)
    lease = await ann(lock.acquire)
    releasing = ann.begins(lease.release)
    await stage.passes(1.2 * stage.ttl)  # it would have ended by now
    assert lease.held
    assert not releasing.done()
    assert not await stage.takes(ben, "nightly")
    await ben(ben.client.break_lock, "nightly")
    with pytest.raises(LockLost):
        await asyncio.wait_for(releasing, 30)


async def test_leaving_a_block_waits_too(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    left = asyncio.Event()

    async def body(lease: Any) -> None:
        left.set()

    leaving = asyncio.ensure_future(ann.inside(ann.lock("nightly", min_hold=LONG), body))
    await left.wait()
    assert not await stage.takes(ben, "nightly")
    await stage.close(ann.client)
    with suppress(LockLost):  # or it was released just before
        await asyncio.wait_for(leaving, 30)
    await stage.until(lambda: stage.takes(ben, "nightly"))


@pytest.mark.mode("async")
async def test_a_cancelled_release_is_carried_out_at_once(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("nightly", min_hold=LONG).acquire)
    releasing = asyncio.create_task(lease.release())
    await asyncio.sleep(0)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    assert not lease.held
    await stage.until(lambda: stage.takes(ben, "nightly"))


async def test_only_the_last_release_of_a_reentrant_lock_waits(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = ann.lock("nightly", min_hold=LONG, reentrant=True)
    lease = await ann(lock.acquire)
    await ann(lock.acquire)
    await asyncio.wait_for(ann(lock.release), 30)
    assert lease.held


@pytest.mark.parametrize(
    "options",
    [{"min_hold": -1.0}, {"min_hold": float("inf")}, {"min_hold": 9.0, "max_hold": 8.0}],
)
async def test_an_impossible_min_hold_is_refused(stage: Stage, options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="min_hold"):
        stage.client().lock("nightly", **options)


async def test_one_that_is_not_renewed_cannot_be_kept_for_longer(stage: Stage) -> None:
    with pytest.raises(ValueError, match="not renewed"):
        stage.client().lock("nightly", ttl=stage.short, renew=False, min_hold=LONG)


async def test_a_label_is_shown(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client(label="blue fleet"))
    text = "grün/1 + #2 %20"
    await ann(ann.lock("door").acquire)
    await ann(ann.lock("yard", label=text).acquire)
    await ann(ann.lock("attic", label="").acquire)
    await ann(ann.client.lock_all(["hall"], label="several").acquire)
    shown = {info.name: info.label.text for info in await ben(ben.client.leases)}
    assert shown == {"attic": "", "door": "blue fleet", "hall": "several", "yard": text}
    info = await ben(ben.client.inspect, "yard")
    assert info.label.text == text
    assert info.label.pid


async def test_a_long_label_is_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="label: must have at most 100 bytes"):
        stage.client().lock("door", label="ü" * 17)
    with pytest.raises(TypeError, match="label"):
        stage.client(label=7)
