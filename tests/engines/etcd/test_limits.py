"""How long calls may take: what is over in time is left alone, and what is not is cancelled."""

import asyncio
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.drivers.common import clock
from holdfast.engines.etcd.limits import Limits
from tests.patience import wait_for

SOON, LATE = 0.01, 3600.0


def play(story: Callable[[Limits], Awaitable[None]]) -> None:
    async def begin() -> None:
        await story(Limits(clock))

    asyncio.run(begin())


def call() -> "asyncio.Future[Any]":
    """What can be cancelled, and says when it is over, as a call of gRPC does."""
    return asyncio.get_running_loop().create_future()


def test_a_call_that_takes_too_long_is_cancelled_and_no_other() -> None:
    async def story(limits: Limits) -> None:
        slow, patient, over = call(), call(), call()
        limits.set(over, clock() + SOON)
        limits.set(slow, clock() + SOON)
        limits.set(patient, clock() + LATE)
        limits.lift(over)
        await asyncio.wait([slow])
        assert slow.cancelled()
        assert not patient.done()
        assert not over.done()

    play(story)


def test_an_earlier_limit_does_not_wait_for_a_later_one() -> None:
    async def story(limits: Limits) -> None:
        patient, slow = call(), call()
        limits.set(patient, clock() + LATE)
        limits.set(slow, clock() + SOON)
        await asyncio.wait([slow])
        assert not patient.done()

    play(story)


def test_each_has_its_own() -> None:
    async def story(limits: Limits) -> None:
        calls = [call() for _ in range(3)]
        for number, each in enumerate(calls, 1):
            limits.set(each, clock() + number * SOON)
        await asyncio.wait(calls)
        later = call()
        limits.set(later, clock() + SOON)
        await asyncio.wait([later])
        assert all(each.cancelled() for each in [*calls, later])

    play(story)


def test_a_busy_loop_has_one_more_look() -> None:
    """What came in while nobody listened has come in time."""

    async def story(limits: Limits) -> None:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here, there:
            reply = call()
            loop.add_reader(here, lambda: loop.call_soon(_answer, loop, here, reply))
            until = clock() + SOON
            limits.set(reply, until)
            there.send(b"yes")
            wait_for(lambda: clock() > until)  # the loop stands still meanwhile
            await asyncio.wait([reply])
            assert not reply.cancelled()

    play(story)


def _answer(
    loop: asyncio.AbstractEventLoop, here: socket.socket, reply: "asyncio.Future[Any]"
) -> None:
    loop.remove_reader(here)
    if not reply.done():
        reply.set_result(here.recv(10))


def test_one_that_is_stopped_can_begin_again() -> None:
    async def story(limits: Limits) -> None:
        gone, slow = call(), call()
        limits.set(gone, clock() + SOON / 2)
        limits.stop()
        limits.set(slow, clock() + SOON)
        await asyncio.wait([slow])
        assert not gone.done()

    play(story)


def test_a_call_that_is_over_is_not_kept() -> None:
    """Its connection could not be closed while anybody has it."""

    async def story(limits: Limits) -> None:
        late = call()
        limits.set(late, clock())
        limits._go_off()
        limits.lift(late)
        kept = weakref.ref(late)
        del late
        assert kept() is None

    play(story)


def test_what_is_asked_after_the_machine_has_slept_has_its_limit() -> None:
    """A timer does not notice that it did."""
    slept = 0.0

    async def story() -> None:
        nonlocal slept
        limits = Limits(lambda: clock() + slept)
        before, after = call(), call()
        limits.set(before, limits.clock() + LATE)
        slept = 2 * LATE
        limits.set(after, limits.clock() + SOON)
        await asyncio.wait([after], timeout=10)
        assert after.cancelled()
        limits.stop()

    asyncio.run(story())
