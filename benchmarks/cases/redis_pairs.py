"""Nobody else wants the lock: what does an acquire and a release cost on Redis, for a thread?"""

from functools import partial
from pathlib import Path

from benchmarks import pairs
from benchmarks.contenders import compare
from benchmarks.measure import Case, Effort, at_most, faster, rows
from benchmarks.redis import floors, peers
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters

OURS, BLOCK = "holdfast", "holdfast, with"
FLOOR, FLOORS = "a raw socket", "raw sockets"
REDIS_PY, REDLOCK_PY, POTTERY = "redis-py Lock", "redlock-py", "pottery"
MOST_OVER_SOCKET, MOST_OVER_SOCKETS = 1.5, 1.4
LEAST_UNDER_REDIS_PY = 1.8
LEAST_UNDER_REDLOCK_PY, LEAST_UNDER_POTTERY = 2.8, 8.0

LONG, SELDOM = 4, 3
"""Longer batches, and so fewer rounds: at first a client and the server may share a core, until the
system spreads them out, which takes it as long as a hundred pairs or two."""

UNGUARDED = "?restart_guard=off"
GUARD_IS_OFF = (
    "holdfast runs with `restart_guard=off`: otherwise it would refuse these servers for a minute "
    "after their start. The guard works when a connection is opened, and costs a pair nothing. "
    "None of the peers has one."
)


def measure_single(effort: Effort, folder: Path) -> Case:
    with RedisServer() as server:
        openings = {
            FLOOR: partial(floors.raw_sockets, [server.port]),
            OURS: partial(pairs.by_thread, server.url),
            BLOCK: partial(pairs.in_block, server.url),
            REDIS_PY: partial(peers.redis_py, server.port),
            "python-redis-lock": partial(peers.python_redis_lock, server.port),
            REDLOCK_PY: partial(peers.redlock_py, [server.port]),
            POTTERY: partial(peers.pottery, [server.port]),
        }
        values = compare(openings, LONG * effort.batch, effort.rounds // SELDOM)
    return Case(
        "redis-sync",
        "Uncontended acquire and release, Redis",
        "One pair, nobody else there, by a thread. *a raw socket* sends the very same commands "
        "for a new holder id each time, and reads the replies with hiredis.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, OURS, FLOOR, MOST_OVER_SOCKET),
            faster(values, OURS, REDIS_PY, LEAST_UNDER_REDIS_PY),
        ),
    )


def measure_quorum(effort: Effort, folder: Path) -> Case:
    with RedisMasters() as masters:
        ports, url = [server.port for server in masters.servers], masters.url + UNGUARDED
        openings = {
            FLOORS: partial(floors.raw_sockets, ports),
            OURS: partial(pairs.by_thread, url),
            BLOCK: partial(pairs.in_block, url),
            REDLOCK_PY: partial(peers.redlock_py, ports),
            POTTERY: partial(peers.pottery, ports),
        }
        values = compare(openings, LONG * effort.batch, effort.rounds // SELDOM)
    return Case(
        "redlock-sync",
        "Uncontended acquire and release, a quorum of five",
        "The same over five independent servers. *raw sockets* sends to all, and goes on when "
        f"three have replied, as holdfast does. {GUARD_IS_OFF}",
        FLOORS,
        rows(values, "µs", 1e6, FLOORS),
        (
            at_most(values, OURS, FLOORS, MOST_OVER_SOCKETS),
            faster(values, OURS, REDLOCK_PY, LEAST_UNDER_REDLOCK_PY),
            faster(values, OURS, POTTERY, LEAST_UNDER_POTTERY),
        ),
    )
