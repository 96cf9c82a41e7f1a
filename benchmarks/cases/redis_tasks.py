"""Many tasks, each with a lock of its own: how many pairs a second does one event loop do?"""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.cases.redis_pairs import UNGUARDED
from benchmarks.measure import Case, Effort, Target, Values, at_least, interleave, rows
from benchmarks.redis import peers
from benchmarks.redis.floors import Pipelines
from benchmarks.redis.peers import FloorTasks, HoldfastTasks, Tasks
from holdfast.lab.servers.masters import RedisMasters
from holdfast.lab.servers.redis import RedisServer

FLOOR, PEER = "a bare connection", "redis.asyncio Lock"
FLOORS = "bare connections"
LEAST_OVER_REDIS_PY = (0.0, 5.0, 7.0)
"""For few, for many and for very many tasks; nothing is promised for one."""
LEAST_OVER_AIOREDLOCK = 12.0

MIN_PAIRS = 3
"""Of each task: the first pairs of a batch go out all at once, and meet a server that has nothing
to do yet."""


def measure_single(effort: Effort, folder: Path, size: int) -> Case:
    tasks = effort.tasks[size]
    with RedisServer() as server, asyncio.Runner() as runner:

        async def prepare() -> dict[str, Tasks]:
            contenders: dict[str, Tasks] = {
                FLOOR: FloorTasks(await Pipelines.open([server.port]), tasks, quorum=False),
                "holdfast": HoldfastTasks(server.url, tasks),
                PEER: peers.RedisPyTasks(server.port, tasks),
            }
            if tasks <= peers.POOL:
                contenders["pottery"] = peers.PotteryTasks([server.port], tasks)
            return contenders

        values = _compare(runner, runner.run(prepare()), tasks, effort)
    least = LEAST_OVER_REDIS_PY[size]
    return Case(
        f"redis-async-{tasks}",
        f"Uncontended pairs of {tasks:,} task{'s' * (tasks > 1)}, Redis",
        "Acquire and release, each task its own lock, in one event loop. *a bare connection* is an "
        "`asyncio.Protocol` with hiredis that sends the same commands, without waiting for the "
        "replies to earlier ones, and those of one turn of the loop in one write."
        + (
            f" {PEER} has a pool of {peers.POOL} connections, the most that redis-py opens by "
            "default, and waits for one of them; pottery would fail here."
            if tasks > peers.POOL
            else ""
        ),
        FLOOR,
        rows(values, "pairs a second", 1, FLOOR),
        (at_least(values, "holdfast", PEER, least),) if least else (),
    )


def measure_quorum(effort: Effort, folder: Path) -> Case:
    tasks = effort.tasks[1]
    aioredlock = peers.find_aioredlock()
    with RedisMasters() as masters, asyncio.Runner() as runner:
        ports = [server.port for server in masters.servers]

        async def prepare() -> dict[str, Tasks]:
            contenders: dict[str, Tasks] = {
                FLOORS: FloorTasks(await Pipelines.open(ports), tasks, quorum=True),
                "holdfast": HoldfastTasks(masters.url + UNGUARDED, tasks),
                "pottery": peers.PotteryTasks(ports, tasks),
            }
            if aioredlock:
                contenders["aioredlock"] = peers.AioredlockTasks(aioredlock, ports)
            return contenders

        values = _compare(runner, runner.run(prepare()), tasks, effort)
    if aioredlock:
        target = at_least(values, "holdfast", "aioredlock", LEAST_OVER_AIOREDLOCK)
    else:
        promise = f"holdfast: at least {LEAST_OVER_AIOREDLOCK:g} times aioredlock"
        target = Target(promise, "aioredlock is not installed", None)
    return Case(
        "redlock-async",
        f"Uncontended pairs of {tasks:,} tasks, a quorum of five",
        "The same over five independent servers; *bare connections* waits for all five answers."
        + ("" if aioredlock else f" {peers.WITHOUT_AIOREDLOCK}"),
        FLOORS,
        rows(values, "pairs a second", 1, FLOORS),
        (target,),
    )


def _compare(
    runner: asyncio.Runner, contenders: Mapping[str, Tasks], tasks: int, effort: Effort
) -> Values:
    pairs = max(MIN_PAIRS, 10 * effort.batch // tasks)
    values = interleave(
        {
            label: partial(_batch, runner, contender, tasks, pairs)
            for label, contender in contenders.items()
        },
        max(3, effort.rounds // 5),
    )
    for contender in contenders.values():
        runner.run(contender.close())
    return values


def _batch(runner: asyncio.Runner, contender: Tasks, tasks: int, pairs: int) -> float:
    """Pairs a second."""

    async def all_at_once() -> None:
        await asyncio.gather(*(contender.pairs(task)(pairs) for task in range(tasks)))

    began = perf_counter()
    runner.run(all_at_once())
    return tasks * pairs / (perf_counter() - began)
