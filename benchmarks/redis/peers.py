"""Other libraries' locks over Redis: an acquire and a release, by a thread or by many tasks. Each
imports its library itself, so that no other contender has to."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import Any

from benchmarks.contenders import TTL, AsyncPair, Pair, library, pair_with
from holdfast.lab.servers.process import HOST

Ports = Sequence[int]

POOL = 100
"""The most connections of a `redis.asyncio.Redis`, by default."""


def redis_py(port: int, stack: ExitStack) -> Pair:
    import redis

    client = stack.enter_context(redis.Redis(HOST, port))
    return pair_with(client.lock("bench:redis-py", timeout=TTL))


def python_redis_lock(port: int, stack: ExitStack) -> Pair:
    import redis

    client = stack.enter_context(redis.Redis(HOST, port))
    return pair_with(library("redis_lock").Lock(client, "bench:python-redis-lock", expire=TTL))


def redis_py_threads(port: int, threads: int, stack: ExitStack) -> Sequence[Pair]:
    """One client for all, whose pool has a connection for each."""
    import redis

    client = stack.enter_context(redis.Redis(HOST, port))
    return [pair_with(client.lock(f"bench:{each}", timeout=TTL)) for each in range(threads)]


def python_redis_lock_threads(port: int, threads: int, stack: ExitStack) -> Sequence[Pair]:
    import redis

    client, lock = stack.enter_context(redis.Redis(HOST, port)), library("redis_lock").Lock
    return [pair_with(lock(client, f"bench:prl:{each}", expire=TTL)) for each in range(threads)]


def redlock_py(ports: Ports, stack: ExitStack, within: float | None = None) -> Pair:
    """`within`: seconds for one server; its own default is none."""
    servers = [_redis(port, within) for port in ports]
    manager = library("redlock").Redlock(servers)

    def acquire_and_release() -> None:
        lock = manager.lock("bench:redlock-py", TTL * 1000)
        assert lock
        manager.unlock(lock)

    return acquire_and_release


def pottery(ports: Ports, stack: ExitStack, within: float | None = None) -> Pair:
    """`within`: seconds for one server; its own default is none."""
    masters = {stack.enter_context(_redis(port, within)) for port in ports}
    return pair_with(
        library("pottery").Redlock(key="bench:pottery", masters=masters, auto_release_time=TTL)
    )


def _redis(port: int, within: float | None) -> Any:
    """A client as it comes; or one that waits `within` seconds and tries once."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    if within is None:
        return redis.Redis(HOST, port)
    once = Retry(NoBackoff(), 0)
    return redis.Redis(HOST, port, socket_timeout=within, socket_connect_timeout=within, retry=once)


async def redis_py_tasks(port: int, tasks: int, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    """One client for all. More tasks than its pool has connections wait for one, since the default
    pool would raise."""
    import redis.asyncio

    pool = redis.asyncio.BlockingConnectionPool(
        host=HOST, port=port, max_connections=POOL, timeout=None
    )
    stack.push_async_callback(pool.disconnect)
    client = redis.asyncio.Redis(connection_pool=pool)
    return [_async_pair(client.lock(f"bench:aio:{task}", timeout=TTL)) for task in range(tasks)]


async def pottery_tasks(ports: Ports, tasks: int, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    import redis.asyncio

    pottery = library("pottery")
    masters = {redis.asyncio.Redis(host=HOST, port=port) for port in ports}
    for master in masters:
        stack.push_async_callback(master.aclose)
    return [
        _async_pair(pottery.AIORedlock(key=key, masters=masters, auto_release_time=TTL))
        for key in (f"bench:pottery:{task}" for task in range(tasks))
    ]


def _async_pair(lock: Any) -> AsyncPair:
    async def acquire_and_release() -> None:
        assert await lock.acquire()
        await lock.release()

    return acquire_and_release


async def aioredlock_tasks(
    ports: Ports, tasks: int, stack: AsyncExitStack, within: float | None = None
) -> Sequence[AsyncPair]:
    """One manager for all. `within`: seconds for connecting, the only timeout that it has."""
    places = [{"host": HOST, "port": port, "timeout": within} for port in ports]
    manager = library("aioredlock").Aioredlock(places, internal_lock_timeout=TTL)
    stack.push_async_callback(manager.destroy)

    async def acquire_and_release(task: int) -> None:
        await manager.unlock(await manager.lock(f"bench:aioredlock:{task}"))

    return [partial(acquire_and_release, task) for task in range(tasks)]
