"""The store for asyncio.

Each `ask` is a task of its own, which goes on if its caller is cancelled. What is asked for a
holder waits until everything asked for the same holder before is over: so a release never overtakes
the request that it undoes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio

from holdfast.core.effects import Sleep, perform_async
from holdfast.core.messages import Answer, Failed, Request, Write
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.commands import Call, KeepAlives, Steps
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
from holdfast.engines.etcd.exchanges import (
    Exchanges,
    Send,
    exchange,
    holder_of,
    is_waiting,
)
from holdfast.engines.etcd.protocol import LEASE_KEEP_ALIVE, WATCH
from holdfast.engines.etcd.sessions import Claim
from holdfast.engines.etcd.waiters import LINGER, REOPEN_AFTER, TICK, WATCH_FOR

T = TypeVar("T")

UNANSWERED = "what was asked before is not answered yet"

CLOSE_WITHIN = 1.0
"""Seconds for the servers to answer when the client is closed."""

STREAM_ENDS_WITHIN = 3.0
"""Seconds for gRPC to report that a stream has ended."""


class AsyncEtcdStore:
    """One cluster, for all tasks of a client."""

    def __init__(self, cluster: Cluster, host: StoreHost, claims: dict[str, Claim]) -> None:
        self._clock = host.clock
        self._exchanges = Exchanges(host, claims)
        self._connections = Connections(cluster, grpc.aio, host.emit)
        self._begin()

    def _begin(self) -> None:
        self._closing = False
        self._watchers: list[AsyncWatcher] = []
        """The last one works; those before it are ending."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._latest: dict[str, asyncio.Task[Any]] = {}
        """By holder: the last task that asks something for it."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        holder = holder_of(requests)
        task = asyncio.create_task(self._ask(requests, until, self._latest.get(holder)))
        self._tasks.add(task)
        if holder:
            self._latest[holder] = task
        task.add_done_callback(partial(self._end, holder))
        return await asyncio.shield(task)

    def _end(self, holder: str, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if self._latest.get(holder) is task:
            del self._latest[holder]

    async def _ask(
        self, requests: Sequence[Request], until: float, before: "asyncio.Task[Any] | None"
    ) -> Sequence[Answer]:
        if before is not None:
            await asyncio.wait([before], timeout=max(0.0, until - self._clock()))
            if not before.done():
                return [Failed.at("etcd", UNANSWERED)] * len(requests)
        once = isinstance(requests[0], Write)  # what may have been done must not be done again
        answers = await self._exchange(self._exchanges.begin(requests), until, once=once)
        if isinstance(answers, Failed):
            return [answers] * len(requests)
        if is_waiting(requests, answers):
            self._watch()
        return answers

    async def close(self) -> None:
        """Revoke all etcd leases, and close every connection."""
        self._closing = True
        for watcher in self._watchers:
            await watcher.stop()
        await self._until_idle()
        leases = self._exchanges.registry.take_all()
        if leases:
            revoke = partial(self._exchanges.locks.revoke, leases)
            await self._exchange(revoke, self._clock() + CLOSE_WITHIN)
        for connection in self._connections.close():
            await connection.channel.close()
        await self._until_idle()  # closing ends the calls that were in flight

    async def _until_idle(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_WITHIN)

    def abandon(self) -> None:
        """The same without waiting: a channel closes when it is dropped, and the servers end the
        etcd leases."""
        for watcher in self._watchers:
            watcher.abandon()
        self._connections.close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        keep_forever(*self._watchers, self._tasks)
        self._connections.forget()
        self._exchanges.forget()
        self._begin()

    def _watch(self) -> None:
        """See to it that waiters are woken, and their sessions kept alive."""
        if not self._closing and (not self._watchers or self._watchers[-1].over):
            watcher = AsyncWatcher(self._connections, self._exchanges, self._keep_waiters)
            self._watchers = [*(each for each in self._watchers if each.alive), watcher]

    async def _keep_waiters(self) -> None:
        await self._exchange(self._exchanges.locks.keep_waiters, self._clock() + 2 * TICK)

    async def _exchange(
        self, begin: Callable[[], Steps[T]], until: float, *, once: bool = False
    ) -> T | Failed:
        steps = exchange(begin, self._connections, self._clock, until, once=once)
        return await perform_async(steps, self._do, (NoAnswer, Rejected))

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
        keep_waiters: "Callable[[], Any]",
    ) -> None:
        self._connections, self._keep_waiters = connections, keep_waiters
        self._watches, self._registry = exchanges.watches, exchanges.registry
        self.over = False
        self._stopped = asyncio.Event()
        self._stream: Any = None
        self._reading = asyncio.create_task(self._read(), name="holdfast-etcd-watch")
        self._keeping = asyncio.create_task(self._keep(), name="holdfast-etcd-session")

    @property
    def alive(self) -> bool:
        """Whether its tasks still run."""
        return not self._keeping.done()

    async def stop(self) -> None:
        """End, and wait until it has. A call in flight is not cancelled: gRPC would keep its
        connection open for a moment more."""
        self._stopped.set()
        await asyncio.wait([self._keeping])

    def abandon(self) -> None:
        """End, without waiting."""
        loop = self._keeping.get_loop()
        if self.alive and not loop.is_closed():
            loop.call_soon_threadsafe(self._keeping.cancel)

    async def _keep(self) -> None:
        idle = 0
        try:
            while idle <= LINGER and not await self._stopped_within(TICK):
                connection = self._connections.current
                await self._keep_waiters()
                if connection is not self._connections.current and self._stream is not None:
                    self._stream.cancel()  # that endpoint has failed
                idle = 0 if self._registry.sessions(waited_for=True) else idle + 1
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
            self._watches.opened(send)
            try:
                async for response in stream:
                    if not self._watches.received(response):
                        break
            except grpc.RpcError as error:
                self._note(error)
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
            finally:
                stream.cancel()
                send(None)
                self._watches.closed(send)
                await _has_ended(stream)
            await asyncio.sleep(REOPEN_AFTER)

    def _note(self, error: grpc.RpcError) -> None:
        try:
            self._connections.read_error(error)
        except NoAnswer:
            return  # the next call finds out, and goes to another endpoint


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
