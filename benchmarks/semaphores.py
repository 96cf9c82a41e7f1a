"""Contenders for the slots of one semaphore: each takes a slot, works for a while, and gives it
back. Each imports its library itself, so that no other contender has to."""

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial

import holdfast
from benchmarks.contenders import TTL, AsyncPair, Pair
from holdfast.lab.servers.process import HOST

SECTION = 0.002
"""Seconds of work."""

ASK_AGAIN = 0.05
"""Seconds, at the most, after which a recipe that polls asks again. With 0.01, a hundred tasks had
so much to ask that hardly any of them worked."""

NAME = "bench:semaphore"


async def by_tasks(url: str, slots: int, tasks: int, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    """holdfast: all tasks have one client."""
    client = await stack.enter_async_context(holdfast.AsyncClient(url))
    semaphore = client.semaphore(NAME, slots, ttl=TTL)

    async def section() -> None:
        lease = await semaphore.acquire()
        assert lease
        await asyncio.sleep(SECTION)
        await lease.release()

    return [section] * tasks


async def token_list(
    port: int, slots: int, tasks: int, stack: AsyncExitStack
) -> Sequence[AsyncPair]:
    """As many tokens as slots in a list, each taken by BLPOP and put back by RPUSH. If a holder
    dies, its slot is lost."""
    import redis.asyncio

    client = redis.asyncio.Redis(host=HOST, port=port, max_connections=tasks + 1)
    stack.push_async_callback(client.aclose)
    await client.rpush("bench:tokens", *range(slots))

    async def section() -> None:
        taken = await client.blpop("bench:tokens")
        assert taken
        await asyncio.sleep(SECTION)
        await client.rpush("bench:tokens", taken[1])

    return [section] * tasks


async def sorted_sets(
    port: int, slots: int, tasks: int, stack: AsyncExitStack
) -> Sequence[AsyncPair]:
    """The fair semaphore of "Redis in Action" (6.3.2), through redis-py: a counter gives places, a
    sorted set has them, and another one the times at which they end. It polls. The lock around it,
    against two that come at once, is left out: with it, it would be slower."""
    import redis.asyncio

    client = redis.asyncio.Redis(host=HOST, port=port, max_connections=tasks + 1)
    stack.push_async_callback(client.aclose)
    times, owners, counter = (f"{NAME}{part}" for part in ("", ":owner", ":counter"))

    async def leave(me: str) -> None:
        pipe = client.pipeline()
        pipe.zrem(times, me)
        pipe.zrem(owners, me)
        await pipe.execute()

    async def enters(me: str) -> bool:
        now, pipe = time.time(), client.pipeline()
        pipe.zremrangebyscore(times, "-inf", now - TTL)
        pipe.zinterstore(owners, {owners: 1, times: 0})
        pipe.incr(counter)
        place = (await pipe.execute())[-1]
        pipe.zadd(times, {me: now})
        pipe.zadd(owners, {me: place})
        pipe.zrank(owners, me)
        if (await pipe.execute())[-1] < slots:
            return True
        await leave(me)
        return False

    async def section(task: int) -> None:
        me = f"{task}:{random.getrandbits(64):x}"
        while not await enters(me):  # noqa: ASYNC110 - it polls
            await asyncio.sleep(random.uniform(0, ASK_AGAIN))
        await asyncio.sleep(SECTION)
        await leave(me)

    return [partial(section, task) for task in range(tasks)]


TAKE = """
local free = tonumber(redis.call('GET', KEYS[1]))
if free > 0 then redis.call('DECR', KEYS[1]) return 1 end
return 0
"""
GIVE_BACK = "redis.call('PUBLISH', KEYS[2], redis.call('INCR', KEYS[1]))"


async def redisson(port: int, slots: int, tasks: int, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    """What the Semaphore of Redisson (Java) does, as its sources have it, through redis-py: a
    counter of what is free, taken by a script; what is given back is published, and each message
    lets one of the waiters of a client ask again. No ttl, no order: a slot whose holder dies is
    lost."""
    import redis.asyncio

    client = redis.asyncio.Redis(host=HOST, port=port, max_connections=tasks + 2)
    stack.push_async_callback(client.aclose)
    take, give_back = client.register_script(TAKE), client.register_script(GIVE_BACK)
    free, channel = f"{NAME}:free", f"{NAME}:freed"
    await client.set(free, slots)
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    await pubsub.subscribe(channel)
    freed = asyncio.Semaphore(0)

    async def listen() -> None:
        async for _ in pubsub.listen():
            freed.release()

    listening = asyncio.create_task(listen())
    stack.push_async_callback(pubsub.aclose)
    stack.callback(listening.cancel)

    async def section() -> None:
        while not await take([free]):
            await freed.acquire()
        await asyncio.sleep(SECTION)
        await give_back([free, channel])

    return [section] * tasks


def by_threads(url: str, slots: int, threads: int, stack: ExitStack) -> Sequence[Pair]:
    """holdfast: all threads have one client."""
    client = stack.enter_context(holdfast.Client(url))
    semaphore = client.semaphore(NAME, slots, ttl=TTL)

    def section() -> None:
        with semaphore:
            time.sleep(SECTION)

    return [section] * threads


def kazoo(address: str, slots: int, threads: int, stack: ExitStack) -> Sequence[Pair]:
    """kazoo's Semaphore: all threads have one client, and each its own object, which waits for the
    semaphore's lock."""
    from kazoo.client import KazooClient

    client = KazooClient(address, timeout=TTL)
    client.start()
    stack.callback(client.close)
    stack.callback(client.stop)

    def section(thread: int) -> None:
        semaphore = client.Semaphore(f"/{NAME}", str(thread), slots)
        with semaphore:
            time.sleep(SECTION)

    return [partial(section, thread) for thread in range(threads)]
