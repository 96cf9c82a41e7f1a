"""Nobody else wants the lock: what does an acquire and a release cost on ZooKeeper?"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

import holdfast
from benchmarks import servers
from benchmarks.measure import Case, Effort, at_most, rows
from benchmarks.pairs import async_holdfast_pair, compare, compare_async, holdfast_pair
from benchmarks.peers import TTL, AsyncPair, Pair, not_slower
from holdfast.lab.servers.zookeeper import ZooKeeperServer

OURS, FLOOR, PEER = "holdfast", "bare kazoo", "kazoo Lock"
IN_TURN = "bare kazoo, one by one"
MOST_OVER_FLOOR = 1.3
QUEUE = "/bench"


def measure_threads(effort: Effort, folder: Path) -> Case:
    server = servers.zookeeper()
    with connected(server) as kazoo, holdfast.Client(server.url) as client:
        pairs = {
            FLOOR: bare(kazoo),
            IN_TURN: one_by_one(kazoo),
            OURS: holdfast_pair(client),
            PEER: recipe(kazoo),
        }
        values = compare(pairs, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "zookeeper-sync",
        "Uncontended acquire and release, ZooKeeper",
        f"One pair, nobody else there, by a thread. *{FLOOR}* makes an ephemeral sequential node, "
        "lists the queue in the same breath, and deletes the node; *one by one* waits for each of "
        "the three.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, OURS, FLOOR, MOST_OVER_FLOOR), not_slower(values, PEER)),
    )


def measure_tasks(effort: Effort, folder: Path) -> Case:
    server = servers.zookeeper()
    with connected(server) as kazoo:

        async def open_pairs(stack: AsyncExitStack) -> dict[str, AsyncPair]:
            client = await stack.enter_async_context(holdfast.AsyncClient(server.url))
            in_thread = recipe(kazoo)
            return {
                FLOOR: async_bare(kazoo),
                OURS: async_holdfast_pair(client),
                PEER: lambda: asyncio.to_thread(in_thread),
            }

        values = compare_async(open_pairs, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "zookeeper-async",
        "Uncontended acquire and release, ZooKeeper, asyncio",
        f"The same by a task. kazoo has no asyncio: *{FLOOR}* awaits futures that kazoo's thread "
        f"settles, and *{PEER}* has a thread do its work.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, OURS, FLOOR, MOST_OVER_FLOOR), not_slower(values, PEER)),
    )


@contextmanager
def connected(server: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(server.address, timeout=TTL)
    client.start()
    client.ensure_path(QUEUE)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def bare(kazoo: KazooClient) -> Pair:
    def acquire_and_release() -> None:
        made = kazoo.create_async(
            f"{QUEUE}/place", b"", ephemeral=True, sequence=True, include_data=True
        )
        listed = kazoo.get_children_async(QUEUE)
        path, _ = made.get()
        assert len(listed.get()) == 1
        kazoo.delete(path)

    return acquire_and_release


def async_bare(kazoo: KazooClient) -> AsyncPair:
    async def acquire_and_release() -> None:
        made = kazoo.create_async(
            f"{QUEUE}/place", b"", ephemeral=True, sequence=True, include_data=True
        )
        listed = kazoo.get_children_async(QUEUE)
        assert len(await _kept(listed)) == 1  # by then, the first one is kept too
        path, _ = made.get()
        await _kept(kazoo.delete_async(path))

    return acquire_and_release


async def _kept(promise: Any) -> Any:
    """What kazoo has promised, once its thread has settled it."""
    loop = asyncio.get_running_loop()
    settled = loop.create_future()
    promise.rawlink(lambda _: loop.call_soon_threadsafe(settled.set_result, None))
    await settled
    return promise.get()


def one_by_one(kazoo: KazooClient) -> Pair:
    def acquire_and_release() -> None:
        path = kazoo.create(f"{QUEUE}/place", b"", ephemeral=True, sequence=True)
        assert len(kazoo.get_children(QUEUE)) == 1
        kazoo.delete(path)

    return acquire_and_release


def recipe(kazoo: KazooClient) -> Pair:
    lock = kazoo.Lock(f"{QUEUE}-recipe", "bench")

    def acquire_and_release() -> None:
        lock.acquire()
        lock.release()

    return acquire_and_release
