"""A lock that goes from hand to hand, among waiters in processes of their own.

Each waiter takes the lock, holds it for a moment, releases it and queues up again at once, from
one given instant to another. So there are always as many who wait, but for the one who has it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple

import holdfast
from benchmarks.contenders import TTL
from benchmarks.measure import worth_counting
from benchmarks.workers import Lock, Worker
from holdfast.drivers.common import clock

PROCESSES = 10
MOMENT = 0.002
SETTLE, SETTLE_EACH = 0.1, 0.01
"""Seconds in which all have queued up, when they have begun; and for each of them."""


class Hold(NamedTuple):
    """From when until when a waiter had the lock."""

    since: float
    until: float


class Span(NamedTuple):
    """From when until when they are to go on."""

    begin: float
    end: float


Run = Callable[["Connection[Any, Any]", str, int], None]
"""Opens locks at a URL for that many waiters, reports that it is ready, gets a `Span`, and sends
the `Hold`s."""


def run_relay(pipe: "Connection[Any, Any]", url: str) -> None:
    """What a process does: whatever it is told to run."""
    while True:
        run, waiters = pipe.recv()
        run(pipe, url, waiters)


def threads(pipe: "Connection[Any, Any]", url: str, waiters: int) -> None:
    """holdfast, a thread for each waiter, and one client for all of them."""
    with holdfast.Client(url, ttl=TTL) as client:
        pass_on_in_threads(pipe, [client.lock("relay")] * waiters)


def tasks(pipe: "Connection[Any, Any]", url: str, waiters: int) -> None:
    """holdfast, a task for each waiter, and one client for all of them."""
    asyncio.run(_pass_on_in_tasks(pipe, url, waiters))


def pass_on_in_threads(pipe: "Connection[Any, Any]", locks: Sequence[Lock]) -> None:
    for lock in {*locks}:
        lock.acquire()  # so that it is connected
        lock.release()
    holds: list[Hold] = []
    pipe.send("ready")
    span: Span = pipe.recv()
    waiters = [threading.Thread(target=_pass_on, args=(lock, span, holds)) for lock in locks]
    for waiter in waiters:
        waiter.start()
    for waiter in waiters:
        waiter.join()
    pipe.send(holds)


def _pass_on(lock: Lock, span: Span, holds: list[Hold]) -> None:
    time.sleep(max(0.0, span.begin - clock()))
    while clock() < span.end:
        lock.acquire()
        since = clock()
        time.sleep(MOMENT)
        holds.append(Hold(since, clock()))
        lock.release()


async def _pass_on_in_tasks(pipe: "Connection[Any, Any]", url: str, waiters: int) -> None:
    async with holdfast.AsyncClient(url, ttl=TTL) as client:
        lock = client.lock("relay")
        async with lock:
            pass
        holds: list[Hold] = []
        pipe.send("ready")
        span: Span = await asyncio.to_thread(pipe.recv)
        await asyncio.gather(*(_pass_on_as_task(lock, span, holds) for _ in range(waiters)))
        pipe.send(holds)


async def _pass_on_as_task(lock: holdfast.AsyncLock, span: Span, holds: list[Hold]) -> None:
    await asyncio.sleep(max(0.0, span.begin - clock()))
    while clock() < span.end:
        lease = await lock.acquire()
        assert lease
        since = clock()
        await asyncio.sleep(MOMENT)
        holds.append(Hold(since, clock()))
        await lease.release()


class Result(NamedTuple):
    """What happened while all waited."""

    holds: list[Hold]
    counted: int

    @property
    def gap(self) -> float:
        """Seconds from just before a release until the next one had the lock; the median."""
        return median(after.since - before.until for before, after in pairwise(self.holds))


class Relay:
    """Processes that pass a lock on; each has a part of the waiters."""

    def __init__(self, url: str, most: int, stack: ExitStack) -> None:
        self._workers = [
            stack.enter_context(Worker(run_relay, url)) for _ in range(min(PROCESSES, most))
        ]

    def run(
        self, run: Run, waiters: int, seconds: float, count: Callable[[], int] = lambda: 0
    ) -> Result:
        """Have that many pass the lock on for that long; and see by how much a count goes up."""
        relayed = partial(self._run, run, waiters, seconds, count)
        return worth_counting(relayed, lambda result: len(result.holds))

    def _run(self, run: Run, waiters: int, seconds: float, count: Callable[[], int]) -> Result:
        some, more = divmod(waiters, len(self._workers))
        team = self._workers if some else self._workers[:more]
        for number, worker in enumerate(team):
            worker.tell((run, some + (number < more)))
        for worker in team:
            worker.answer()
        settle = SETTLE + SETTLE_EACH * waiters
        span = Span(clock(), clock() + settle + seconds)
        for worker in team:
            worker.tell(span)
        time.sleep(settle)
        began, before = clock(), count()
        time.sleep(max(0.0, span.end - clock()))
        ended, after = clock(), count()
        holds = sorted(hold for worker in team for hold in worker.answer())
        return Result([hold for hold in holds if began <= hold.since < ended], after - before)
