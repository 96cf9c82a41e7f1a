"""A waiter that sleeps in another process, on each kind of lock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import redis
import redis_lock

import holdfast
from benchmarks.contenders import TTL
from benchmarks.redis.contest import Lock, QueueLock
from holdfast.drivers.common import clock
from holdfast.lab.servers.process import HOST

Open = Callable[[int], Any]
"""Opens a lock on the server at a port, for as long as a `with` lasts."""


@contextmanager
def ours(port: int) -> Iterator[Lock]:
    with holdfast.Client(f"redis://{HOST}:{port}", ttl=TTL) as client:
        yield client.lock("handoff")


@contextmanager
def queue(port: int) -> Iterator[Lock]:
    yield QueueLock(port)


@contextmanager
def redis_py(port: int) -> Iterator[Lock]:
    yield redis.Redis(HOST, port).lock("bench:handoff", timeout=TTL)


@contextmanager
def redis_py_10ms(port: int) -> Iterator[Lock]:
    yield redis.Redis(HOST, port).lock("bench:handoff-10ms", timeout=TTL, sleep=0.01)


@contextmanager
def python_redis_lock(port: int) -> Iterator[Lock]:
    yield redis_lock.Lock(redis.Redis(HOST, port), "bench:handoff-blpop", expire=TTL)


def wait_and_tell(pipe: "Connection[Any, Any]", port: int, open_lock: Open) -> None:
    """For each message: wait for the lock, send the instant of getting it, release."""
    with open_lock(port) as lock:
        while True:
            pipe.recv()
            assert lock.acquire() is not False
            pipe.send(clock())
            lock.release()
            pipe.send("released")
