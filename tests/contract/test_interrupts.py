"""Ctrl-C in a process that waits for a lock, once and twice."""

from __future__ import annotations

import asyncio
import sys

import pytest

from .actors import Actor
from .killable import Worker, environment
from .stage import AT_ONCE, Stage

pytestmark = [pytest.mark.needs("processes"), pytest.mark.slow]


async def interrupted(stage: Stage, worker: Worker) -> None:
    """A sync worker lives on, to betray what it still holds; an asyncio one ends by it."""
    if stage.mode == "sync":
        # It may have come just before the worker began to read its next command: Python sees that
        # when there is something to read.
        worker.begins("hello")
        try:
            await stage.until(lambda: worker.said("interrupted"))
        except AssertionError:
            # Python ignores what a signal handler raises in a `__del__`, and PyMySQL has one.
            worker.interrupt()
            await stage.until(lambda: worker.said("interrupted"))
        return
    ending = asyncio.ensure_future(worker.gone())
    for _ in range(5):  # a second Ctrl-C may have taken the next step of asyncio's own loop with it
        if (await asyncio.wait([ending], timeout=AT_ONCE / 5))[0]:
            break
        worker.interrupt()
    assert await asyncio.wait_for(ending, AT_ONCE) != 0


@pytest.mark.parametrize(
    "pause",
    [
        pytest.param(None, id="once"),
        pytest.param(0, id="twice", marks=pytest.mark.full),
        pytest.param(0.001, id="1 ms"),
        pytest.param(0.005, id="5 ms", marks=pytest.mark.full),
    ],
)
async def test_interrupting_a_waiter(stage: Stage, pause: float | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    worker = await stage.worker()
    lease = await ann(ann.lock("door").acquire)
    worker.begins("acquire", name="door", ttl=stage.ttl)
    await stage.asked(worker)
    await stage.settles(ann, "door")
    worker.interrupt()
    if pause is not None:
        await asyncio.sleep(pause)
        if worker.alive:
            worker.interrupt()
    await interrupted(stage, worker)
    if pause is None or stage.mode == "sync":
        await nobody_waits(stage, ben, "door")
    await ann(lease.release)
    # An asyncio program that is interrupted twice ends at once: its place in the queue, too.
    await stage.until(lambda: stage.takes(ben, "door"), stage.ttl + AT_ONCE)


async def nobody_waits(stage: Stage, watcher: Actor, name: str) -> None:
    async def is_quiet() -> bool:
        return (await watcher(watcher.client.inspect, name)).waiters in (None, 0)

    await stage.until(is_quiet)


@pytest.mark.mode("sync")
@pytest.mark.parametrize(
    "step", [pytest.param(7, marks=pytest.mark.full, id="many"), pytest.param(41, id="few")]
)
async def test_an_interruption_anywhere_leaves_the_client_usable(stage: Stage, step: int) -> None:
    """And the lock: it is free for all, at once or after its ttl."""
    arguments = (stage.backend.url, str(step), str(stage.short))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"{__package__}.interrupted", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    assert all(int(lines) > 200 for lines in said.split()), "lines"
    assert len(said.split()) == 3, "situations"


@pytest.mark.mode("sync")
async def test_an_interrupted_waiter_can_wait_again(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    worker = await stage.worker()
    lease = await ann(ann.lock("door").acquire)
    worker.begins("acquire", name="door")
    await stage.asked(worker)
    await stage.settles(ann, "door")
    worker.interrupt()
    await interrupted(stage, worker)
    waiting = worker.begins("acquire", name="door")
    await stage.asked(worker, times=2)
    await ann(lease.release)
    assert (await asyncio.wait_for(waiting, AT_ONCE))["fence"] > lease.fence


@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.full)])
async def test_an_interrupt_that_races_with_the_release(stage: Stage, rounds: int) -> None:
    """The waiter gets the lock or the interrupt first, or both; in the end it is free."""
    ann, ben = stage.cast("ann", "ben")
    for round_ in range(rounds):
        worker = await stage.worker()
        lease = await ann(ann.lock("door").acquire)
        answer = worker.begins("acquire", name="door", ttl=stage.ttl)
        await stage.asked(worker)
        await stage.settles(ann, "door")
        releasing = ann.begins(lease.release)
        await asyncio.sleep(0.0005 * round_)
        worker.interrupt()
        await releasing
        await interrupted(stage, worker)
        if worker.alive:  # it may have come when the acquire was over: then the lease was kept
            await worker("release" if answer.done() else "drop")
        # Between the two the lease has no owner, and ends with its ttl: it must not be renewed.
        await stage.until(lambda: stage.takes(ben, "door"), stage.ttl + AT_ONCE)
        await worker.ends()
