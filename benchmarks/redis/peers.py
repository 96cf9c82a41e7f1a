"""Other people's locks over Redis: an acquire and a release, once, or by many tasks."""

import importlib
import warnings
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

import redis
import redis.asyncio
import redis_lock
import redlock
from pottery import AIORedlock, Redlock

import holdfast
from benchmarks.peers import TTL, Pair
from benchmarks.redis.floors import Pipelines, Words
from holdfast.lab.servers.ports import HOST

Ports = Sequence[int]
Pairs = Callable[[int], Awaitable[None]]
"""Does so many pairs, one after the other."""


class Tasks(Protocol):
    """A lock for each of so many tasks."""

    def pairs(self, task: int) -> Pairs:
        """What one of the tasks does."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


POOL = 100
"""The most connections of a `redis.asyncio.Redis`, by default."""

WITHOUT_AIOREDLOCK = (
    "aioredlock is not installed here (`pip install 'holdfast[bench]'`, on Python 3.11), so there "
    "is no figure for it."
)


def redis_py(port: int) -> Pair:
    lock = redis.Redis(HOST, port).lock("bench:redis-py", timeout=TTL)

    def acquire_and_release() -> None:
        assert lock.acquire()
        lock.release()

    return acquire_and_release


def python_redis_lock(port: int) -> Pair:
    lock = redis_lock.Lock(redis.Redis(HOST, port), "bench:python-redis-lock", expire=TTL)

    def acquire_and_release() -> None:
        assert lock.acquire()
        lock.release()

    return acquire_and_release


def redlock_py(ports: Ports) -> Pair:
    manager = redlock.Redlock([{"host": HOST, "port": port} for port in ports])

    def acquire_and_release() -> None:
        lock = manager.lock("bench:redlock-py", TTL * 1000)
        assert lock
        manager.unlock(lock)

    return acquire_and_release


def pottery_pair(ports: Ports) -> Pair:
    masters = {redis.Redis(HOST, port) for port in ports}
    lock = Redlock(key="bench:pottery", masters=masters, auto_release_time=TTL)

    def acquire_and_release() -> None:
        assert lock.acquire()
        lock.release()

    return acquire_and_release


class HoldfastTasks:
    """holdfast, one client for all tasks."""

    def __init__(self, url: str, tasks: int) -> None:
        self._client = holdfast.AsyncClient(url)
        self._locks = [self._client.lock(f"bench:{i}", ttl=TTL) for i in range(tasks)]

    def pairs(self, task: int) -> Pairs:
        lock = self._locks[task]

        async def acquire_and_release(count: int) -> None:
            for _ in range(count):
                lease = await lock.acquire()
                assert lease
                await lease.release()

        return acquire_and_release

    async def close(self) -> None:
        await self._client.aclose()


class FloorTasks:
    """The floor: bare connections that all tasks share."""

    def __init__(self, pipelines: Pipelines, tasks: int, *, quorum: bool) -> None:
        self._pipelines = pipelines
        self._words = [Words(f"floor:{i}", quorum=quorum) for i in range(tasks)]

    def pairs(self, task: int) -> Pairs:
        return partial(self._pipelines.pairs, self._words[task])

    async def close(self) -> None:
        await self._pipelines.close()


class RedisPyTasks:
    """`redis.asyncio.Lock`, one for each task, on one client. More tasks than the pool has
    connections wait for one, since the default pool would raise."""

    def __init__(self, port: int, tasks: int) -> None:
        pool = redis.asyncio.BlockingConnectionPool(
            host=HOST, port=port, max_connections=POOL, timeout=None
        )
        self._client = redis.asyncio.Redis(connection_pool=pool)
        self._locks = [self._client.lock(f"bench:aio:{i}", timeout=TTL) for i in range(tasks)]

    def pairs(self, task: int) -> Pairs:
        lock = self._locks[task]

        async def acquire_and_release(count: int) -> None:
            for _ in range(count):
                assert await lock.acquire()
                await lock.release()

        return acquire_and_release

    async def close(self) -> None:
        await self._client.aclose()
        await self._client.connection_pool.disconnect()


class PotteryTasks:
    """`pottery.AIORedlock`, one for each task."""

    def __init__(self, ports: Ports, tasks: int) -> None:
        self._masters = {redis.asyncio.Redis(host=HOST, port=port) for port in ports}
        self._locks = [
            AIORedlock(key=f"bench:pottery:{i}", masters=self._masters, auto_release_time=TTL)
            for i in range(tasks)
        ]

    def pairs(self, task: int) -> Pairs:
        lock = self._locks[task]

        async def acquire_and_release(count: int) -> None:
            for _ in range(count):
                assert await lock.acquire()
                await lock.release()

        return acquire_and_release

    async def close(self) -> None:
        for master in self._masters:
            await master.aclose()


class AioredlockTasks:
    """`aioredlock`, one manager for all tasks."""

    def __init__(self, module: Any, ports: Ports) -> None:
        places = [{"host": HOST, "port": port} for port in ports]
        self._manager = module.Aioredlock(places, internal_lock_timeout=TTL)

    def pairs(self, task: int) -> Pairs:
        manager = self._manager

        async def acquire_and_release(count: int) -> None:
            for _ in range(count):
                await manager.unlock(await manager.lock(f"bench:aioredlock:{task}"))

        return acquire_and_release

    async def close(self) -> None:
        await self._manager.destroy()


def find_aioredlock() -> Any:
    """The module; None if it is not installed, or does not run on this Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for distutils, which will go
        try:
            return importlib.import_module("aioredlock")
        except ImportError:
            return None
