"""Fencing tokens: every grant's is greater than those of all earlier grants of the name."""

from __future__ import annotations

import itertools

import pytest

from .stage import Stage


def rising(fences: list[int]) -> bool:
    return all(earlier < later for earlier, later in itertools.pairwise(fences))


@pytest.mark.parametrize("grants", [50, pytest.param(1000, marks=pytest.mark.full)])
async def test_fences_rise_over_many_grants(stage: Stage, grants: int) -> None:
    ann, ben = stage.cast("ann", "ben")
    fences = []
    for actor, _ in zip(itertools.cycle((ann, ann, ben)), range(grants), strict=False):
        lease = await actor(actor.lock("door").acquire)
        fences.append(lease.fence)
        await actor(lease.release)
    assert len(fences) == grants
    assert rising(fences)


async def test_fences_rise_however_a_lease_ends(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    broken = await ann(ann.lock("door").acquire)
    assert await ben(ben.client.break_lock, "door")
    expired = await ann(stage.fleeting(ann, "door").acquire)
    released = await ben(ben.lock("door").acquire)
    await ben(released.release)
    closed = await ann(ann.lock("door").acquire)
    await stage.close(ann.client)
    last = await ben(ben.lock("door").acquire)
    assert rising([lease.fence for lease in (broken, expired, released, closed, last)])


async def test_fences_rise_over_clients_that_come_and_go(stage: Stage) -> None:
    fences = []
    for number in range(5):
        actor = stage.actor(f"actor {number}")
        lease = await actor(actor.lock("door").acquire)
        fences.append(lease.fence)
        await stage.close(actor.client)
    assert rising(fences)


async def test_a_failed_try_takes_no_fence_back(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)
    for _ in range(5):
        assert not await stage.takes(ben, "door")
    await ann(lease.extend)
    assert (await ben(ben.client.inspect, "door")).fence == lease.fence
    await ann(lease.release)
    later = await ben(ben.lock("door").acquire)
    assert later.fence > lease.fence


@pytest.mark.needs("restart")
async def test_fences_rise_over_a_restart(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    fences = []
    for _ in range(3):
        lease = await ann(ann.lock("door").acquire)
        fences.append(lease.fence)
        await ann(lease.release)
    held = await ann(ann.lock("gate").acquire)
    await stage.close(ann.client)
    stage.backend.restart()

    (ben,) = stage.cast("ben")
    for _ in range(3):
        lease = await ben(ben.lock("door").acquire)
        fences.append(lease.fence)
        await ben(lease.release)
    assert rising(fences)
    assert (await ben(ben.lock("gate").acquire)).fence > held.fence


@pytest.mark.mode("sync")  # the processes have both
@pytest.mark.needs("processes")
async def test_fences_rise_over_processes(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    one, other = await stage.worker("sync"), await stage.worker("async")
    fences: list[int] = []
    for _ in range(3):
        for worker in (one, other):
            fences += (await worker("fences", name="door", times=10))["fences"]
        lease = await ann(ann.lock("door").acquire)
        fences.append(lease.fence)
        await ann(lease.release)
    assert len(fences) == 63
    assert rising(fences)
