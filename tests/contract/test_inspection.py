"""Looking at locks from outside, and breaking them."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from holdfast import LockLost

from .actors import Actor
from .stage import Stage


@pytest.mark.turns
async def test_nothing_to_see(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    assert await ann(ann.client.inspect, "door") is None
    assert await ann(ann.client.leases) == []
    lease = await ann(ann.lock("door").acquire)
    await ann(lease.release)
    assert await ann(ann.client.inspect, "door") is None
    assert await ann(ann.client.leases) == []


@pytest.mark.turns
async def test_a_held_lock_from_outside(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door", ttl=stage.long).acquire)
    info = await ben(ben.client.inspect, "door")

    assert (info.name, info.holder, info.fence) == ("door", lease.holder, lease.fence)
    assert 0 < lease.remaining() <= info.remaining <= stage.long
    assert info.waiters in (None, 0)
    assert info.label is not None
    assert info.label.pid == os.getpid()
    assert info.label.host == socket.gethostname()
    assert isinstance(info.label.program, str)
    assert info.label.program
    with pytest.raises(AttributeError):
        info.fence = 7


@pytest.mark.turns
async def test_looking_does_not_disturb(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(stage.fleeting(ann, "door").acquire)
    while not lease.lost:
        await ben(ben.client.inspect, "door")
        await ben(ben.client.leases)
    await stage.until(lambda: stage.takes(ben, "door"))


@pytest.mark.turns
async def test_an_expired_lease_is_not_shown(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(stage.fleeting(ann, "door").acquire)
    await stage.until(lambda: lease.lost)

    async def gone() -> bool:
        return await ben(ben.client.inspect, "door") is None

    await stage.until(gone)
    assert await ben(ben.client.leases) == []
    assert not await ben(ben.lock("door").locked)


@pytest.mark.turns
async def test_waiters_are_counted_where_the_engine_knows(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lease = await ann(ann.lock("door").acquire)
    waiting = [actor.begins(actor.lock("door").acquire) for actor in (ben, cleo)]
    await stage.settles(ann, "door", waiters=2)
    assert (await ann(ann.client.inspect, "door")).waiters in (None, 2)
    await ann(lease.release)
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    (first,) = done
    assert (await ann(ann.client.inspect, "door")).waiters in (None, 1)
    await ann(first.result().release)
    await asyncio.gather(*waiting)
    await stage.until(lambda: _no_waiters(ann))


async def _no_waiters(watcher: Actor) -> bool:
    return (await watcher(watcher.client.inspect, "door")).waiters in (None, 0)


@pytest.mark.turns
async def test_listing_what_is_held(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    leases = {}
    for name in ("job:1", "job:2", "other"):
        leases[name] = await ann(ann.lock(name).acquire)

    listed = {info.name: info for info in await ben(ben.client.leases)}
    assert set(listed) == set(leases)
    for name, info in listed.items():
        assert (info.holder, info.fence) == (leases[name].holder, leases[name].fence)
    assert {info.name for info in await ben(ben.client.leases, prefix="job:")} == {"job:1", "job:2"}
    assert await ben(ben.client.leases, prefix="none") == []


@pytest.mark.turns
async def test_listing_more_than_a_page(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    names = [f"job:{number}" for number in range(300)]
    for name in names:
        assert await ann(ann.lock(name).acquire)
    assert sorted(info.name for info in await ben(ben.client.leases)) == sorted(names)


async def test_breaking_a_lock(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    assert not await ben(ben.client.break_lock, "door"), "it was free"
    lease = await ann(ann.lock("door").acquire)
    assert await ben(ben.client.break_lock, "door")
    assert not await ben(ben.client.break_lock, "door")
    given = await stage.tries(cleo, cleo.lock("door"))
    assert given.fence > lease.fence


async def test_breaking_a_lock_wakes_who_waits(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lease = await ann(ann.lock("door").acquire)
    waiting = cleo.begins(cleo.lock("door").acquire)
    await stage.settles(ann, "door")
    assert await ben(ben.client.break_lock, "door")
    given = await asyncio.wait_for(waiting, 10)
    assert given.fence > lease.fence


async def test_breaking_by_holder_leaves_the_next_one_alone(stage: Stage) -> None:
    """An operator may be late: the lock has changed hands in this very moment."""
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    first = await ann(ann.lock("door").acquire)
    waiting = cleo.begins(cleo.lock("door").acquire)
    await stage.settles(ann, "door")
    for other in ("another", "nul\0inside", "no text: \udcff"):
        assert not await ben(ben.client.break_lock, "door", other)
    await ann(first.extend)
    assert await ben(ben.client.break_lock, "door", first.holder)
    second = await asyncio.wait_for(waiting, 10)
    assert not await ben(ben.client.break_lock, "door", first.holder)
    await cleo(second.extend)
    info = await ben(ben.client.inspect, "door")
    assert (info.holder, info.fence) == (second.holder, second.fence)
    with pytest.raises(LockLost):
        await ann(first.extend)
    assert await ben(ben.client.break_lock, "door", second.holder)
    assert await ben(ben.client.inspect, "door") is None


@pytest.mark.turns
@pytest.mark.needs("processes")
async def test_another_processs_lease_carries_its_label(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    worker = await stage.worker()
    theirs = await worker("acquire", name="door")
    info = await ann(ann.client.inspect, "door")
    assert (info.holder, info.fence) == (theirs["holder"], theirs["fence"])
    assert info.label.pid == worker.pid
    assert "worker" in info.label.program


@pytest.mark.turns
async def test_the_guarantees_are_stated(stage: Stage) -> None:
    promised = stage.client().guarantees
    assert promised.suits in ("efficiency", "correctness")
    with pytest.raises(AttributeError):
        promised.min_ttl = 0
