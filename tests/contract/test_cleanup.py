"""After close, nothing is left: no thread, task, socket, file or row."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from .stage import AT_ONCE, Leftovers, Stage

MANY = pytest.mark.parametrize("many", [200, pytest.param(1000, marks=pytest.mark.full)])


async def test_nothing_is_left_after_close(stage: Stage) -> None:
    before = Leftovers()
    client = stage.client()
    ann, ben = stage.cast("ann", "ben", client=client)
    actors = Leftovers()
    lease = await ann(ann.lock("door").acquire)
    waiting = ben.begins(ben.lock("door").acquire)
    await stage.settles(ann, "door")
    await ann(lease.release)
    held = await waiting
    assert not await stage.takes(ann, "door")
    await ann(ann.lock("gate", ttl=stage.short).acquire, timeout=AT_ONCE)
    assert [info.name for info in await ann(client.leases, prefix="d")] == ["door"]
    await stage.close(client)

    assert not Leftovers() - actors, "while others go on"
    assert not held.held
    for actor in (ann, ben):
        await actor.leaves()
    assert Leftovers() == before


@pytest.mark.turns
async def test_a_client_that_did_nothing_leaves_nothing(stage: Stage) -> None:
    before = Leftovers()
    client = stage.client()
    await stage.close(client)
    assert Leftovers() == before
    assert stage.backend.untouched()


@pytest.mark.core
async def test_a_client_as_a_context_manager(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    before = Leftovers()
    client = stage.client()
    if stage.mode == "sync":
        with client as entered:
            assert entered is client
            lease = client.lock("door").acquire()
    else:
        async with client as entered:
            assert entered is client
            lease = await client.lock("door").acquire()
    assert not lease.held
    assert not Leftovers() - before
    assert await stage.takes(ann, "door")


async def test_use_leaves_no_rows_and_no_files(stage: Stage) -> None:
    async def uses(times: int) -> list[str]:
        ann, ben = stage.cast("ann", "ben")
        for _ in range(times):
            lease = await ann(ann.lock("door").acquire)
            assert await stage.tries(ben, ben.lock("door")) is None
            assert await stage.waits_in_vain(ben, ben.lock("door"))
            await ann(lease.release)
            await ann(ann.lock("door").acquire)
            await ben(ben.client.break_lock, "door")
        await stage.close(ann.client)
        await stage.close(ben.client)
        return stage.backend.residue()

    once = await uses(1)
    assert await uses(3) == once


@MANY
async def test_many_leases_cost_no_threads(stage: Stage, many: int) -> None:
    (ann,) = stage.cast("ann")
    await ann(ann.lock("the first").acquire)
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    leases = [await ann(ann.lock(f"door {number}").acquire) for number in range(many)]
    assert threading.active_count() <= threads + 1
    assert len(asyncio.all_tasks()) <= tasks + 1
    assert all(lease.held for lease in leases)


@pytest.mark.turns
@MANY
@pytest.mark.slow
async def test_many_leases_are_renewed_in_time(stage: Stage, many: int) -> None:
    (ann,) = stage.cast("ann")
    ttl = 4 * stage.ttl
    leases = [await ann(ann.lock(f"door {number}", ttl=ttl).acquire) for number in range(many)]
    first = [end_of(lease) for lease in leases]
    await stage.until(
        lambda: all(
            end_of(lease) > end + 0.1 * ttl for lease, end in zip(leases, first, strict=True)
        ),
        ttl + AT_ONCE,
    )
    assert not [lease.name for lease in leases if lease.lost]


def end_of(lease: Any) -> float:
    return time.monotonic() + float(lease.remaining())


async def test_what_fails_leaves_nothing(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.lock("door").acquire)

    async def fails() -> Leftovers:
        assert await stage.tries(ben, ben.lock("door")) is None
        assert await stage.waits_in_vain(ben, ben.lock("door"))
        return Leftovers()

    once = await fails()  # what a client makes when it first waits, it may keep until it is closed
    for _ in range(2):
        assert not await fails() - once
    assert (await ann(ann.client.inspect, "door")).waiters in (None, 0)
    await ann(lease.release)
    assert await stage.takes(ben, "door")
