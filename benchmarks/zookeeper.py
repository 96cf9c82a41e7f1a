"""Contenders on ZooKeeper: what holdfast asks for, through kazoo; and kazoo's own Lock."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from kazoo.client import KazooClient

from benchmarks.contenders import TTL, AsyncPair, Pair, pair_with

QUEUE = "/bench"


def bare(address: str, stack: ExitStack) -> Pair:
    kazoo = _connected(address, stack)

    def acquire_and_release() -> None:
        made, listed = _take_a_place(kazoo)
        path, _ = made.get()
        assert len(listed.get()) == 1
        kazoo.delete(path)

    return acquire_and_release


def one_by_one(address: str, stack: ExitStack) -> Pair:
    kazoo = _connected(address, stack)

    def acquire_and_release() -> None:
        path = kazoo.create(f"{QUEUE}/place", b"", ephemeral=True, sequence=True)
        assert len(kazoo.get_children(QUEUE)) == 1
        kazoo.delete(path)

    return acquire_and_release


def recipe(address: str, stack: ExitStack) -> Pair:
    return pair_with(_connected(address, stack).Lock(f"{QUEUE}-recipe", "bench"))


def read_recipe(address: str, stack: ExitStack) -> Pair:
    return pair_with(_connected(address, stack).ReadLock(f"{QUEUE}-read", "bench"))


def semaphore_recipe(address: str, slots: int, stack: ExitStack) -> Pair:
    return pair_with(_connected(address, stack).Semaphore(f"{QUEUE}-slots", "bench", slots))


async def async_bare(address: str, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    kazoo = _connected(address, stack)

    async def acquire_and_release() -> None:
        made, listed = _take_a_place(kazoo)
        assert len(await _kept(listed)) == 1  # by then, the first one is kept too
        path, _ = made.get()
        await _kept(kazoo.delete_async(path))

    return [acquire_and_release]


async def async_recipe(address: str, stack: AsyncExitStack) -> Sequence[AsyncPair]:
    in_thread = recipe(address, stack.enter_context(ExitStack()))
    return [lambda: asyncio.to_thread(in_thread)]


def _connected(address: str, stack: ExitStack | AsyncExitStack) -> KazooClient:
    client = KazooClient(address, timeout=TTL)
    client.start()
    stack.callback(client.close)
    stack.callback(client.stop)
    client.ensure_path(QUEUE)
    return client


def _take_a_place(kazoo: KazooClient) -> tuple[Any, Any]:
    """Make an ephemeral sequential node, and list the queue in the same breath."""
    made = kazoo.create_async(
        f"{QUEUE}/place", b"", ephemeral=True, sequence=True, include_data=True
    )
    return made, kazoo.get_children_async(QUEUE)


async def _kept(promise: Any) -> Any:
    """What kazoo has promised, once its thread has settled it."""
    loop = asyncio.get_running_loop()
    settled = loop.create_future()
    promise.rawlink(lambda _: loop.call_soon_threadsafe(settled.set_result, None))
    await settled
    return promise.get()
