"""Pairs of an acquire and a release, side by side: those of threads, and those of tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from time import perf_counter

import holdfast
from benchmarks.measure import Values, interleave, seconds_each
from benchmarks.peers import TTL, AsyncPair, Pair


def holdfast_pair(client: holdfast.Client) -> Pair:
    lock = client.lock("bench", ttl=TTL)

    def acquire_and_release() -> None:
        lease = lock.acquire()
        assert lease
        lease.release()

    return acquire_and_release


def async_holdfast_pair(client: holdfast.AsyncClient) -> AsyncPair:
    lock = client.lock("bench", ttl=TTL)

    async def acquire_and_release() -> None:
        lease = await lock.acquire()
        assert lease
        await lease.release()

    return acquire_and_release


def compare(pairs: Mapping[str, Pair], times: int, rounds: int) -> Values:
    """Seconds that each takes, in batches of so many."""
    batches = {label: partial(seconds_each, pair, times) for label, pair in pairs.items()}
    return interleave(batches, rounds)


def compare_async(
    open_pairs: Callable[[AsyncExitStack], Awaitable[Mapping[str, AsyncPair]]],
    times: int,
    rounds: int,
) -> Values:
    """The same for one task at a time. What they need is opened within the loop, on a stack."""

    async def open_all() -> Mapping[str, AsyncPair]:
        return await open_pairs(stack)

    def batch(pair: AsyncPair) -> float:
        return runner.run(_seconds_awaited(pair, times))

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            pairs = runner.run(open_all())
            return interleave(
                {label: partial(batch, pair) for label, pair in pairs.items()}, rounds
            )
        finally:
            runner.run(stack.aclose())


async def _seconds_awaited(pair: AsyncPair, times: int) -> float:
    began = perf_counter()
    for _ in range(times):
        await pair()
    return (perf_counter() - began) / times
