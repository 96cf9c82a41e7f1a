"""Nobody else wants the lock: what does an acquire and a release cost on Redis, for a thread?"""

from pathlib import Path

import holdfast
from benchmarks.measure import Case, Effort, Values, at_most, faster, interleave, rows, seconds_each
from benchmarks.peers import TTL, Pair
from benchmarks.redis import peers
from benchmarks.redis.floors import RawSockets
from holdfast.lab.servers.masters import RedisMasters
from holdfast.lab.servers.redis import RedisServer

FLOOR, FLOORS = "a raw socket", "raw sockets"
MOST_OVER_SOCKET, MOST_OVER_SOCKETS = 1.5, 1.4
LEAST_UNDER_REDIS_PY = 2.0
LEAST_UNDER_REDLOCK_PY, LEAST_UNDER_POTTERY = 3.0, 8.0

UNGUARDED = "?restart_guard=off"
"""These servers have just been started, and nothing is to be remembered from before."""


def measure_single(effort: Effort, folder: Path) -> Case:
    with RedisServer() as server:
        others = {
            "redis-py Lock": peers.redis_py(server.port),
            "python-redis-lock": peers.python_redis_lock(server.port),
            "redlock-py": peers.redlock_py([server.port]),
            "pottery": peers.pottery_pair([server.port]),
        }
        values = _compare(server.url, RawSockets([server.port]), FLOOR, others, effort)
    return Case(
        "redis-sync",
        "Uncontended acquire and release, Redis",
        "One pair, nobody else there, by a thread. *a raw socket* sends the very same commands "
        "for a new holder id each time, and reads the replies with hiredis.",
        FLOOR,
        rows(values, "µs", 1e6, FLOOR),
        (
            at_most(values, "holdfast", FLOOR, MOST_OVER_SOCKET),
            faster(values, "holdfast", "redis-py Lock", LEAST_UNDER_REDIS_PY),
        ),
    )


def measure_quorum(effort: Effort, folder: Path) -> Case:
    with RedisMasters() as masters:
        ports = [server.port for server in masters.servers]
        others = {
            "redlock-py": peers.redlock_py(ports),
            "pottery": peers.pottery_pair(ports),
        }
        url = masters.url + UNGUARDED
        values = _compare(url, RawSockets(ports), FLOORS, others, effort)
    return Case(
        "redlock-sync",
        "Uncontended acquire and release, a quorum of five",
        "The same over five independent servers. *raw sockets* sends to all, then reads all "
        "replies; holdfast goes on when three of them have answered.",
        FLOORS,
        rows(values, "µs", 1e6, FLOORS),
        (
            at_most(values, "holdfast", FLOORS, MOST_OVER_SOCKETS),
            faster(values, "holdfast", "redlock-py", LEAST_UNDER_REDLOCK_PY),
            faster(values, "holdfast", "pottery", LEAST_UNDER_POTTERY),
        ),
    )


def holdfast_pair(client: holdfast.Client) -> Pair:
    lock = client.lock("bench", ttl=TTL)

    def acquire_and_release() -> None:
        lease = lock.acquire()
        assert lease
        lease.release()

    return acquire_and_release


def _compare(
    url: str, sockets: RawSockets, floor: str, others: dict[str, Pair], effort: Effort
) -> Values:
    with holdfast.Client(url) as client:
        lock = client.lock("bench", ttl=TTL)

        def block() -> None:
            with lock:
                pass

        pairs = {floor: sockets.pair(), "holdfast": holdfast_pair(client), "holdfast, with": block}
        values = interleave(
            {
                label: lambda pair=pair: seconds_each(pair, effort.batch // 2 + 1)  # type: ignore[misc]
                for label, pair in (pairs | others).items()
            },
            effort.rounds,
        )
    sockets.close()
    return values
