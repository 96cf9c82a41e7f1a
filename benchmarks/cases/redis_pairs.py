"""No contention: what does an acquire and a release cost on Redis, for a thread?"""

from functools import partial
from pathlib import Path

from benchmarks import pairs
from benchmarks.contenders import compare, in_threads
from benchmarks.measure import Case, Effort, at_least, at_most, faster, rows
from benchmarks.redis import floors, peers
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters

OURS, BLOCK = "holdfast", "holdfast, with"
FLOOR, FLOORS = "a raw socket", "raw sockets"
REDIS_PY, PYTHON_REDIS_LOCK = "redis-py Lock", "python-redis-lock"
REDLOCK_PY, POTTERY = "redlock-py", "pottery"
THREADS = 8
LEAST_OVER_REDIS_PY_IN_THREADS = 1.2
"""Four fifths of what the release with two connections did (1.5 times), which was more complicated.
"""
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
            PYTHON_REDIS_LOCK: partial(peers.python_redis_lock, server.port),
            REDLOCK_PY: partial(peers.redlock_py, [server.port]),
            POTTERY: partial(peers.pottery, [server.port]),
        }
        values = compare(openings, LONG * effort.batch, effort.rounds // SELDOM)
    return Case(
        "redis-sync",
        "Uncontended acquire and release, Redis",
        "One uncontended pair by a thread. *a raw socket* sends the same commands "
        "for a new holder id each time, and reads the replies with hiredis.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, OURS, FLOOR, MOST_OVER_SOCKET),
            faster(values, OURS, REDIS_PY, LEAST_UNDER_REDIS_PY),
        ),
    )


def measure_threads(effort: Effort, folder: Path) -> Case:
    batch = LONG * effort.batch // THREADS + 1
    with RedisServer() as server:
        opened = {
            FLOOR: partial(floors.socket_each, server.port),
            OURS: partial(pairs.by_threads, server.url),
            REDIS_PY: partial(peers.redis_py_threads, server.port),
            PYTHON_REDIS_LOCK: partial(peers.python_redis_lock_threads, server.port),
        }
        openings = {
            label: partial(in_threads, open_all, THREADS, batch)
            for label, open_all in opened.items()
        }
        seconds = compare(openings, 1, effort.rounds // SELDOM)
    rates = {label: [THREADS * batch / each for each in of] for label, of in seconds.items()}
    return Case(
        "redis-threads",
        f"Uncontended pairs of {THREADS} threads, Redis",
        "Acquire and release, each thread its own lock, and one client for all. *a raw socket* is "
        "one for each thread.",
        FLOOR,
        rows(rates, "pairs a second", 1, FLOOR),
        (at_least(rates, OURS, REDIS_PY, LEAST_OVER_REDIS_PY_IN_THREADS),),
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
