"""Processes, threads and tasks that want one lock all the time.

Each acquires the lock, holds it for a section, releases it and wants it again at once, from one
given instant to another. Four kinds of lock:

- holdfast;
- *a bare queue*: one token in a list. BLPOP takes it, one more command confirms it (as a waiter
  that is notified must), LPUSH puts it back. No lease, no fence, and a dead holder stops all;
- python-redis-lock, which waits for a token, too; tasks use it in threads, since it has no asyncio;
- redis-py's Lock, which polls every 10 ms.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable
from concurrent.futures import Executor, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import redis
import redis.asyncio
import redis_lock

import holdfast
from benchmarks.contenders import TTL
from benchmarks.redis.floors import Pipelines, RawSockets
from benchmarks.workers import Lock
from holdfast.drivers.common import clock
from holdfast.engines.redis.protocol import command
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import RedisServer

OURS, QUEUE = "holdfast", "a bare queue"
SIGNALLED, POLLING = "python-redis-lock", "redis-py, 10 ms poll"
KINDS = (OURS, QUEUE, SIGNALLED, POLLING)
POLL, AIR = 0.01, 0.2

SENT = {
    OURS: ("evalsha", "eval", "script|load", "subscribe"),
    QUEUE: ("blpop", "lpush", "set"),
    SIGNALLED: ("get", "set", "blpop"),
    POLLING: ("evalsha", "eval", "script|load", "set"),
}
"""What the clients of each kind send, as the server counts it. It also counts the commands that
scripts call, which are not sent. python-redis-lock sends a GET before each acquire, and its release
is a script that calls GET once: so `get` counts both."""

TOKENS = "bench:tokens"
TAKE = command(b"BLPOP", TOKENS.encode(), b"0")
CONFIRM = command(b"SET", b"bench:confirmed", b"holder", b"PX", b"%d" % (TTL * 1000))
GIVE = command(b"LPUSH", TOKENS.encode(), b"1")

Granted = list[tuple[float, float]]
"""For each acquisition: how long after the beginning it came, and how long it had taken."""


class Order(NamedTuple):
    """Contend."""

    kind: str
    begin: float
    end: float
    section: float


class AsyncLock(Protocol):
    def acquire(self) -> Awaitable[object]: ...

    def release(self) -> Awaitable[object]: ...


class PollingLock:
    """redis-py's. It comes up for air, or many of them would never see the end of the time."""

    def __init__(self, port: int) -> None:
        client = redis.Redis(HOST, port)
        self._lock = client.lock("bench:polling", timeout=TTL, sleep=POLL, blocking_timeout=AIR)
        self.acquire, self.release = self._lock.acquire, self._lock.release


class SignalledLock:
    """python-redis-lock's."""

    def __init__(self, port: int) -> None:
        self._lock = redis_lock.Lock(redis.Redis(HOST, port), "bench:signalled", expire=TTL)
        self.acquire, self.release = self._lock.acquire, self._lock.release


class AsyncSignalledLock:
    """The same in threads, for one task."""

    def __init__(self, port: int, threads: Executor) -> None:
        self._lock, self._threads = SignalledLock(port), threads

    def acquire(self) -> Awaitable[object]:
        return asyncio.get_running_loop().run_in_executor(self._threads, self._lock.acquire)

    def release(self) -> Awaitable[object]:
        return asyncio.get_running_loop().run_in_executor(self._threads, self._lock.release)


class AsyncPollingLock:
    """The same for one task."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._lock = client.lock(
            "bench:polling", timeout=TTL, sleep=POLL, blocking_timeout=AIR, thread_local=False
        )
        self.acquire, self.release = self._lock.acquire, self._lock.release


class QueueLock:
    """A bare queue, for one thread."""

    def __init__(self, port: int) -> None:
        self._socket = RawSockets([port])

    def acquire(self) -> None:
        self._socket.ask(TAKE)
        self._socket.ask(CONFIRM)

    def release(self) -> None:
        self._socket.ask(GIVE)


class AsyncQueueLock:
    """A bare queue, for one task."""

    def __init__(self, connection: Pipelines) -> None:
        self._connection = connection

    async def acquire(self) -> None:
        await self._connection.ask(TAKE)
        await self._connection.ask(CONFIRM)

    async def release(self) -> None:
        await self._connection.ask(GIVE)


def put_token(server: RedisServer) -> None:
    """The bare queue needs one."""
    server.command("DEL", TOKENS)
    server.command("LPUSH", TOKENS, "1")


def contend_in_threads(pipe: "Connection[Any, Any]", url: str, port: int, threads: int) -> None:
    """Answer each `Order` with what each thread was granted, and the CPU seconds of all this."""
    with holdfast.Client(url, ttl=TTL) as client:
        locks: dict[str, list[Lock]] = {
            OURS: [client.lock("contention")] * threads,
            QUEUE: [QueueLock(port) for _ in range(threads)],
            SIGNALLED: [SignalledLock(port) for _ in range(threads)],
            POLLING: [PollingLock(port) for _ in range(threads)],
        }
        pipe.send("ready")
        while True:
            order: Order = pipe.recv()
            cpu = time.process_time()
            granted: list[Granted] = [[] for _ in range(threads)]
            contenders = [
                threading.Thread(target=_contend, args=(lock, order, got), daemon=True)
                for lock, got in zip(locks[order.kind], granted, strict=True)
            ]
            for contender in contenders:
                contender.start()
            for contender in contenders:
                contender.join()
            pipe.send((granted, time.process_time() - cpu))


def _contend(lock: Lock, order: Order, granted: Granted) -> None:
    time.sleep(max(0.0, order.begin - clock()))
    while (asked := clock()) < order.end:
        while lock.acquire() is False:
            if clock() >= order.end:
                return
        got = clock()
        granted.append((got - order.begin, got - asked))
        time.sleep(order.section)
        lock.release()


def contend_in_tasks(pipe: "Connection[Any, Any]", url: str, port: int, tasks: int) -> None:
    """The same with tasks."""
    asyncio.run(_contend_in_tasks(pipe, url, port, tasks))


async def _contend_in_tasks(pipe: "Connection[Any, Any]", url: str, port: int, tasks: int) -> None:
    async with holdfast.AsyncClient(url, ttl=TTL) as client:
        polling = redis.asyncio.Redis(host=HOST, port=port)
        pool = ThreadPoolExecutor(tasks)
        locks: dict[str, list[AsyncLock]] = {
            OURS: [client.lock("contention")] * tasks,
            QUEUE: [AsyncQueueLock(await Pipelines.open([port])) for _ in range(tasks)],
            SIGNALLED: [AsyncSignalledLock(port, pool) for _ in range(tasks)],
            POLLING: [AsyncPollingLock(polling) for _ in range(tasks)],
        }
        pipe.send("ready")
        while True:
            order: Order = await asyncio.to_thread(pipe.recv)
            cpu = time.process_time()
            granted: list[Granted] = [[] for _ in range(tasks)]
            await asyncio.gather(
                *(
                    _contend_async(lock, order, got)
                    for lock, got in zip(locks[order.kind], granted, strict=True)
                )
            )
            pipe.send((granted, time.process_time() - cpu))


async def _contend_async(lock: AsyncLock, order: Order, granted: Granted) -> None:
    await asyncio.sleep(order.begin - clock())
    while (asked := clock()) < order.end:
        while await lock.acquire() is False:
            if clock() >= order.end:
                return
        got = clock()
        granted.append((got - order.begin, got - asked))
        await asyncio.sleep(order.section)
        await lock.release()
