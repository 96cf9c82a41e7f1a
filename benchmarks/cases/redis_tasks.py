"""Many tasks, each with a lock of its own: how many pairs a second does one event loop do?"""

from functools import partial
from pathlib import Path

from benchmarks import pairs
from benchmarks.cases.redis_pairs import GUARD_IS_OFF, UNGUARDED
from benchmarks.contenders import AsyncOpening, Openings, compare
from benchmarks.measure import Case, Effort, Values, at_least, rows
from benchmarks.redis import floors, peers
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters

OURS, FLOOR, FLOORS = "holdfast", "a bare connection", "bare connections"
REDIS_PY, POTTERY, AIOREDLOCK = "redis.asyncio Lock", "pottery", "aioredlock"
LEAST_OVER_REDIS_PY = (0.0, 6.0, 7.0)
"""For few, for many and for very many tasks; nothing is promised for one."""
LEAST_OVER_PEER = 12.0

MIN_PAIRS = 5
"""Of each task: the first pairs of a batch go out all at once, and meet a server that has nothing
to do yet."""


def measure_single(effort: Effort, folder: Path, size: int) -> Case:
    tasks, least = effort.tasks[size], LEAST_OVER_REDIS_PY[size]
    with RedisServer() as server:
        openings: dict[str, AsyncOpening] = {
            FLOOR: partial(floors.bare_connections, [server.port], tasks),
            OURS: partial(pairs.by_tasks, server.url, tasks),
            REDIS_PY: partial(peers.redis_py_tasks, server.port, tasks),
        }
        if tasks <= peers.POOL:
            openings[POTTERY] = partial(peers.pottery_tasks, [server.port], tasks)
        values = _pairs_a_second(openings, tasks, effort)
    return Case(
        f"redis-async-{tasks}",
        f"Uncontended pairs of {tasks:,} task{'s' * (tasks > 1)}, Redis",
        "Acquire and release, each task its own lock, in one event loop. *a bare connection* is an "
        "`asyncio.Protocol` with hiredis that sends the same commands, without waiting for the "
        "replies to earlier ones, and those of one turn of the loop in one write."
        + (
            f" {REDIS_PY} has a pool of {peers.POOL} connections, the most that redis-py opens by "
            "default, and waits for one of them; pottery would fail here."
            if tasks > peers.POOL
            else ""
        ),
        FLOOR,
        rows(values, "pairs a second", 1, FLOOR),
        (at_least(values, OURS, REDIS_PY, least),) if least else (),
    )


def measure_quorum(effort: Effort, folder: Path) -> Case:
    tasks = effort.tasks[1]
    with RedisMasters() as masters:
        ports = [server.port for server in masters.servers]
        openings = {
            FLOORS: partial(floors.bare_connections, ports, tasks),
            OURS: partial(pairs.by_tasks, masters.url + UNGUARDED, tasks),
            POTTERY: partial(peers.pottery_tasks, ports, tasks),
            AIOREDLOCK: partial(peers.aioredlock_tasks, ports, tasks),
        }
        values = _pairs_a_second(openings, tasks, effort)
    peer = AIOREDLOCK if AIOREDLOCK in values else POTTERY
    return Case(
        "redlock-async",
        f"Uncontended pairs of {tasks:,} tasks, a quorum of five",
        f"The same over five independent servers; *{FLOORS}* goes on when three have replied, as "
        f"holdfast does. {GUARD_IS_OFF}"
        + (
            f" {AIOREDLOCK} does not run on this Python: {POTTERY} takes its place in the promise."
            if peer == POTTERY
            else ""
        ),
        FLOORS,
        rows(values, "pairs a second", 1, FLOORS),
        (at_least(values, OURS, peer, LEAST_OVER_PEER),),
    )


def _pairs_a_second(openings: Openings, tasks: int, effort: Effort) -> Values:
    times = max(MIN_PAIRS, 10 * effort.batch // tasks)
    seconds = compare(openings, times, max(3, effort.rounds // 5))
    return {label: [1 / each for each in measured] for label, measured in seconds.items()}
