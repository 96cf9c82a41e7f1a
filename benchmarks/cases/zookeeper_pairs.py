"""No contention: what does an acquire and a release cost on ZooKeeper?"""

from functools import partial
from pathlib import Path

from benchmarks import pairs, servers, zookeeper
from benchmarks.contenders import compare
from benchmarks.measure import Case, Effort, at_most, faster, rows

OURS, FLOOR, PEER = "holdfast", "bare kazoo", "kazoo Lock"
IN_TURN = "bare kazoo, one by one"
MOST_OVER_FLOOR = 1.4


def measure_threads(effort: Effort, folder: Path) -> Case:
    server = servers.zookeeper()
    openings = {
        FLOOR: partial(zookeeper.bare, server.address),
        IN_TURN: partial(zookeeper.one_by_one, server.address),
        OURS: partial(pairs.by_thread, server.url),
        PEER: partial(zookeeper.recipe, server.address),
    }
    values = compare(openings, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "zookeeper-sync",
        "Uncontended acquire and release, ZooKeeper",
        f"One uncontended pair by a thread. *{FLOOR}* makes an ephemeral sequential node, "
        "lists the queue without waiting for that, and deletes the node; *one by one* waits for "
        "each of the three.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, OURS, FLOOR, MOST_OVER_FLOOR), faster(values, OURS, PEER)),
    )


def measure_tasks(effort: Effort, folder: Path) -> Case:
    server = servers.zookeeper()
    openings = {
        FLOOR: partial(zookeeper.async_bare, server.address),
        OURS: partial(pairs.by_tasks, server.url, 1),
        PEER: partial(zookeeper.async_recipe, server.address),
    }
    values = compare(openings, effort.batch // 4 + 1, effort.rounds)
    return Case(
        "zookeeper-async",
        "Uncontended acquire and release, ZooKeeper, asyncio",
        f"The same by a task. kazoo has no asyncio: *{FLOOR}* awaits futures that kazoo's thread "
        f"settles, and *{PEER}* has a thread do its work.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, OURS, FLOOR, MOST_OVER_FLOOR), faster(values, OURS, PEER)),
    )
