"""Readers and holders of slots that are cancelled, killed, stopped or cut off: what they had is
free again, and what others have is not touched."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast import EngineUnavailable

from .actors import Actor
from .stage import AT_ONCE, Stage
from .steps import Cut, cut_everywhere, cut_short, cut_short_around
from .test_cancellation import (
    LESS_AGAIN,
    assert_free,
    has_all_that_waiting_takes,
    nobody_waits,
    nothing_left,
    warm,
)
from .test_processes import goes_on_and_learns_of_its_loss

ASYNC = pytest.mark.mode("async")
PROCESSES = pytest.mark.needs("processes")

pytestmark = [pytest.mark.needs("shares"), pytest.mark.slow]

BOTH_KINDS = pytest.mark.parametrize("shares", [0, 2], ids=["reader", "semaphore"])
KINDS = pytest.mark.parametrize(
    "shares",
    [0, pytest.param(2, marks=pytest.mark.full)],
    ids=["reader", "semaphore"],
)


def share(stage: Stage, actor: Actor, shares: int, **options: Any) -> Any:
    """A reader's lock, or a semaphore."""
    if shares and "slots" in stage.engine.cannot:
        pytest.skip(stage.engine.cannot["slots"])
    options = {"ttl": stage.long, **options}
    if shares:
        return actor.client.semaphore("door", shares, **options)
    return actor.client.rwlock("door", **options).read


async def holders(watcher: Actor) -> set[str]:
    info = await watcher(watcher.client.inspect, "door")
    return {member.holder for member in info.members} if info else set()


async def assert_alone(stage: Stage, watcher: Actor, lease: Any, shares: int, cut: Cut) -> None:
    """Nothing is there but this lease: what the other one asked for is free, and has no queue."""

    async def is_alone() -> bool:
        other = await stage.tries(watcher, share(stage, watcher, shares))
        if not other:
            return False
        await watcher(other.release)
        return await holders(watcher) == {lease.holder} and await nobody_waits(watcher, "door")

    if cut.again is not None:  # what was cancelled may still reach the engine
        await stage.until(is_alone)
    else:
        assert await is_alone(), f"{cut} left a share taken"


@ASYNC
@LESS_AGAIN
@BOTH_KINDS
async def test_cancelled_while_it_joins_another(
    stage: Stage, shares: int, again: int | None
) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lock = share(stage, ann, shares)
    await warm(stage, ann, ben, cleo)
    other = await ben(share(stage, ben, shares).acquire)

    async def attempt(cut: Cut) -> bool:
        async with nothing_left(cut):
            if not await cut_short(lock.acquire(), cut):
                await lock.release()
                return False
            await assert_alone(stage, cleo, other, shares, cut)
        return True

    await cut_everywhere(attempt, again)
    assert other.held
    await ben(other.release)
    assert await stage.takes(cleo, "door")


@ASYNC
@LESS_AGAIN
@KINDS
async def test_cancelled_while_it_is_the_first(
    stage: Stage, shares: int, again: int | None
) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = share(stage, ann, shares)
    await warm(stage, ann, ben)

    async def attempt(cut: Cut) -> bool:
        async with nothing_left(cut):
            if not await cut_short(lock.acquire(), cut):
                await lock.release()
                return False
            await assert_free(stage, ben, "door", cut)
        return True

    await cut_everywhere(attempt, again)


async def fills(stage: Stage, actor: Actor, shares: int) -> list[Any]:
    """Leases that leave no room for one more."""
    if not shares:
        return [await actor(actor.client.rwlock("door", ttl=stage.long).write.acquire)]
    return [await actor(share(stage, actor, shares).acquire) for _ in range(shares)]


@ASYNC
@LESS_AGAIN
@KINDS
async def test_cancelled_while_it_waits(stage: Stage, shares: int, again: int | None) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lock = share(stage, ben, shares)
    await warm(stage, ann, ben, cleo)
    leases = await fills(stage, ann, shares)

    async def waits_in_vain() -> None:
        with suppress(EngineUnavailable):  # by so short a deadline
            assert await lock.acquire(timeout=0.1) is None

    await has_all_that_waiting_takes(stage, lock)
    expected = {lease.holder for lease in leases}

    async def attempt(cut: Cut) -> bool:
        async with nothing_left(cut):
            reached = await cut_short(waits_in_vain(), cut)
            if reached:
                await stage.until(lambda: nobody_waits(cleo, "door"))
                assert await holders(cleo) == expected
        return reached

    await cut_everywhere(attempt, again)
    for lease in leases:
        await ann(lease.release)
    assert await stage.takes(cleo, "door")


@ASYNC
@LESS_AGAIN
@BOTH_KINDS
async def test_cancelled_while_its_turn_comes(stage: Stage, shares: int, again: int | None) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lock = share(stage, ben, shares)
    await warm(stage, ann, ben, cleo)

    async def attempt(cut: Cut) -> bool:
        first, *others = await fills(stage, ann, shares)
        reached = await cut_short_around(lock.acquire(), cut, lambda: ann(first.release))
        if not reached:
            await lock.release()
        for other in others:
            await assert_alone(stage, cleo, other, shares, cut)
            await ann(other.release)
        await assert_free(stage, cleo, "door", cut)
        return reached

    await cut_everywhere(attempt, again)


