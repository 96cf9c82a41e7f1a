"""holdfast as a contender: a pair by a thread, in a `with` block, or by tasks."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from types import SimpleNamespace
from typing import Any

import holdfast
from benchmarks.contenders import TTL, AsyncPair, Pair


def by_thread(url: str, stack: ExitStack) -> Pair:
    client = stack.enter_context(holdfast.Client(url))
    return pair_of(client)


def by_threads(url: str, threads: int, stack: ExitStack) -> Sequence[Pair]:
    """Each has a lock of its own, and all have one client."""
    client = stack.enter_context(holdfast.Client(url))
    return [pair_of(client, f"bench:{thread}") for thread in range(threads)]


def with_hook(url: str, stack: ExitStack) -> Pair:
    return pair_of(stack.enter_context(holdfast.Client(url, hooks=[lambda event: None])))


def looks_for_hooks(stack: ExitStack) -> Pair:
    """What a pair without hooks does on account of events, and nothing else."""
    runtime: Any = SimpleNamespace(has_hooks=False)

    def look() -> None:
        contender = runtime
        contender.is_reported = runtime.has_hooks
        if contender.is_reported:
            raise AssertionError
        if contender.is_reported:
            raise AssertionError
        if runtime.has_hooks:
            raise AssertionError

    return look


def with_metrics(url: str, stack: ExitStack) -> Pair:
    from prometheus_client import CollectorRegistry

    from holdfast.contrib.prometheus import Metrics

    return pair_of(stack.enter_context(holdfast.Client(url, hooks=[Metrics(CollectorRegistry())])))


def by_reader(url: str, stack: ExitStack) -> Pair:
    client = stack.enter_context(holdfast.Client(url))
    return _of_lock(client.rwlock("bench:read", ttl=TTL).read)


def by_slot(url: str, slots: int, stack: ExitStack) -> Pair:
    client = stack.enter_context(holdfast.Client(url))
    return _of_lock(client.semaphore("bench:slots", slots, ttl=TTL))


def pair_of(client: holdfast.Client, name: str = "bench") -> Pair:
    return _of_lock(client.lock(name, ttl=TTL))


def _of_lock(lock: holdfast.Lock) -> Pair:
    def acquire_and_release() -> None:
        lease = lock.acquire()
        assert lease
        lease.release()

    return acquire_and_release


def in_block(url: str, stack: ExitStack) -> Pair:
    lock = stack.enter_context(holdfast.Client(url)).lock("bench", ttl=TTL)

    def block() -> None:
        with lock:
            pass

    return block


async def by_tasks(url: str, tasks: int, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    """Each has a lock of its own, and all have one client."""
    client = await stack.enter_async_context(holdfast.AsyncClient(url))
    return [_of_task(client.lock(f"bench:{task}", ttl=TTL)) for task in range(tasks)]


def _of_task(lock: holdfast.AsyncLock) -> AsyncPair:
    async def acquire_and_release() -> None:
        lease = await lock.acquire()
        assert lease
        await lease.release()

    return acquire_and_release
