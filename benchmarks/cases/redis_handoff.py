"""A waiter sleeps in another process: how long from the release until it has the lock on Redis?"""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import Case, Effort, figure_at_most, interleave, rows
from benchmarks.redis import idle
from benchmarks.redis.contest import put_token
from benchmarks.workers import Worker
from holdfast.drivers.common import clock
from holdfast.lab.servers.redis import RedisServer

MOST_MILLISECONDS = 1.5
FLOOR = "a bare queue"
SETTLE = 0.05
"""Seconds in which a waiter falls asleep."""
POLL = 0.1
"""redis-py's default."""


def measure(effort: Effort, folder: Path) -> Case:
    kinds: dict[str, idle.Open] = {
        FLOOR: idle.queue,
        "holdfast": idle.ours,
        "python-redis-lock": idle.python_redis_lock,
        "redis-py Lock": idle.redis_py,
        "redis-py, 10 ms poll": idle.redis_py_10ms,
    }
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer())
        put_token(server)
        values = interleave(
            {label: _between(open_lock, server, stack) for label, open_lock in kinds.items()},
            effort.handoffs,
        )
    ours = [seconds * 1000 for seconds in values["holdfast"]]
    return Case(
        "redis-handoff",
        "Hand-off between two processes, Redis",
        "From just before the release in one process until an idle waiter in another has the lock. "
        f"*{FLOOR}* is the floor: LPUSH of a token, BLPOP and one confirming round trip. A Lock of "
        "redis-py asks every 100 ms unless told otherwise.",
        FLOOR,
        rows(values, "ms", 1e3, FLOOR),
        (figure_at_most(f"at most {MOST_MILLISECONDS:g} ms", ours, MOST_MILLISECONDS, "ms"),),
    )


def _between(open_lock: idle.Open, server: RedisServer, stack: ExitStack) -> Callable[[], float]:
    waiter = stack.enter_context(Worker(idle.wait_and_tell, server.port, open_lock))
    lock = stack.enter_context(open_lock(server.port))

    def hand_off() -> float:
        assert lock.acquire() is not False
        waiter.tell("wait")
        time.sleep(SETTLE + random.uniform(0, POLL))  # at any point of a poll's interval
        released = clock()
        lock.release()
        got = float(waiter.answer())
        waiter.answer()
        return got - released

    return hand_off
