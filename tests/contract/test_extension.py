"""Living longer: extending, renewal and its end."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast import LockLost

from .stage import Stage
from .steps import watched


async def test_extending_gives_more_time(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    ttl = 2 * stage.short
    lease = await ann(stage.fleeting(ann, "door", ttl=ttl).acquire)
    await ann(lease.extend, ttl=stage.long)

    assert ttl < lease.remaining() < stage.long
    info = await ben(ben.client.inspect, "door")
    assert info.remaining > ttl
    assert lease.remaining() <= info.remaining, "the holder never believes in more time than it has"
    assert info.fence == lease.fence
    assert info.holder == lease.holder
    await stage.passes(1.2 * ttl)
    assert lease.held
    assert not await stage.takes(ben, "door")


@pytest.mark.turns
async def test_extending_starts_the_same_ttl_afresh(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.lock("door", ttl=stage.long, renew=False).acquire)
    before = lease.remaining()
    await stage.until(lambda: lease.remaining() < before - 0.05)
    shrunk = lease.remaining()
    await ann(lease.extend)
    assert lease.remaining() > shrunk


async def test_extending_never_shortens(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door", ttl=stage.long, renew=False).acquire)
    await ann(lease.extend, ttl=stage.short)

    assert (await ben(ben.client.inspect, "door")).remaining > stage.short
    assert lease.remaining() > stage.short
    await stage.passes(1.5 * stage.short)
    assert lease.held
    assert not lease.lost
    assert not await stage.takes(ben, "door")
    await ann(lease.release)


async def test_extending_never_resurrects(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(stage.fleeting(ann, "door").acquire)
    await stage.until(lambda: lease.lost)

    with pytest.raises(LockLost, match="door"):
        await ann(lease.extend, ttl=stage.long)
    assert lease.lost
    assert not lease.held
    assert lease.remaining() == 0
    await stage.until(lambda: stage.takes(ben, "door"))

    others = await ben(ben.lock("door").acquire)
    with pytest.raises(LockLost):
        await ann(lease.extend, ttl=stage.long)
    assert others.held
    assert (await ann(ann.client.inspect, "door")).holder == others.holder


@pytest.mark.slow
async def test_a_lease_is_renewed_while_its_holder_lives(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    leases = [
        await ann(ann.lock(name, ttl=stage.ttl).acquire) for name in ("door", "gate", "hatch")
    ]
    lasting_until = time.monotonic() + 1.2 * stage.ttl
    while time.monotonic() < lasting_until:
        for lease in leases:
            assert not await stage.takes(ben, lease.name)
        await stage.passes(stage.ttl / 10)
    for lease in leases:
        lease.ensure_held()
        await ann(lease.release)
        assert await stage.takes(ben, lease.name)


@pytest.mark.turns
async def test_a_released_lease_is_not_renewed(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door", ttl=2 * stage.short).acquire)
    await ann(lease.release)
    others = await ben(stage.fleeting(ben, "door").acquire)
    await stage.until(lambda: others.lost)
    await stage.until(lambda: stage.takes(ben, "door"))


@pytest.mark.turns
@pytest.mark.slow
async def test_max_hold_ends_the_renewal(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    told: list[float] = []
    began = time.monotonic()
    lease = await ann(ann.lock("door", ttl=stage.ttl, max_hold=1.5 * stage.ttl).acquire)
    lease.on_lost(lambda _: told.append(time.monotonic()))

    others = await ben(ben.lock("door").acquire, timeout=3 * stage.ttl + 10)
    assert lease.lost
    assert others.fence > lease.fence
    await stage.until(lambda: told)
    assert told[0] - began > 1.2 * stage.ttl, "until then it was renewed"


@pytest.mark.core
@pytest.mark.slow
async def test_max_hold_is_no_loss_for_who_leaves_in_time(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def body(lease: Any) -> None:
        assert lease.held

    await ann.inside(ann.lock("door", ttl=stage.ttl, max_hold=2 * stage.ttl), body)
    assert await stage.takes(ben, "door")


@pytest.mark.turns
@pytest.mark.mode("async")
async def test_a_pause_between_question_and_answer_costs_the_holder(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    pause = 0.2
    paused = False
    await stage.takes(ann, "door")  # connected from here on

    def stand_still(number: int, awaits: Any) -> None:
        nonlocal paused
        if number == 0:  # the request has left, and its answer comes to no one
            paused = True
            time.sleep(pause)

    lock = ann.lock("door", ttl=stage.long, renew=False)
    lease = await ann(lambda: watched(lock.acquire(), stand_still))
    if paused:  # an engine may ask and have its answer in one go
        assert lease.remaining() < stage.long - pause
    await ann(lambda: watched(lease.extend(), stand_still))
    if paused:
        assert lease.remaining() < stage.long - pause


@pytest.mark.mode("async")
async def test_an_extension_that_is_answered_too_late_is_a_loss(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    paused = False
    await stage.takes(ann, "door")
    lease = await ann(stage.fleeting(ann, "door").acquire)

    def stand_still(number: int, awaits: Any) -> None:
        nonlocal paused
        if number == 0:  # the request has left; the engine may well grant it
            paused = True
            time.sleep(1.2 * stage.short)

    try:
        await ann(lambda: watched(lease.extend(ttl=stage.long), stand_still))
    except LockLost:
        assert lease.lost
    else:  # an engine may ask and have its answer in one go
        assert not paused, "what has passed is lost, whatever a late answer says"
        return
    with pytest.raises(LockLost):
        await ann(lease.release)
    await stage.until(lambda: stage.takes(ben, "door"))
