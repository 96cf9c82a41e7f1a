"""Holders and waiters in other processes, that are killed, stopped and forked."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any

import pytest

from .killable import Worker, environment
from .stage import A_WHILE, AT_ONCE, Stage

SHARED = pytest.mark.needs("processes")

CARELESS = """
import asyncio, holdfast, sys

async def main():
    global client, lease
    client = holdfast.AsyncClient(sys.argv[2])
    lease = await client.lock("door").acquire()

if sys.argv[1] == "async":
    asyncio.run(main())
else:
    client = holdfast.Client(sys.argv[2])
    lease = client.lock("door").acquire()
"""
"""A program that never closes what it opened, and has it until the interpreter shuts down."""


@SHARED
async def test_another_process_excludes_and_is_excluded(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    worker = await stage.worker()
    theirs = await worker("acquire", name="door")
    assert theirs["fence"]
    assert not await stage.takes(ann, "door")
    await worker("release")

    lease = await stage.tries(ann, ann.lock("door"))
    assert lease.fence > theirs["fence"]
    assert (await worker("acquire", name="door", ask={"timeout": A_WHILE}))["fence"] is None


@SHARED
async def test_a_release_wakes_a_waiter_in_another_process(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    worker = await stage.worker()
    lease = await ann(ann.lock("door").acquire)
    waiting = worker.begins("acquire", name="door")
    await stage.asked(worker)
    await stage.settles(ann, "door")
    await ann(lease.release)
    theirs = await asyncio.wait_for(waiting, 10)
    assert theirs["fence"] > lease.fence

    again = ann.begins(ann.lock("door").acquire)
    await stage.settles(ben, "door")
    await worker("release")
    assert (await asyncio.wait_for(again, 10)).fence > theirs["fence"]


@SHARED
async def test_processes_that_come_and_go_leave_the_others_whole(stage: Stage) -> None:
    """Some engines live in the processes that use them: the last to leave must be the last."""
    ann, ben = stage.cast("ann", "ben")
    first = await ann(ann.lock("door").acquire)
    await stage.takes(ben, "gate")  # a second client of this process, connected after the first
    for _ in range(2):
        passer_by = await stage.worker()
        await passer_by("fences", name="gate", times=1)
        await passer_by("close")
        await passer_by.ends()
    second = await stage.tries(ann, ann.lock("gate"))
    await ann(first.release)

    worker = await stage.worker()
    await worker("fences", name="window", times=1)  # connected, from here on
    assert (await worker("acquire", name="gate", ask={"timeout": A_WHILE}))["fence"] is None
    theirs = await worker("acquire", name="door", ask={"timeout": AT_ONCE})
    assert theirs["fence"] > first.fence
    assert second.held
    assert not await stage.takes(ben, "door")


@SHARED
@pytest.mark.slow
async def test_a_killed_holder_frees_the_name_within_its_ttl(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    worker = await stage.worker()
    theirs = await worker("acquire", name="door", ttl=stage.ttl)
    await stage.passes(1.2 * stage.ttl)
    assert not await stage.takes(ann, "door"), "it is renewed while the process lives"
    await worker.kill()
    info = await ann(ann.client.inspect, "door")
    assert info is None or info.remaining <= stage.ttl, "it blocks others for its ttl at most"
    lease = await ann(ann.lock("door").acquire, timeout=stage.ttl + 10)
    assert lease
    assert lease.fence > theirs["fence"]


@SHARED
async def test_a_killed_waiter_blocks_nobody(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    worker = await stage.worker()
    lease = await ann(ann.lock("door").acquire)
    worker.begins("acquire", name="door", ttl=stage.long)
    await stage.asked(worker)
    await stage.settles(ann, "door")
    waiting = ben.begins(ben.lock("door").acquire)
    await stage.settles(ann, "door", waiters=2)
    await worker.kill()
    await ann(lease.release)
    assert await asyncio.wait_for(waiting, 10), "the lock went to a dead waiter"


@SHARED
@pytest.mark.slow
async def test_a_stopped_waiter_blocks_nobody_for_longer_than_its_ttl(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    worker = await stage.worker()
    lease = await ann(ann.lock("door").acquire)
    theirs = worker.begins("acquire", name="door", ttl=stage.ttl)
    await stage.asked(worker)
    await stage.settles(ann, "door")
    worker.stop()
    await ann(lease.release)
    given = await ben(ben.lock("door").acquire, timeout=stage.ttl + 10)
    assert given
    worker.go_on()
    await stage.passes(stage.ttl / 2)
    assert given.held, "it wakes up as a waiter"
    assert not theirs.done()
    await ben(given.release)
    assert (await asyncio.wait_for(theirs, 10))["fence"] > given.fence


async def goes_on_and_learns_of_its_loss(stage: Stage, worker: Worker) -> None:
    worker.go_on()
    state = await worker("state")
    assert (state["held"], state["lost"], state["remaining"]) == (False, True, 0)
    await stage.until(lambda: worker.said("lost"))
    for command in ("release", "extend"):
        assert (await worker(command))["error"] == "LockLost"


@SHARED
@pytest.mark.slow
async def test_a_stopped_holder_finds_its_lease_lost(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    worker = await stage.worker()
    theirs = await worker("acquire", name="door", ttl=stage.ttl)
    worker.stop()
    lease = await ann(ann.lock("door").acquire, timeout=stage.ttl + 10)
    assert lease
    assert lease.fence > theirs["fence"]
    await goes_on_and_learns_of_its_loss(stage, worker)
    assert lease.held
    assert not await stage.takes(ben, "door")
    await stage.passes(stage.short)
    assert len(worker.said("lost")) == 1
    assert lease.held


@SHARED
@pytest.mark.slow
async def test_a_death_at_any_moment_frees_the_name(stage: Stage) -> None:
    """Killed while it takes and releases without end: the store stays whole."""
    (ann,) = stage.cast("ann")
    fences = []
    for moment in range(6):
        worker = await stage.worker()
        worker.begins("fences", name="door", times=1_000_000, ttl=stage.short)
        await stage.passes(0.01 * moment)
        await worker.kill()
        lease = await ann(ann.lock("door").acquire, timeout=stage.short + 10)
        assert lease
        fences.append(lease.fence)
        await ann(lease.release)
    assert sorted(set(fences)) == fences


@pytest.mark.turns
@SHARED
async def test_a_program_that_closes_nothing_ends_without_a_word(stage: Stage) -> None:
    command = (sys.executable, "-P", "-c", CARELESS, stage.mode, stage.backend.url)
    program = await asyncio.create_subprocess_exec(*command, stderr=PIPE, env=environment())
    try:
        _, said = await asyncio.wait_for(program.communicate(), 5 * AT_ONCE)
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    assert (program.returncode, said.decode()) == (0, "")


def assert_child_leaves_it_alone(report: dict[str, Any]) -> None:
    assert report["before"] == [False, False], "neither held nor lost: it is the parent's"
    assert report["after"] == [False, False]
    assert report["release"] == "NotHeld"
    assert report["told"] == 0


@pytest.mark.slow
async def test_a_forked_child_leaves_the_lease_alone(stage: Stage) -> None:
    worker = await stage.worker()
    await worker("acquire", name="door", ttl=stage.ttl)
    report = await worker("fork", wait=1.2 * stage.ttl)

    assert_child_leaves_it_alone(report)
    state = await worker("state")
    assert (state["held"], state["lost"]) == (True, False), "the parent went on renewing"
    assert not worker.said("lost")
    assert "error" not in await worker("release")


@SHARED
async def test_a_forked_child_is_shut_out_and_has_locks_of_its_own(stage: Stage) -> None:
    ann = stage.actor("ann")
    worker = await stage.worker("sync")
    await worker("acquire", name="door")
    report = await worker("fork", wait=0)

    assert_child_leaves_it_alone(report)
    assert report["own"], "an inherited client works"
    assert not report["same"], "the parent's lock is held against the child too"
    assert not await stage.takes(ann, "door")
    assert await stage.takes(ann, "the child's own")
    await worker("release")
    assert await stage.takes(ann, "door")
