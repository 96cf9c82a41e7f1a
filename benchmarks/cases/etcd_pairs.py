"""No contention: what does an acquire and a release cost on etcd?"""

from functools import partial
from pathlib import Path

from benchmarks import etcd, pairs, servers
from benchmarks.contenders import compare
from benchmarks.measure import Case, Effort, at_most, faster, rows

OURS, FLOOR = "holdfast", "the raw calls"
PEER, TIDY = "aetcd", "aetcd, lease revoked"
MOST_OVER_CALLS = 1.4

WHAT = (
    f"*{FLOOR}* are the two that holdfast makes, through the same library: a transaction that "
    "creates the key for a new holder id, and a deletion. The etcd lease is there before, as it is "
    "for holdfast, whose locks share one. The server does not wait for its disk."
)


def measure_threads(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()
    openings = {
        FLOOR: partial(etcd.raw, server.address),
        OURS: partial(pairs.by_thread, server.url),
    }
    values = compare(openings, effort.batch // 2, effort.rounds // 2)
    return Case(
        "etcd-sync",
        "Uncontended acquire and release, etcd",
        f"One pair by a thread, uncontended. {WHAT} There is no peer for threads.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, OURS, FLOOR, MOST_OVER_CALLS),),
    )


def measure_tasks(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()
    openings = {
        FLOOR: partial(etcd.async_raw, server.address),
        OURS: partial(pairs.by_tasks, server.url, 1),
        PEER: partial(etcd.aetcd, server.port, False),
        TIDY: partial(etcd.aetcd, server.port, True),
    }
    values = compare(openings, effort.batch // 2, effort.rounds // 2)
    return Case(
        "etcd-async",
        "Uncontended acquire and release, etcd, asyncio",
        f"The same by a task. {WHAT} The lock of {PEER} is granted an etcd lease of its own "
        f"each time, and leaves it behind until the ttl is over; *{TIDY}* leaves nothing behind.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, OURS, FLOOR, MOST_OVER_CALLS),
            faster(values, OURS, PEER),
            faster(values, OURS, TIDY),
        ),
    )
