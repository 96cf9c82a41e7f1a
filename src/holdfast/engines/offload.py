"""Asyncio over a store that blocks: worker threads ask.

A cancelled `ask` may still be carried out. What is asked next about the same holder (a release,
say) waits until it is over, so that it does not overtake it.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from holdfast.core.messages import Acquire, Answer, Failed, Release, Request
from holdfast.core.ports import Clock, Store

GRACE = 0.05
"""How much later than the worker the task gives up, so that it gets the worker's reason."""


class Offloaded:
    """An `AsyncStore` made of a blocking one."""

    def __init__(self, store: Store, name: str, clock: Clock, workers: int = 1) -> None:
        self._store, self._name, self._clock, self._workers = store, name, clock, workers
        self._begin()

    def _begin(self) -> None:
        self._pool = Workers(self._workers, f"holdfast-{self._name}")
        self._asking: dict[str, Future[Sequence[Answer]]] = {}
        """By holder id: what is being asked, and may make a lock or end it."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Have a worker ask."""
        request = requests[0]
        holder = request.holder if isinstance(request, (Acquire, Release)) else None
        if holder is not None and (before := self._asking.get(holder)) is not None:
            asked = asyncio.wrap_future(before)
            await asyncio.wait((asked,), timeout=max(0.0, until - self._clock()))
            if not before.done():
                return self._failed(requests)
        work = self._pool.submit(self._store.ask, requests, until)
        if holder is not None:
            self._asking[holder] = work
            work.add_done_callback(lambda done: self._asked(holder, done))
        asking: asyncio.Future[Sequence[Answer]] = asyncio.wrap_future(work)
        try:
            await asyncio.wait((asking,), timeout=max(0.0, until - self._clock()) + GRACE)
        except asyncio.CancelledError:
            work.cancel()  # unless it is being asked already
            raise
        if asking.done():
            return asking.result()
        work.cancel()
        return self._failed(requests)

    async def close(self) -> None:
        """Have a worker close the store, then end the workers."""
        await asyncio.wrap_future(self._pool.submit(self._store.close))
        await asyncio.to_thread(self._pool.end)

    def abandon(self) -> None:
        """Have a worker close the store, and do not wait for it."""
        self._pool.submit(self._store.close)
        self._pool.end(wait=False)

    def forget(self) -> None:
        """In a forked child: the workers are the parent's."""
        self._store.forget()
        self._begin()

    def _failed(self, requests: Sequence[Request]) -> Sequence[Answer]:
        return [Failed.at(self._name, "an earlier request of this holder is pending")] * len(
            requests
        )

    def _asked(self, holder: str, done: "Future[Sequence[Answer]]") -> None:
        if self._asking.get(holder) is done:
            del self._asking[holder]


class Workers:
    """Threads that are started when they are needed. (The pool of `concurrent.futures` starts one
    although another is just done: a worker is free there a moment after its result is known.)"""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._spare = 0
        """Workers that are free, less the jobs that wait for one."""
        self._mutex = threading.Lock()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Have a worker call the function."""
        future: Future[Any] = Future()
        self._jobs.put((future, lambda: function(*arguments)))
        with self._mutex:
            self._spare -= 1
            if self._spare < 0 and len(self._threads) < self._most:
                self._spare += 1
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def end(self, *, wait: bool = True) -> None:
        """End the workers when they have done what they were given."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            result, error = None, None
            is_wanted = future.set_running_or_notify_cancel()
            try:
                result = call() if is_wanted else None
            except BaseException as caught:  # noqa: BLE001 - raised where the result is wanted
                error = caught
            with self._mutex:
                self._spare += 1
            if is_wanted and error is not None:
                future.set_exception(error)
            elif is_wanted:
                future.set_result(result)
            del future, call, result, error, job  # or they would live until the next job
