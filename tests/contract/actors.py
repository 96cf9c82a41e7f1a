"""Actors: the clients of a scenario, each with a thread or a task of its own.

`await ann(lock.acquire, timeout=1)` has Ann call it and gives her answer; `ann.begins(...)` does
not wait for it. Reentrancy and `Lock.release()` go by thread or task, so all calls of one actor
happen in one.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future as ThreadFuture
from typing import Any

from holdfast import AsyncLease, AsyncLeaseAll, Lease, LeaseAll

Body = Callable[[Any], Awaitable[Any]]


class Actor:
    """One user of the lock, with a client of their own unless they were given one to share."""

    def __init__(self, name: str, client: Any) -> None:
        self.name = name
        self.client = client
        self._leases: list[Any] = []

    def forgets(self) -> None:
        """Drops the actor's leases, which are otherwise kept in mind until the scenario is over."""
        self._leases.clear()

    def _remember(self, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled() or answer.exception():
            return
        if isinstance(answer.result(), (Lease, AsyncLease, LeaseAll, AsyncLeaseAll)):
            self._leases.append(answer.result())

    def lock(self, name: str, **options: Any) -> Any:
        return self.client.lock(name, **options)

    def begins(
        self, call: Callable[..., Any], /, *args: Any, **options: Any
    ) -> asyncio.Future[Any]:
        """Starts a call; the future has its answer. Iterators come back as lists."""
        raise NotImplementedError

    async def __call__(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        return await self.begins(call, *args, **options)

    async def inside(self, lock: Any, body: Body) -> Any:
        """`with lock as lease: body(lease)`, in this actor's mode. It takes calls meanwhile."""
        raise NotImplementedError

    def function(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """A function of this actor's mode that does what `body` does, for decorating."""
        raise NotImplementedError

    async def leaves(self) -> None:
        """Ends the actor's thread or task. One that hangs in a call is left to its fate."""
        raise NotImplementedError


class ThreadActor(Actor):
    """Uses the sync facade from a thread of its own."""

    def __init__(self, name: str, client: Any) -> None:
        super().__init__(name, client)
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"actor-{name}", daemon=True)
        self._thread.start()

    def begins(
        self, call: Callable[..., Any], /, *args: Any, **options: Any
    ) -> asyncio.Future[Any]:
        order = _Call(functools.partial(call, *args, **options))
        self._calls.put(order)
        answer = asyncio.wrap_future(order.answer)
        answer.add_done_callback(self._remember)
        return answer

    async def inside(self, lock: Any, body: Body) -> Any:
        def section() -> Any:
            with lock as lease:
                return self._await(body(lease))

        return await self(section)

    def function(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @functools.wraps(body)
        def function(*args: Any, **options: Any) -> Any:
            return self._await(body(*args, **options))

        del function.__wrapped__  # it would pass for a coroutine function
        return function

    async def leaves(self) -> None:
        self._calls.put(None)
        await asyncio.to_thread(self._thread.join, 5)

    def _await(self, awaitable: Awaitable[Any]) -> Any:
        """Waits for something of the scenario's loop, and takes calls until it is there."""

        async def awaited() -> Any:
            return await awaitable

        answer = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        answer.add_done_callback(lambda _: self._calls.put(None))
        self._serve()
        return answer.result()

    def _serve(self) -> None:
        while (order := self._calls.get()) is not None:
            order.perform()
            del order  # or the last lease would live as long as the thread waits for its next call


class _Call:
    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.answer: ThreadFuture[Any] = ThreadFuture()

    def perform(self) -> None:
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            result = self.call()
            self.answer.set_result(list(result) if isinstance(result, Iterator) else result)
        except BaseException as error:
            self.answer.set_exception(error)


class TaskActor(Actor):
    """Uses the async facade from a task of its own."""

    def __init__(self, name: str, client: Any) -> None:
        super().__init__(name, client)
        self._calls: asyncio.Queue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = (
            asyncio.Queue()
        )
        self._task = asyncio.create_task(self._serve(), name=f"actor-{name}")

    def begins(
        self, call: Callable[..., Any], /, *args: Any, **options: Any
    ) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(self._remember)
        self._calls.put_nowait((answer, functools.partial(call, *args, **options)))
        return answer

    async def __call__(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        if asyncio.current_task() is self._task:  # called by the body of the actor's own section
            return await _awaited(call(*args, **options))
        return await self.begins(call, *args, **options)

    async def inside(self, lock: Any, body: Body) -> Any:
        async def section() -> Any:
            async with lock as lease:
                return await body(lease)

        return await self(section)

    def function(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        return body

    async def leaves(self) -> None:
        self._calls.put_nowait(None)
        await asyncio.wait({self._task}, timeout=5)
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=5)

    async def _serve(self) -> None:
        while (order := await self._calls.get()) is not None:
            await self._perform(*order)
            del order  # or the last lease would live as long as the task waits for its next call

    async def _perform(self, answer: asyncio.Future[Any], call: Callable[[], Any]) -> None:
        try:
            result = await _awaited(call())
            if not answer.done():
                answer.set_result(result)
        except asyncio.CancelledError:
            self._task.uncancel()
            answer.cancel()
        except BaseException as error:
            if not answer.done():
                answer.set_exception(error)


async def _awaited(result: Any) -> Any:
    if inspect.isawaitable(result):
        return await result
    if hasattr(result, "__aiter__"):
        return [item async for item in result]
    return result
