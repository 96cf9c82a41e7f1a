"""Thousands of leases on Redis in one client: what does keeping them cost?"""

import asyncio
import gc
import threading
import time
import tracemalloc
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import redis
import redis_lock

import holdfast
from benchmarks.cases.leases import THREADS
from benchmarks.measure import Case, Effort, Row, Spread, figure_at_most
from benchmarks.workers import Worker
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import RedisServer

TTL = 30
MOST_PERCENT = 2.0
MOST_BYTES = 600
PEER = "python-redis-lock"


class Cost(NamedTuple):
    """What holding them came to."""

    percent: float
    """Of one core."""
    size: float
    """Bytes that each of them takes in the client."""
    extra: int
    """Threads, or tasks, besides the main one."""
    lost: int


def measure(effort: Effort, folder: Path) -> Case:
    jobs: list[tuple[str, Callable[..., None], int]] = []
    for count in effort.held:
        jobs += [
            (f"holdfast, {count:,}", _hold, count),
            (f"holdfast, async, {count:,}", _hold_async, count),
        ]
    jobs.append((f"{PEER}, {effort.held[0]:,}", _hold_peer, effort.held[0]))
    costs: dict[str, Cost] = {}
    with RedisServer(options=("--maxclients", "10000")) as server:
        workers = [(label, Worker(job, server.port, n, effort.hold)) for label, job, n in jobs]
        for label, worker in workers:
            with worker:
                costs[label] = worker.answer()
    return _case(costs, effort)


def _case(costs: dict[str, Cost], effort: Effort) -> Case:
    kinds: list[tuple[str, Callable[[Cost], float]]] = [
        ("% of a core", lambda cost: cost.percent),
        ("bytes a lease", lambda cost: cost.size),
        ("threads or tasks", lambda cost: cost.extra),
    ]
    case_rows = [
        Row(label, unit, Spread.of([figure(cost)]), ours=label.startswith("holdfast"))
        for unit, figure in kinds
        for label, cost in costs.items()
    ]
    ours = [cost for label, cost in costs.items() if label.startswith("holdfast")]
    most = [cost for label, cost in costs.items() if label.endswith(f" {effort.held[-1]:,}")]
    percent = max(cost.percent for cost in ours)
    size = max(cost.size for cost in most)
    extra = max(cost.extra for cost in ours)
    lost = sum(cost.lost for cost in ours)
    return Case(
        "redis-leases",
        f"{' and '.join(f'{count:,}' for count in effort.held)} held leases, Redis",
        f"One client that holds them for {effort.hold:g} s; ttl {TTL} s, so that each is renewed "
        "every 10 s. Memory is all that the client has allocated for them, but for the `Lock` "
        f"objects, which are dropped. {PEER} has a thread for each; its ttl is {TTL // 2} s here, "
        "so that it renews as often.",
        "",
        tuple(case_rows),
        (
            figure_at_most(f"at most {MOST_PERCENT:g} % of a core", [percent], MOST_PERCENT, "%"),
            figure_at_most(f"at most {MOST_BYTES:g} bytes a lease", [size], MOST_BYTES, "bytes"),
            figure_at_most(THREADS, [extra], 2, ""),
            figure_at_most("none is lost", [lost], 0, "lost"),
        ),
    )


def _hold(pipe: "Connection[Any, Any]", port: int, count: int, seconds: float) -> None:
    with holdfast.Client(_url(port), ttl=TTL) as client:
        warm_up = client.lock(f"{count}").acquire()
        names = [f"{count}:{number}" for number in range(count)]
        leases: list[holdfast.Lease | None] = [None] * count
        before = _start_tracing()
        for number, name in enumerate(names):
            leases[number] = client.lock(name).acquire()
        size = _stop_tracing(before) / count
        cpu, wall = time.process_time(), time.monotonic()
        time.sleep(seconds)
        percent = 100 * (time.process_time() - cpu) / (time.monotonic() - wall)
        lost = sum(lease is None or not lease.held for lease in [warm_up, *leases])
        pipe.send(Cost(percent, size, threading.active_count() - 1, lost))


def _hold_async(pipe: "Connection[Any, Any]", port: int, count: int, seconds: float) -> None:
    async def hold() -> None:
        async with holdfast.AsyncClient(_url(port), ttl=TTL) as client:
            warm_up = await client.lock(f"async:{count}").acquire()
            names = [f"async:{count}:{number}" for number in range(count)]
            leases: list[holdfast.AsyncLease | None] = [None] * count
            before = _start_tracing()
            for number, name in enumerate(names):
                leases[number] = await client.lock(name).acquire()
            size = _stop_tracing(before) / count
            cpu, wall = time.process_time(), time.monotonic()
            await asyncio.sleep(seconds)
            percent = 100 * (time.process_time() - cpu) / (time.monotonic() - wall)
            lost = sum(lease is None or not lease.held for lease in [warm_up, *leases])
            pipe.send(Cost(percent, size, len(asyncio.all_tasks()) - 1, lost))

    asyncio.run(hold())


def _hold_peer(pipe: "Connection[Any, Any]", port: int, count: int, seconds: float) -> None:
    client = redis.Redis(HOST, port)
    names = [f"bench:job:{number}" for number in range(count)]
    before = _start_tracing()
    locks = [redis_lock.Lock(client, name, expire=TTL // 2, auto_renewal=True) for name in names]
    for lock in locks:
        lock.acquire()
    size = _stop_tracing(before) / count
    cpu, wall = time.process_time(), time.monotonic()
    time.sleep(seconds)
    percent = 100 * (time.process_time() - cpu) / (time.monotonic() - wall)
    pipe.send(Cost(percent, size, threading.active_count() - 1, 0))


def _url(port: int) -> str:
    return f"redis://{HOST}:{port}"


def _start_tracing() -> int:
    gc.collect()
    tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]


def _stop_tracing(before: int) -> int:
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return size
