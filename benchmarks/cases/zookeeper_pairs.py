"""Nobody else wants the lock: what does an acquire and a release cost on ZooKeeper?"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from kazoo.client import KazooClient

import holdfast
from benchmarks.measure import Case, Effort, at_most, faster, interleave, rows, seconds_each
from benchmarks.peers import TTL, Pair
from holdfast.lab.servers.zookeeper import ZooKeeperServer

FLOOR, IN_TURN, RECIPE = "bare kazoo", "bare kazoo, one by one", "kazoo Lock"
MOST_OVER_FLOOR = 1.3
QUEUE = "/bench"


def measure_threads(effort: Effort, folder: Path) -> Case:
    with (
        ZooKeeperServer() as server,
        connected(server) as kazoo,
        holdfast.Client(server.url) as client,
    ):
        pairs = {
            FLOOR: bare(kazoo),
            IN_TURN: one_by_one(kazoo),
            RECIPE: recipe(kazoo),
            "holdfast": holdfast_pair(client),
        }
        values = interleave(
            {
                label: lambda pair=pair: seconds_each(pair, effort.batch // 4 + 1)  # type: ignore[misc]
                for label, pair in pairs.items()
            },
            effort.rounds,
        )
    return Case(
        "zookeeper-sync",
        "Uncontended acquire and release, ZooKeeper",
        "One pair, nobody else there, by a thread. *bare kazoo* makes an ephemeral sequential "
        "node, lists the queue in the same breath, and deletes the node; *one by one* waits for "
        "each of the three.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, "holdfast", FLOOR, MOST_OVER_FLOOR),
            faster(values, "holdfast", RECIPE, 1.0),
        ),
    )


def measure_tasks(effort: Effort, folder: Path) -> Case:
    with ZooKeeperServer() as server, connected(server) as kazoo:
        floor, loop = bare(kazoo), asyncio.new_event_loop()
        client = holdfast.AsyncClient(server.url)
        turns = effort.batch // 4 + 1
        values = interleave(
            {
                FLOOR: lambda: seconds_each(floor, turns),
                "holdfast": lambda: loop.run_until_complete(seconds_awaited(client, turns)),
            },
            effort.rounds,
        )
        loop.run_until_complete(client.aclose())
        loop.close()
    return Case(
        "zookeeper-async",
        "Uncontended acquire and release, ZooKeeper, asyncio",
        "The same by a task. kazoo has no asyncio, so *bare kazoo* is that of a thread.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (),
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


def holdfast_pair(client: holdfast.Client) -> Pair:
    lock = client.lock("bench", ttl=TTL)

    def acquire_and_release() -> None:
        with lock:
            pass

    return acquire_and_release


async def seconds_awaited(client: holdfast.AsyncClient, turns: int) -> float:
    lock = client.lock("bench", ttl=TTL)
    async with lock:
        pass
    began = perf_counter()
    for _ in range(turns):
        async with lock:
            pass
    return (perf_counter() - began) / turns
