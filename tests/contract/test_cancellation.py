"""Cancellation at every suspension, early and late, once and twice: nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from holdfast import EngineUnavailable

from .actors import Actor
from .stage import Leftovers, Stage
from .steps import Cut, cut_everywhere, cut_short, cut_short_around

pytestmark = pytest.mark.mode("async")

ONCE = pytest.param(None, id="once")
LATER = pytest.param(2, id="twice, later", marks=pytest.mark.full)
AGAIN = pytest.mark.parametrize("again", [ONCE, pytest.param(1, id="twice"), LATER])
LESS_AGAIN = pytest.mark.parametrize(
    "again", [ONCE, pytest.param(1, id="twice", marks=pytest.mark.full), LATER]
)
"""Of scenarios that clean up as others do."""


async def has_all_that_waiting_takes(stage: Stage, lock: Any) -> None:
    """A client that has waited for a lock keeps what it needs for that."""

    async def has_it() -> bool:
        before = Leftovers()
        try:
            assert await lock.acquire(timeout=1.0) is None
        except EngineUnavailable:  # a busy machine: perhaps it did not even begin to wait
            return False
        return not Leftovers().more_than(before)

    await stage.until(has_it)


@asynccontextmanager
async def nothing_left(cut: Cut) -> AsyncIterator[None]:
    """A client may keep what it has; an attempt that was cut short may add nothing to it."""
    before = Leftovers()
    yield
    after = Leftovers()
    await after.let_tasks_end(before)
    left = after - before
    assert not left, f"{cut} left behind: {left}"


async def assert_free(stage: Stage, watcher: Actor, name: str, cut: Cut) -> None:
    """At once; when the cleanup was cancelled too, when that is done, long before any expiry."""

    async def is_free() -> bool:
        if not await stage.takes(watcher, name):
            return False
        return await watcher(watcher.client.inspect, name) is None

    if cut.again is not None:  # what was cancelled may still reach the engine
        await stage.until(is_free)
    else:
        assert await is_free(), f"{cut} left the lock taken"


async def warm(stage: Stage, *actors: Actor) -> None:
    """Each has connected, waited, held and extended: what a client keeps until it is closed is
    there."""
    other = stage.client()
    lease = await other.lock("warm").acquire()
    for actor in actors:
        with suppress(EngineUnavailable):  # by so short a deadline, which may cost connections
            await actor(actor.lock("warm").acquire, timeout=0.01)
        crowd = (actor.client.lock(f"warm {n}").acquire() for n in range(20))
        for one in await asyncio.gather(*crowd):  # as many at once as it can ask
            await one.extend()
            await one.release()
    await lease.release()
    await other.aclose()


@AGAIN
async def test_acquiring_a_free_lock(stage: Stage, again: int | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    await warm(stage, ann, ben)

    async def attempt(cut: Cut) -> bool:
        lock = ann.lock("door", ttl=stage.long)
        async with nothing_left(cut):
            if not await cut_short(lock.acquire(), cut):
                await lock.release()
                return False
            await assert_free(stage, ben, "door", cut)
        return True

    await cut_everywhere(attempt, again)


@LESS_AGAIN
async def test_acquiring_a_first_time(stage: Stage, again: int | None) -> None:
    """With a client that has not connected yet, and does so under the cancellation."""
    (ben,) = stage.cast("ben")
    await warm(stage, ben)

    async def attempt(cut: Cut) -> bool:
        client = stage.client()
        lock = client.lock("door", ttl=stage.long)
        async with nothing_left(cut):
            reached = await cut_short(lock.acquire(), cut)
            if reached:
                await assert_free(stage, ben, "door", cut)
            await stage.close(client)
        return reached

    await cut_everywhere(attempt, again)


@AGAIN
async def test_acquiring_a_held_lock(stage: Stage, again: int | None) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    await warm(stage, ann, ben, cleo)

    async def waits_in_vain() -> None:
        with suppress(EngineUnavailable):  # by so short a deadline
            assert await ben.lock("door", ttl=stage.long).acquire(timeout=0.1) is None

    held = await ann(ann.lock("door").acquire)
    await has_all_that_waiting_takes(stage, ben.lock("door", ttl=stage.long))
    await ann(held.release)

    async def attempt(cut: Cut) -> bool:
        lease = await ann(ann.lock("door").acquire)
        async with nothing_left(cut):
            reached = await cut_short(waits_in_vain(), cut)
            if reached:
                await stage.until(lambda: nobody_waits(cleo, "door"))
        await ann(lease.release)
        await assert_free(stage, cleo, "door", cut)
        return reached

    await cut_everywhere(attempt, again)


async def nobody_waits(watcher: Actor, name: str) -> bool:
    return (await watcher(watcher.client.inspect, name)).waiters in (None, 0)


@AGAIN
async def test_acquiring_a_lock_while_it_is_released(stage: Stage, again: int | None) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    await warm(stage, ann, ben, cleo)

    async def attempt(cut: Cut) -> bool:
        lease = await ann(ann.lock("door").acquire)
        lock = ben.lock("door", ttl=stage.long)
        reached = await cut_short_around(lock.acquire(), cut, lambda: ann(lease.release))
        if not reached:
            await lock.release()
        await assert_free(stage, cleo, "door", cut)
        return reached

    await cut_everywhere(attempt, again)


@AGAIN
async def test_releasing(stage: Stage, again: int | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    await warm(stage, ann, ben)

    async def attempt(cut: Cut) -> bool:
        lease = await ann.lock("door", ttl=stage.long).acquire()
        async with nothing_left(cut):
            reached = await cut_short(lease.release(), cut)
            assert not lease.held
            assert not lease.lost
            await assert_free(stage, ben, "door", cut)
        return reached

    await cut_everywhere(attempt, again)


@LESS_AGAIN
async def test_extending(stage: Stage, again: int | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    await warm(stage, ann, ben)

    async def attempt(cut: Cut) -> bool:
        lease = await ann.lock("door", ttl=stage.long).acquire()
        async with nothing_left(cut):
            reached = await cut_short(lease.extend(), cut)
            info = await ben(ben.client.inspect, "door")
            assert info.holder == lease.holder
            assert lease.held
            assert lease.remaining() <= info.remaining
        await lease.extend()
        await lease.release()
        assert await stage.takes(ben, "door")
        return reached

    await cut_everywhere(attempt, again)


@LESS_AGAIN
async def test_a_whole_section(stage: Stage, again: int | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    await warm(stage, ann, ben)

    async def attempt(cut: Cut) -> bool:
        leases: list[Any] = []

        async def section() -> None:
            async with ann.lock("door", ttl=stage.long) as lease:
                assert lease.held
                leases.append(lease)
                await asyncio.sleep(0)

        async with nothing_left(cut):
            reached = await cut_short(section(), cut)
            assert not any(lease.held or lease.lost for lease in leases)
            await assert_free(stage, ben, "door", cut)
        return reached

    cuts = await cut_everywhere(attempt, again)
    assert cuts >= 2, "the section itself waits once"


@LESS_AGAIN
async def test_asking_about_locks(stage: Stage, again: int | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ben(ben.lock("door").acquire)
    await warm(stage, ann, ben)

    async def everything() -> None:
        await ann.client.inspect("door")
        await ann.lock("door").locked()
        assert [info.name async for info in ann.client.leases()] == ["door"]

    await everything()  # now there is a connection to whatever may be asked

    async def attempt(cut: Cut) -> bool:
        async with nothing_left(cut):
            reached = await cut_short(everything(), cut)
            assert (await ann.client.inspect("door")).holder == lease.holder
        return reached

    await cut_everywhere(attempt, again)


@AGAIN
async def test_closing(stage: Stage, again: int | None) -> None:
    (ben,) = stage.cast("ben")
    await warm(stage, ben)

    async def attempt(cut: Cut) -> bool:
        client = stage.client()
        async with nothing_left(cut):
            lease = await client.lock("door", ttl=stage.long).acquire()
            reached = await cut_short(client.aclose(), cut)
            await client.aclose()
            assert not lease.held
            await assert_free(stage, ben, "door", cut)
        return reached

    await cut_everywhere(attempt, again)
