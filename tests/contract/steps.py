"""Driving a coroutine step by step: acting at, and cancelling in, any of its suspensions.

A cancellation has two moments at each suspension. *Early*: what the task waits for has not
happened, and is cancelled. *Late*: it has just happened, but the task has not run since, and never
hears of it.
"""

from __future__ import annotations

import asyncio
import itertools
import types
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

MOST_SUSPENSIONS = 200


@types.coroutine
def watched(
    awaitable: Awaitable[Any], suspended: Callable[[int, Any], None]
) -> Generator[Any, Any, Any]:
    """Awaits something; at suspension n, from 0, calls `suspended` with n and what it waits for."""
    step = awaitable.__await__()
    go_on: Callable[[Any], Any] = step.send
    value: Any = None
    for number in itertools.count():
        try:
            awaits = go_on(value)
        except StopIteration as done:
            return done.value
        suspended(number, awaits)
        try:
            value = yield awaits
            go_on = step.send
        except BaseException as error:
            value = error
            go_on = step.throw


@dataclass(frozen=True)
class Cut:
    """Where to cancel: at suspension `at`, and once more `again` suspensions later."""

    at: int
    late: bool
    again: int | None = None

    def falls_on(self, number: int) -> bool:
        return number == self.at or (self.again is not None and number == self.at + self.again)


async def cut_short(
    awaitable: Awaitable[Any], cut: Cut, suspended: Callable[[int], None] = lambda number: None
) -> bool:
    """Runs something in a task of its own and cancels it. False: it was over before that."""
    reached = False

    def act(number: int, awaits: Any) -> None:
        nonlocal reached
        suspended(number)
        if cut.falls_on(number):
            reached = True
            if cut.late and awaits is not None:
                # Before the task's own callback: it is told of the cancellation first.
                awaits.add_done_callback(lambda _: task.cancel())
            else:
                task.cancel()

    async def run() -> Any:
        return await watched(awaitable, act)

    task = asyncio.create_task(run())
    await asyncio.wait({task})
    if reached:
        assert task.cancelled(), f"{cut}: the cancellation was swallowed, and gave {task!r}"
    else:
        task.result()
    return reached


async def cut_short_around(
    awaitable: Awaitable[Any], cut: Cut, release: Callable[[], Awaitable[object]]
) -> bool:
    """The same; what it waits for is released around the suspension that is cut."""
    settled = asyncio.Event()
    suspensions = 0

    def suspended(number: int) -> None:
        nonlocal suspensions
        suspensions = number + 1
        if number >= cut.at - 1:
            settled.set()

    async def release_then() -> None:
        last = -1
        while not settled.is_set() and last != suspensions:  # or it waits, and goes no further
            last = suspensions
            await asyncio.sleep(0.02)
        await release()

    releasing = asyncio.create_task(release_then())
    reached = await cut_short(awaitable, cut, suspended)
    settled.set()
    await releasing
    return reached


async def cut_everywhere(
    attempt: Callable[[Cut], Awaitable[bool]], again: int | None = None
) -> int:
    """Makes an attempt for every cut, early and late, until one runs through; counts the others."""
    cuts = 0
    for late in (False, True):
        for at in range(MOST_SUSPENSIONS):
            if not await attempt(Cut(at, late, again)):
                break
            cuts += 1
        else:
            raise AssertionError(f"more than {MOST_SUSPENSIONS} suspensions")
    return cuts
