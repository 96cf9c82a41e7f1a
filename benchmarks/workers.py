"""Contenders in processes of their own: started clean, told what to do through a pipe."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any, Protocol

import holdfast
from holdfast.drivers.common import clock

ANSWER_WITHIN = 60.0

QUICK_TO_START = multiprocessing.get_context("forkserver")
"""A server that has imported everything forks each worker: a hundred start within seconds."""
QUICK_TO_START.set_forkserver_preload(["benchmarks.cases"])

CLEAN = multiprocessing.get_context("spawn")
"""A worker imports what its job needs, and nothing else."""


class Worker:
    """A process that runs `job(pipe, *args)`."""

    def __init__(
        self,
        job: Callable[..., None],
        *args: object,
        context: ForkServerContext | SpawnContext = QUICK_TO_START,
    ) -> None:
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=run_job, args=(job, theirs, *args), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exc: object) -> None:
        self.pipe.close()
        self._process.join(ANSWER_WITHIN)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.join()

    def tell(self, message: object) -> None:
        self.pipe.send(message)

    def answer(self) -> Any:
        if not self.pipe.poll(ANSWER_WITHIN):
            raise TimeoutError(f"{self._process.name} does not answer")
        return self.pipe.recv()


def run_job(job: Callable[..., None], pipe: "Connection[Any, Any]", *args: object) -> None:
    """What a worker does, until the benchmark closes its end of the pipe."""
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        job(pipe, *args)


class Lock(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A lock that several processes can open."""

    where: str
    """A URL for holdfast, a path for filelock."""
    poll: float = 0.0
    """filelock's poll interval; 0: it is holdfast's."""
    ttl: float = 30.0

    @contextmanager
    def open(self) -> "Iterator[Opened]":
        if self.poll:
            from filelock import FileLock

            yield Opened(FileLock(self.where, poll_interval=self.poll), None)
            return
        with holdfast.Client(self.where, ttl=self.ttl) as client:
            yield Opened(client.lock("bench"), client)


@dataclass(frozen=True, slots=True)
class Opened:
    """A lock, and the client behind it."""

    lock: Lock
    client: holdfast.Client | None

    def wait_for_waiters(self, count: int) -> None:
        """Return when that many wait for the lock; filelock does not report it: wait a while."""
        if self.client is None:
            time.sleep(0.2)
            return
        give_up_at = clock() + ANSWER_WITHIN
        while clock() < give_up_at:
            info = self.client.inspect("bench")
            if info is not None and info.waiters == count:
                return
            time.sleep(0.01)
        raise TimeoutError(f"{count} waiters did not come together")


def wait_and_tell(pipe: "Connection[Any, Any]", kind: Kind) -> None:
    """For each message: wait for the lock, send the instant of getting it, release."""
    with kind.open() as opened:
        while True:
            pipe.recv()
            assert opened.lock.acquire()
            pipe.send(clock())
            opened.lock.release()


def echo(pipe: "Connection[Any, Any]") -> None:
    """The floor of waking another process: for each message, send the instant of getting it."""
    while True:
        pipe.recv()
        pipe.send(clock())


def wait_in_threads(pipe: "Connection[Any, Any]", kind: Kind, threads: int) -> None:
    """Wait in that many threads; for each message, send the CPU seconds used so far."""
    with kind.open() as opened:
        for _ in range(threads):
            threading.Thread(target=_wait_forever, args=(opened.lock,), daemon=True).start()
        while True:
            pipe.recv()
            pipe.send(time.process_time())


def _wait_forever(lock: Lock) -> None:
    with suppress(holdfast.LockError):  # the client is closed at the end
        lock.acquire()


def contend(pipe: "Connection[Any, Any]", kind: Kind, section: float) -> None:
    """From one given instant to another: take the lock, hold it for `section`, release, again.
    Send how long each acquire took that came to its end in that time."""
    with kind.open() as opened:
        lock = opened.lock
        assert lock.acquire()
        lock.release()
        pipe.send("ready")
        while True:
            begin, end = pipe.recv()
            waits = []
            time.sleep(max(0.0, begin - clock()))
            while (asked := clock()) < end:
                lock.acquire()
                if (got := clock()) < end:
                    waits.append(got - asked)
                time.sleep(section)
                lock.release()
            pipe.send(waits)
