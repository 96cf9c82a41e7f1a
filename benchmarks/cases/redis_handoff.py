"""A waiter sleeps in another process: how long from the release until it has the lock on Redis?"""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import redis
import redis_lock

import holdfast
from benchmarks.contenders import TTL
from benchmarks.measure import Case, Effort, figure_at_most, interleave, rows
from benchmarks.redis.contest import QueueLock, put_token
from benchmarks.workers import Lock, Worker
from holdfast.drivers.common import clock
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import RedisServer

MOST_MILLISECONDS = 1.5
FLOOR = "a bare queue"
SETTLE = 0.05
"""Seconds in which a waiter falls asleep."""
POLL = 0.1
"""redis-py's default."""

Open: TypeAlias = Callable[[int, ExitStack], Any]
"""Opens a lock on the server at a port."""


def measure(effort: Effort, folder: Path) -> Case:
    kinds: dict[str, Open] = {
        FLOOR: _queue,
        "holdfast": _ours,
        "python-redis-lock": _python_redis_lock,
        "redis-py Lock": _redis_py,
        "redis-py, 10 ms poll": _redis_py_10ms,
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


def _between(open_lock: Open, server: RedisServer, stack: ExitStack) -> Callable[[], float]:
    waiter = stack.enter_context(Worker(_wait_and_tell, server.port, open_lock))
    lock = open_lock(server.port, stack)

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


def _ours(port: int, stack: ExitStack) -> Lock:
    return stack.enter_context(holdfast.Client(f"redis://{HOST}:{port}", ttl=TTL)).lock("handoff")


def _queue(port: int, stack: ExitStack) -> Lock:
    return QueueLock(port)


def _redis_py(port: int, stack: ExitStack) -> Any:
    return redis.Redis(HOST, port).lock("bench:handoff", timeout=TTL)


def _redis_py_10ms(port: int, stack: ExitStack) -> Any:
    return redis.Redis(HOST, port).lock("bench:handoff-10ms", timeout=TTL, sleep=0.01)


def _python_redis_lock(port: int, stack: ExitStack) -> Any:
    return redis_lock.Lock(redis.Redis(HOST, port), "bench:handoff-blpop", expire=TTL)


def _wait_and_tell(pipe: "Connection[Any, Any]", port: int, open_lock: Open) -> None:
    """For each message: wait for the lock, send the instant of getting it, release."""
    with ExitStack() as stack:
        lock = open_lock(port, stack)
        while True:
            pipe.recv()
            assert lock.acquire() is not False
            pipe.send(clock())
            lock.release()
            pipe.send("released")
