"""Asyncio over a store that blocks: worker threads ask.

A cancelled `ask` may still be carried out. What is asked next about the same holder (a release,
say) waits until it is over, so that it does not overtake it.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from holdfast.core.messages import Acquire, Answer, Extend, Failed, Release, Request
from holdfast.core.ports import Clock, Store

GRACE = 0.05
"""How much later than the worker the task gives up, so that it gets the worker's reason."""

ENDS_EVERY = 0.001
"""How often closing looks whether the workers have ended."""

WORKERS = 32
"""How many ask at most, for a store that does not limit it itself."""

EXTENDERS = 4
"""How many extend leases at most: a renewal does not wait for an `extend()` that hangs."""


class Offloaded:
    """An `AsyncStore` made of a blocking one."""

    def __init__(
        self,
        store: Store,
        name: str,
        clock: Clock,
        workers: int = 1,
        ask_now: Callable[[Sequence[Request]], Sequence[Answer] | None] | None = None,
    ) -> None:
        """`ask_now`: asks without waiting for anything, so that the event loop may call it; gives
        None where that is not possible. (A thread takes longer than a statement of SQLite.)"""
        self._store, self._name, self._clock, self._most = store, name, clock, workers
        self._ask_now = ask_now
        self._begin()

    def _begin(self) -> None:
        self._workers = Workers(self._most, f"holdfast-{self._name}")
        self._extenders = Workers(EXTENDERS, f"holdfast-{self._name}-extender")
        """Extensions do not queue behind what waits for a server that hangs."""
        self._asking: dict[str, Job] = {}
        """By holder id: what is being asked, and may make a lock or end it."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer at once where that is possible, else have a worker ask."""
        holders = [each.holder for each in requests if isinstance(each, (Acquire, Release))]
        if self._ask_now is not None and holders and self._asking.keys().isdisjoint(holders):
            await asyncio.sleep(0)  # let other tasks run
            answers = self._ask_now(requests)
            if answers is not None:
                return answers
        for before in [self._asking[each] for each in holders if each in self._asking]:
            if not await before.wait(until - self._clock()):
                return self._failed(requests, "an earlier request of this holder is pending")
        job = Job(self._store.ask, requests, until)
        workers = self._extenders if isinstance(requests[0], Extend) else self._workers
        if not workers.submit(job.run, job.report):
            return self._failed(requests, "no thread can be started to ask it")
        for holder in holders:
            self._asking[holder] = job
        job.over.add_done_callback(lambda _: self._asked(holders, job))
        try:
            is_over = await job.wait(until - self._clock() + GRACE)
        finally:
            job.is_wanted = False  # if no worker has begun yet
        return job.result() if is_over else self._failed(requests, "did not answer in time")

    async def close(self) -> None:
        """Have a worker close the store, then end the workers."""
        job = Job(self._store.close)
        if self._workers.submit(job.run, job.report):
            await job.wait()
        else:
            job.run()
        ending = self._workers, self._extenders
        self._begin()  # so that it can be called again, if it is cancelled here
        for workers in ending:
            workers.end()
        for workers in ending:
            while workers.is_running():  # noqa: ASYNC110 - to wait for a thread needs another one
                await asyncio.sleep(ENDS_EVERY)
        job.result()

    def abandon(self) -> None:
        """Have a worker close the store, and do not wait for it. What is asked after that, in
        another loop, has workers of its own."""
        if not self._workers.submit(self._store.close, lambda: None):
            self._store.close()
        for workers in (self._workers, self._extenders):
            workers.end()
        self._begin()

    def forget(self) -> None:
        """In a forked child: the workers are the parent's."""
        self._store.forget()
        self._begin()

    def _failed(self, requests: Sequence[Request], why: str) -> Sequence[Answer]:
        return [Failed.at(self._name, why)] * len(requests)

    def _asked(self, holders: Sequence[str], job: "Job") -> None:
        for holder in holders:
            if self._asking.get(holder) is job:
                del self._asking[holder]


class Job:
    """A function that a worker calls for a task of the running loop."""

    __slots__ = ("_call", "_error", "_loop", "_result", "is_wanted", "over")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = function, arguments
        self._result: Any = None
        self._error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self.is_wanted = True
        self.over: asyncio.Future[None] = self._loop.create_future()

    def run(self) -> None:
        """In the worker: call the function, unless the task has given up."""
        function, arguments = self._call
        try:
            if self.is_wanted:
                self._result = function(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised where the result is wanted
            self._error = error

    def report(self) -> None:
        """In the worker, when it is free again: have the task woken."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.over.set_result, None)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over; False if that takes longer. A task that is cancelled here does not
        end it."""
        await asyncio.wait((self.over,), timeout=seconds)
        return self.over.done()

    def result(self) -> Any:
        """What the function returned, or raised."""
        if self._error is not None:
            raise self._error
        return self._result


class Workers:
    """Threads that are started when they are needed. (The pool of `concurrent.futures` starts one
    although another is just done: a worker is free there a moment after its result is known.)"""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._jobs: SimpleQueue[tuple[Callable[[], None], Callable[[], None]] | None]
        self._jobs = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._spare = 0
        """Workers that are free, less the jobs that wait for one."""
        self._mutex = threading.Lock()

    def submit(self, run: Callable[[], None], report: Callable[[], None]) -> bool:
        """Have a worker call the one, then, when it counts as free again, the other. False if there
        is no worker, because no thread can be started."""
        with self._mutex:
            if self._spare <= 0 and len(self._threads) < self._most:
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        return False
                else:
                    self._threads.append(thread)
                    self._spare += 1
            self._spare -= 1
        self._jobs.put((run, report))
        return True

    def end(self) -> None:
        """Have the workers end when they have done what they were given."""
        self._jobs.put(None)

    def is_running(self) -> bool:
        """Whether there is a worker."""
        return any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            run, report = job
            run()
            with self._mutex:
                self._spare += 1
            report()
            del job, run, report  # or they would live until the next one
        self._jobs.put(None)  # for the next one
