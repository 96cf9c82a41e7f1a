"""Used as what people already know: a decorator, and a `threading.Lock`."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest

from holdfast import AcquireTimeout

from .actors import Actor
from .stage import A_WHILE, Stage

pytestmark = pytest.mark.core


async def test_a_decorated_function_runs_locked(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def nightly(number: int, *, factor: int = 2) -> int:
        """What it does."""
        assert not await stage.takes(ben, "nightly")
        return number * factor

    decorated = ann.lock("nightly")(ann.function(nightly))
    assert decorated.__name__ == "nightly"
    assert decorated.__doc__ == "What it does."
    assert inspect.iscoroutinefunction(decorated) == (stage.mode == "async")
    assert stage.backend.untouched(), "decorating asks nothing"
    assert await ann(decorated, 7) == 14
    assert await ann(decorated, 7, factor=3) == 21
    assert await stage.takes(ben, "nightly")


async def test_a_decorated_function_does_not_run_unlocked(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    runs: list[int] = []

    async def nightly() -> None:
        runs.append(1)

    decorated = ann.lock("nightly", timeout=A_WHILE)(ann.function(nightly))
    lease = await ben(ben.lock("nightly").acquire)
    with pytest.raises(AcquireTimeout, match="nightly"):
        await ann(decorated)
    assert not runs
    await ben(lease.release)
    await ann(decorated)
    assert runs


async def test_a_decorated_function_that_raises_releases(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def nightly() -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        await ann(ann.lock("nightly")(ann.function(nightly)))
    assert await stage.takes(ben, "nightly")


async def test_a_decorated_function_is_called_by_many(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    lock = ann.lock("nightly")
    busy = False

    async def nightly() -> None:
        nonlocal busy
        assert not busy
        busy = True
        await stage.passes(0.001)
        busy = False

    async def calls(actor: Actor) -> None:
        decorated = lock(actor.function(nightly))
        for _ in range(5):
            await actor(decorated)

    await asyncio.gather(calls(ann), calls(ben))


async def test_code_written_for_a_plain_lock(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = ann.lock("door")

    assert await ann(lock.acquire)
    assert await ann(lock.locked)
    await ann(lock.release)
    assert await ann(lock.acquire, True)
    await ann(lock.release)
    assert await ann(lock.acquire, True, 5)
    assert not await stage.tries(ann, lock)
    assert not await ann(lock.acquire, True, A_WHILE)
    await ann(lock.release)
    assert await ann(lock.acquire, timeout=-1)
    await ann(lock.release)
    assert not await ann(lock.locked)
    with pytest.raises(RuntimeError):  # as a `threading.Lock` does
        await ann(lock.release)


@pytest.mark.mode("sync")
async def test_a_condition_on_it(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben", client=stage.client())
    condition = threading.Condition(ann.lock("door"))
    letters: list[str] = []
    looked = threading.Event()

    def any_letters() -> bool:
        looked.set()
        return bool(letters)

    def wait_for_post() -> str:
        with condition:
            assert condition.wait_for(any_letters, timeout=10)
            return letters.pop()

    def post(letter: Any) -> None:
        with condition:
            letters.append(letter)
            condition.notify()

    waiting = ann.begins(wait_for_post)
    await stage.until(looked.is_set)  # she has it, and lets go of it only to wait
    await ben(post, "a letter")
    assert await waiting == "a letter"
    assert await stage.takes(ann, "door"), "who left it, left it free"
