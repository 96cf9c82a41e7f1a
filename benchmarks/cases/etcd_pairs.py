"""Nobody else wants the lock: what does an acquire and a release cost on etcd?"""

from functools import partial
from pathlib import Path

from benchmarks import etcd, pairs, servers
from benchmarks.contenders import compare
from benchmarks.measure import Case, Effort, at_most, faster, rows

OURS, FLOOR, LESS = "holdfast", "the raw calls", "two raw calls"
PEER, TIDY = "aetcd", "aetcd, lease revoked"
MOST_OVER_CALLS = 1.3

WHAT = (
    f"*{FLOOR}* are LeaseGrant, Txn and LeaseRevoke through the same library, with the same "
    "messages for a new holder id each time. In a loop as quick as this, holdfast uses a lease "
    f"again, and makes two calls: *{LESS}* are these. The server does not wait for its disk."
)


def measure_threads(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()
    openings = {
        FLOOR: partial(etcd.raw, server.address, etcd.three_calls),
        LESS: partial(etcd.raw, server.address, etcd.two_calls),
        OURS: partial(pairs.by_thread, server.url),
    }
    values = compare(openings, effort.batch // 2, effort.rounds // 2)
    return Case(
        "etcd-sync",
        "Uncontended acquire and release, etcd",
        f"One pair, nobody else there, by a thread. {WHAT} There is no peer for threads.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (at_most(values, OURS, FLOOR, MOST_OVER_CALLS),),
    )


def measure_tasks(effort: Effort, folder: Path) -> Case:
    server = servers.etcd()
    openings = {
        FLOOR: partial(etcd.async_raw, server.address, etcd.three_calls),
        LESS: partial(etcd.async_raw, server.address, etcd.two_calls),
        OURS: partial(pairs.by_tasks, server.url, 1),
        PEER: partial(etcd.aetcd, server.port, False),
        TIDY: partial(etcd.aetcd, server.port, True),
    }
    values = compare(openings, effort.batch // 2, effort.rounds // 2)
    return Case(
        "etcd-async",
        "Uncontended acquire and release, etcd, asyncio",
        f"The same by a task. {WHAT} The lock of {PEER} deletes its key and leaves its lease "
        f"behind, which lives on until the ttl is over; *{TIDY}* leaves nothing behind, as "
        "holdfast does.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, OURS, FLOOR, MOST_OVER_CALLS),
            faster(values, OURS, PEER),
            faster(values, OURS, TIDY),
        ),
    )
