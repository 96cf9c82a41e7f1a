"""An engine that does not answer: it is taken neither for a held lock nor for a free one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from holdfast import EngineUnavailable, LockError, LockLost

from .actors import Actor
from .stage import AT_ONCE, Stage

pytestmark = pytest.mark.needs("outage")


@pytest.mark.slow
async def test_trying_once_says_that_nobody_answered(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    await stage.takes(ann, "door")
    with stage.backend.outage():
        for once in ({"blocking": False}, {"timeout": 0}):
            with pytest.raises(EngineUnavailable) as error:
                await asyncio.wait_for(
                    ann(ann.lock("door", ttl=stage.ttl).acquire, **once), AT_ONCE
                )
            assert isinstance(error.value, ConnectionError)
        with pytest.raises(EngineUnavailable):  # his first request ever
            await asyncio.wait_for(
                ben(ben.lock("door", ttl=stage.ttl).acquire, blocking=False), AT_ONCE
            )
    assert await stage.takes(ann, "door"), "a request that came too late took the lock"
    assert await stage.takes(ben, "door")


@pytest.mark.slow
async def test_blocking_with_a_timeout_tries_until_then(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await stage.takes(ann, "door")
    with stage.backend.outage():
        began = time.monotonic()
        with pytest.raises(EngineUnavailable):
            await ann(ann.lock("door", ttl=stage.ttl).acquire, timeout=0.4)
        assert time.monotonic() - began >= 0.4
        with pytest.raises(EngineUnavailable):
            await ann.inside(ann.lock("door", ttl=stage.ttl, timeout=0.1), _never)
    assert await stage.takes(ann, "door")


@pytest.mark.slow
async def test_blocking_without_a_timeout_gives_up_after_a_ttl(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await stage.takes(ann, "door")
    with stage.backend.outage():
        began = time.monotonic()
        with pytest.raises(EngineUnavailable):
            await asyncio.wait_for(
                ann(ann.lock("door", ttl=stage.ttl).acquire), stage.ttl + AT_ONCE
            )
        assert time.monotonic() - began >= stage.ttl
    assert await stage.takes(ann, "door")


async def test_an_outage_that_passes_is_waited_out(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await stage.takes(ann, "door")
    with stage.backend.outage():
        waiting = ann.begins(ann.lock("door", ttl=stage.long).acquire, timeout=30)
        await stage.passes(0.3)
        assert not waiting.done()
    assert (await asyncio.wait_for(waiting, AT_ONCE)).held


@pytest.mark.mode("async")
async def test_other_tasks_run_while_nobody_answers(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await stage.takes(ann, "door")
    turns = 0
    with stage.backend.outage():
        waiting = ann.begins(ann.lock("door", ttl=stage.ttl).acquire, timeout=0.5)
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0.01)
        with pytest.raises(EngineUnavailable):
            await waiting
    assert turns > 5, "the loop stood still"


@pytest.mark.slow
async def test_a_lease_outlives_a_passing_outage(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    told: list[Any] = []
    ttl = 2 * stage.ttl
    lease = await ann(ann.lock("door", ttl=ttl).acquire)
    lease.on_lost(told.append)
    with stage.backend.outage():
        await stage.until(
            lambda: lease.remaining() < 0.5 * ttl, ttl + AT_ONCE
        )  # a renewal has failed
        assert lease.held
    await stage.until(lambda: lease.remaining() > 0.7 * ttl)
    assert not told
    await ann(lease.release)
    assert await stage.takes(ben, "door")


@pytest.mark.slow
async def test_a_lease_is_lost_at_its_deadline_in_a_lasting_outage(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    told: list[Any] = []
    lease = await ann(ann.lock("door", ttl=stage.ttl).acquire)
    ends = time.monotonic() + lease.remaining()
    lease.on_lost(lambda lost: told.append((time.monotonic(), lost.lost, lost.remaining())))
    with stage.backend.outage():
        await stage.until(lambda: told, stage.ttl + AT_ONCE)
        instant, *facts = told[0]
        assert facts == [True, 0]
        assert instant >= ends, "given up before its time"
        with pytest.raises(LockLost):
            await ann(lease.release)
    await stage.until(lambda: stage.takes(ben, "door"), stage.ttl + AT_ONCE)
    assert len(told) == 1


@pytest.mark.slow
async def test_a_release_that_nobody_answers_ends_with_the_ttl(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door", ttl=stage.ttl).acquire)
    with stage.backend.outage():
        with pytest.raises(LockError):
            await asyncio.wait_for(ann(lease.release), stage.ttl + AT_ONCE)
        assert not lease.held
    await stage.until(lambda: stage.takes(ben, "door"), stage.ttl + AT_ONCE)


@pytest.mark.slow
async def test_asking_about_a_lock_that_nobody_answers_for(stage: Stage) -> None:
    """The engine may still know; if not, it says so. It never invents a free lock."""
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)

    async def look(actor: Actor) -> None:
        try:
            info = await asyncio.wait_for(actor(actor.client.inspect, "door"), AT_ONCE)
        except EngineUnavailable:
            return
        assert info is not None
        assert info.holder == lease.holder

    with stage.backend.outage():
        await asyncio.gather(look(ann), look(ben))  # one is connected, the other is not


@pytest.mark.slow
async def test_closing_while_nobody_answers_does_not_hang(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door", ttl=stage.ttl).acquire)
    await stage.takes(ben, "gate")
    with stage.backend.outage():
        waiting = ben.begins(ben.lock("gate", ttl=stage.ttl).acquire, timeout=60)
        await stage.close(ann.client)
        await stage.close(ben.client)
        assert not lease.held
        await asyncio.wait({waiting}, timeout=AT_ONCE)
        with pytest.raises(LockError):
            waiting.result()
    cleo = stage.actor("cleo")
    await stage.until(lambda: stage.takes(cleo, "door"), stage.ttl + AT_ONCE)


async def _never(lease: Any) -> None:
    raise AssertionError("the body ran without the lock")
