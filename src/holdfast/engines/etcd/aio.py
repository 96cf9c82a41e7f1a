"""The store for asyncio.

Each `ask` is a task of its own, which goes on if its caller is cancelled. What makes a lock or ends
it waits until what was asked for the same holder before is over: so a release never overtakes the
request that it undoes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio

from holdfast.core.effects import Sleep, perform_async
from holdfast.core.messages import Acquire, Answer, Failed, Release, Request
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.commands import Call, KeepAlives
from holdfast.engines.etcd.connection import (
    CLOSED,
    SHORTEST,
    Cluster,
    Connection,
    Connections,
    NoAnswer,
    Rejected,
    keep_forever,
    read_error,
)
from holdfast.engines.etcd.exchanges import CLOSE_WITHIN, Effects, Exchanges, Send, is_waiting
from holdfast.engines.etcd.protocol import LEASE_KEEP_ALIVE, WATCH
from holdfast.engines.etcd.registry import Claim
from holdfast.engines.etcd.waiters import LINGER, REOPEN_AFTER, TICK, WATCH_FOR

T = TypeVar("T")

UNANSWERED = "an earlier request of this holder is pending"

STREAM_ENDS_WITHIN = 3.0
"""Seconds for gRPC to report that a stream has ended."""


class AsyncEtcdStore:
    """One cluster, for all tasks of a client."""

    def __init__(self, cluster: Cluster, host: StoreHost, claims: dict[str, Claim]) -> None:
        self._clock = host.clock
        self._connections = Connections(cluster, grpc.aio, host.emit)
        self._exchanges = Exchanges(self._connections, host, claims)
        self._begin()

    def _begin(self) -> None:
        self._closing = False
        self._watcher: AsyncWatcher | None = None
        """The last one; it may be ending, if there are no waiters."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._latest: dict[str, asyncio.Task[Any]] = {}
        """By holder id: the last task that may make a lock or end it."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        holders = [each.holder for each in requests if isinstance(each, (Acquire, Release))]
        before = {self._latest[each] for each in holders if each in self._latest}
        task = asyncio.create_task(self._ask(requests, until, before))
        self._tasks.add(task)
        for holder in holders:
            self._latest[holder] = task
        task.add_done_callback(partial(self._asked, holders))
        return await asyncio.shield(task)

    def _asked(self, holders: Sequence[str], task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        for holder in holders:
            if self._latest.get(holder) is task:
                del self._latest[holder]

    async def _ask(
        self, requests: Sequence[Request], until: float, before: Collection["asyncio.Task[Any]"]
    ) -> Sequence[Answer]:
        if before:
            _, pending = await asyncio.wait(before, timeout=max(0.0, until - self._clock()))
            if pending:
                return [Failed.at("etcd", UNANSWERED)] * len(requests)
        answers = await self._perform(self._exchanges.ask(requests, until))
        if is_waiting(requests, answers):
            self._watch()
        return answers

    async def close(self) -> None:
        """Revoke all etcd leases, and close every connection."""
        self._closing = True
        if self._watcher is not None:
            await self._watcher.stop()
        await self._until_idle()
        await self._perform(self._exchanges.end())
        for connection in self._connections.close():
            await connection.channel.close()
        await self._until_idle()  # closing ends the calls that were in flight

    async def _until_idle(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_WITHIN)

    def abandon(self) -> None:
        """The same without waiting: a channel closes when it is dropped, and the servers end the
        etcd leases."""
        if self._watcher is not None:
            self._watcher.abandon()
        self._connections.close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        keep_forever(self._watcher, self._tasks)
        self._connections.forget()
        self._exchanges.forget()
        self._begin()

    def _watch(self) -> None:
        """See to it that waiters are woken, and their sessions kept alive."""
        if not self._closing and (self._watcher is None or self._watcher.over):
            self._watcher = AsyncWatcher(self._connections, self._exchanges, self._perform)

    async def _perform(self, effects: Effects[T]) -> T:
        return await perform_async(effects, self._do, (NoAnswer, Rejected))

    async def _do(self, effect: Send | Sleep) -> Any:
        if isinstance(effect, Sleep):
            return await asyncio.sleep(effect.until - self._clock())
        return await self._send(*effect)

    async def _send(
        self, step: list[Call] | KeepAlives, connection: Connection, until: float
    ) -> list[Any]:
        left, metadata = max(until - self._clock(), SHORTEST), self._connections.metadata
        try:
            if isinstance(step, KeepAlives):
                stream = connection[LEASE_KEEP_ALIVE](iter(step.requests), left, metadata)
                return [reply.TTL async for reply in stream]
            sent = [
                connection[each.method](each.request, timeout=left, metadata=metadata)
                for each in step
            ]
            return [await _reply(each) for each in sent]
        except grpc.RpcError as error:
            raise self._connections.read_error(error).rejection from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise NoAnswer(CLOSED) from None


async def _reply(call: Any) -> Any:
    """The reply to a call, which may be an error."""
    try:
        return await call
    except grpc.RpcError as error:
        return read_error(error)


class AsyncWatcher:
    """Two tasks for a client with waiters: one reads the stream of watches, the other one keeps
    their sessions alive. They end when there was no waiter for a while, and with the client."""

    def __init__(
        self,
        connections: Connections,
        exchanges: Exchanges,
        perform: Callable[[Effects[object]], Awaitable[object]],
    ) -> None:
        self._connections, self._exchanges, self._perform = connections, exchanges, perform
        self.over = False
        self._stopped = asyncio.Event()
        self._stream: Any = None
        self._reading = asyncio.create_task(self._read(), name="holdfast-etcd-watch")
        self._keeping = asyncio.create_task(self._keep(), name="holdfast-etcd-session")

    async def stop(self) -> None:
        """End, and wait until it has. A call in flight is not cancelled: gRPC would keep its
        connection open for a moment more."""
        self._stopped.set()
        await asyncio.wait([self._keeping])

    def abandon(self) -> None:
        """End, without waiting."""
        loop = self._keeping.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._keeping.cancel)

    async def _keep(self) -> None:
        idle = 0
        try:
            while idle <= LINGER and not await self._stopped_within(TICK):
                connection = self._connections.current
                await self._perform(self._exchanges.keep_waiters())
                if connection is not self._connections.current and self._stream is not None:
                    self._stream.cancel()  # that endpoint has failed
                idle = 0 if self._exchanges.registry.waited_for() else idle + 1
        finally:
            self.over = True
            self._reading.cancel()
            await asyncio.wait([self._reading])
            del self._reading, self._stream  # no channel can be closed while its streams are kept

    async def _stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return self._stopped.is_set()

    async def _read(self) -> None:
        while True:
            outbox: asyncio.Queue[Any] = asyncio.Queue()
            self._stream = stream = self._connections.current[WATCH](
                _sent(outbox), timeout=WATCH_FOR, metadata=self._connections.metadata
            )
            send = outbox.put_nowait
            self._exchanges.watches.opened(send)
            try:
                async for response in stream:
                    if not self._exchanges.watches.received(response):
                        break
            except grpc.RpcError as error:
                with suppress(NoAnswer):  # the next call finds out, and goes to another endpoint
                    self._connections.read_error(error)
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
            finally:
                stream.cancel()
                send(None)
                self._exchanges.watches.closed(send)
                await _has_ended(stream)
            await asyncio.sleep(REOPEN_AFTER)


async def _has_ended(stream: Any) -> None:
    """Wait until it is over: before that, its connection cannot be closed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(STREAM_ENDS_WITHIN):
            await stream.code()


def _is_cancelled() -> bool:
    """Whether it is this task that was cancelled; if not, it was the call."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _sent(outbox: "asyncio.Queue[Any]") -> AsyncIterator[Any]:
    """What is put into the queue, until it is None."""
    while (message := await outbox.get()) is not None:
        yield message