@ASYNC
@LESS_AGAIN
@KINDS
async def test_cancelled_while_it_releases(stage: Stage, shares: int, again: int | None) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    lock = share(stage, ann, shares)
    await warm(stage, ann, ben, cleo)
    other = await ben(share(stage, ben, shares).acquire)

    async def attempt(cut: Cut) -> bool:
        lease = await lock.acquire()
        async with nothing_left(cut):
            reached = await cut_short(lease.release(), cut)
            assert not lease.held
            assert not lease.lost
            await assert_alone(stage, cleo, other, shares, cut)
        return reached

    await cut_everywhere(attempt, again)
    await ben(other.release)
    assert await stage.takes(cleo, "door")


@PROCESSES
@KINDS
async def test_killed_it_has_its_share_for_its_ttl(stage: Stage, shares: int) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    alive = await ben(share(stage, ben, shares).acquire)
    worker = await stage.worker()
    theirs = await worker("acquire", name="door", shares=shares, ttl=stage.ttl)
    await stage.passes(1.2 * stage.ttl)
    assert await holders(ann) == {alive.holder, theirs["holder"]}, "it is renewed while it lives"
    await worker.kill()

    async def is_gone() -> bool:
        return await holders(ann) == {alive.holder}

    await stage.until(is_gone, stage.ttl + AT_ONCE)
    assert alive.held
    lease = await cleo(share(stage, cleo, shares).acquire, timeout=AT_ONCE)
    assert lease
    await cleo(lease.release)
    await ben(alive.release)
    write = await stage.tries(cleo, cleo.lock("door", ttl=stage.long))
    assert write
    assert write.fence > theirs["fence"]


@PROCESSES
@KINDS
async def test_killed_it_keeps_a_waiter_out_for_its_ttl(stage: Stage, shares: int) -> None:
    """A writer that waits, which was told to look when the last share ends."""
    ann, cleo = stage.cast("ann", "cleo")
    share(stage, ann, shares)
    worker = await stage.worker()
    theirs = await worker("acquire", name="door", shares=shares, ttl=stage.ttl)
    waiting = cleo.begins(cleo.lock("door", ttl=stage.long).acquire, timeout=6 * AT_ONCE)
    await stage.settles(ann, "door")
    await worker.kill()
    lease = await asyncio.wait_for(waiting, stage.ttl + AT_ONCE)
    assert lease.fence > theirs["fence"]


@PROCESSES
@KINDS
async def test_stopped_it_finds_its_share_lost(stage: Stage, shares: int) -> None:
    ann, ben = stage.cast("ann", "ben")
    share(stage, ann, shares)
    worker = await stage.worker()
    theirs = await worker("acquire", name="door", shares=shares, ttl=stage.ttl)
    worker.stop()
    lease = await ann(ann.lock("door", ttl=stage.long).acquire, timeout=stage.ttl + 2 * AT_ONCE)
    assert lease
    assert lease.fence > theirs["fence"]
    await goes_on_and_learns_of_its_loss(stage, worker)
    assert lease.held
    assert await holders(ben) == {lease.holder}
    assert await stage.tries(ben, share(stage, ben, shares)) is None


@PROCESSES
@KINDS
async def test_stopped_in_the_queue_it_is_passed_over_after_a_crash(
    stage: Stage, shares: int
) -> None:
    """The holder was killed, and a writer waits behind the one that would share the lock."""
    ann = stage.actor("ann")
    share(stage, ann, shares)
    holder, first = await stage.worker(), await stage.worker()
    theirs = await holder("acquire", name="door", ttl=stage.ttl)
    first.begins("acquire", name="door", shares=shares, ttl=stage.ttl)
    await stage.settles(ann, "door")
    first.stop()
    await holder.kill()
    timeout = 2 * stage.ttl + 2 * AT_ONCE
    lease = await ann(ann.lock("door", ttl=stage.long).acquire, timeout=timeout)
    assert lease
    assert lease.fence > theirs["fence"]


@pytest.mark.needs("outage")
@KINDS
async def test_a_share_that_was_asked_for_in_vain_is_not_taken(stage: Stage, shares: int) -> None:
    """The server executes the request when it goes on, and its answer reaches no one."""
    ann, ben = stage.cast("ann", "ben")
    lock = share(stage, ann, shares, ttl=stage.ttl)
    held = await ben(share(stage, ben, shares).acquire)
    await ann((await stage.tries(ann, lock)).release)
    with stage.backend.outage(), pytest.raises(EngineUnavailable):
        await asyncio.wait_for(ann(lock.acquire, blocking=False), AT_ONCE)

    async def is_alone() -> bool:
        return await holders(ben) == {held.holder}

    await stage.until(is_alone, stage.ttl / 2)
    lease = await stage.tries(ann, lock)
    assert lease
    await ann(lease.release)
    await ben(held.release)
    assert await stage.takes(ann, "door")
