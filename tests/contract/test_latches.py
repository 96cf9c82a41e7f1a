"""Latches: open when enough participants have counted down, each once."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any

import pytest

from holdfast import ClientClosed

from .stage import A_WHILE, AT_ONCE, Stage
from .steps import Cut, cut_everywhere, cut_short
from .test_cancellation import nothing_left, warm

pytestmark = [pytest.mark.needs("cells"), pytest.mark.turns]


async def test_it_opens_with_the_last_participant_and_stays_open(stage: Stage) -> None:
    ann, ben, eve = stage.cast("ann", "ben", "eve")
    latch = eve.client.latch("ready", 2, retry=0.02)
    assert stage.backend.untouched()
    assert (latch.name, latch.count) == ("ready", 2)
    assert not await eve(latch.wait, 0)
    assert not await eve(latch.wait, A_WHILE)
    assert await ann(ann.client.latch("ready", 2).count_down, "ann") == 1
    waiting = eve.begins(latch.wait)
    assert await ben(ben.client.latch("ready", 2).count_down, "ben") == 0
    assert await asyncio.wait_for(waiting, AT_ONCE)
    assert await eve(latch.arrived) == ["ann", "ben"]
    assert await ann(ann.client.latch("ready", 2).count_down, "one more") == 0
    assert await ann(ann.client.latch("ready", 2).wait)


async def test_a_participant_that_restarts_counts_once(stage: Stage) -> None:
    """With a client of its own, as in another process: by its label, else by its host."""
    for options, name in (({"label": "shard 1"}, "shard 1"), ({}, socket.gethostname())):
        for _ in range(2):
            ann = stage.actor("ann", stage.client(**options))
            assert await ann(ann.client.latch(name, 2).count_down) == 1
        assert len(await ann(ann.client.latch(name, 2).arrived)) == 1
        assert not await ann(ann.client.latch(name, 2).wait, 0)
    assert await ann(ann.client.latch("shard 1", 1).arrived) == ["shard 1"]


async def test_many_at_once_are_all_counted(stage: Stage) -> None:
    crowd = stage.cast(*(f"actor {number}" for number in range(6)))
    await asyncio.gather(
        *(
            each(each.client.latch("ready", 12).count_down, f"{each.name}{n}")
            for each in crowd
            for n in "ab"
        )
    )
    assert await crowd[0](crowd[0].client.latch("ready", 12).wait, 0)


@pytest.mark.core
async def test_each_waits_for_its_own_count(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    assert await ann(ann.client.latch("ready", 1).count_down, "ann") == 0
    assert not await ann(ann.client.latch("ready", 2).wait, 0)


@pytest.mark.needs("restart")
async def test_it_outlives_a_restart_of_the_store(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await ann(ann.client.latch("ready", 2).count_down, "ann")
    await stage.close(ann.client)
    stage.backend.restart()
    (ben,) = stage.cast("ben")
    assert await ben(ben.client.latch("ready", 2).count_down, "ben") == 0


@pytest.mark.core
async def test_a_cell_that_holds_something_else(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    latch = ann.client.latch("ready", 1)
    for content in ("hello", b"\xff", "7", "[1]", "{}"):
        await ann(ann.client.cell("latch:ready").update, lambda value, to=content: to)
        for call in (latch.arrived, latch.wait, partial(latch.count_down, "ann")):
            with pytest.raises(ValueError, match="latch:ready"):
                await ann(call)


@pytest.mark.core
async def test_bad_arguments_are_refused(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    for count in (0, -1, 1.0, True, "2", None):
        with pytest.raises((ValueError, TypeError), match="count"):
            ann.client.latch("ready", count)
    with pytest.raises(ValueError, match="name"):
        ann.client.latch("x" * 510, 1)
    latch = ann.client.latch("ready", 1)
    for participant in ("", 7, "a\0", "x" * 513):
        with pytest.raises((ValueError, TypeError), match="participant"):
            await ann(latch.count_down, participant)
    with pytest.raises(ValueError, match="timeout"):
        await ann(latch.wait, -2)
    assert stage.backend.untouched()


@pytest.mark.core
async def test_a_closed_client_ends_the_wait(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    latch = ann.client.latch("ready", 1)
    waiting = ann.begins(latch.wait)
    await stage.passes(A_WHILE)
    await stage.close(ann.client)
    with pytest.raises(ClientClosed):
        await asyncio.wait_for(waiting, AT_ONCE)
    for call in (latch.wait, latch.arrived, partial(latch.count_down, "ann")):
        with pytest.raises(ClientClosed):
            await ann(call)


@pytest.mark.core
@pytest.mark.mode("async")
async def test_cancelled_anywhere(stage: Stage) -> None:
    """It was counted or was not; and the next call counts it, once."""
    ann, ben = stage.cast("ann", "ben")
    await warm(stage, ann, ben)
    for each in range(20):  # a connection to every server that a name may lead to
        await ann(ann.client.latch(f"warm {each}", 1).count_down, "ann")
    number = 0

    async def attempt(cut: Cut) -> bool:
        nonlocal number
        number += 1
        latch: Any = ann.client.latch(f"ready {number}", 2)
        async with nothing_left(cut):
            reached = await cut_short(latch.count_down("ann"), cut)
        assert await latch.count_down("ann") == 1
        return reached

    await cut_everywhere(attempt, None)
