"""The run itself: who counts, who is stopped when, and what is in the registers at last."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from holdfast.lab.servers.process import bound_to_us

NAME = "counting"
"""The lock."""

AHEAD = 3
"""How far others must have counted before a stopped client goes on."""

PATIENCE = 60.0
"""Seconds after which clients are taken to be stuck."""

Counter: TypeAlias = "subprocess.Popen[str]"


class Stuck(RuntimeError):
    """A client does not count any more."""


class Register:
    """A register. A `fenced` one refuses a smaller fence than it has seen, be it in a read: who
    has read with a greater one is about to write, and must not find another number by then."""

    def __init__(self, *, fenced: bool) -> None:
        self.value = 0
        self.taken = 0
        """How many writes it has acknowledged."""
        self.refused = 0
        """How many it has not."""
        self._fenced, self._fence = fenced, 0
        self._changed = threading.Condition()

    @property
    def lost(self) -> int:
        """How many counts were acknowledged, and are not in the number."""
        return self.taken - self.value

    def read(self, fence: int) -> int | None:
        """The number; None for one who comes too late."""
        with self._changed:
            return self.value if self._admits(fence) else None

    def write(self, value: int, fence: int) -> bool:
        """Whether it was taken."""
        with self._changed:
            if not self._admits(fence):
                self.refused += 1
                return False
            self.value = value
            self.taken += 1
            self._changed.notify_all()
            return True

    def wait_for(self, value: int, seconds: float) -> bool:
        """Wait until the number is that or more; False if it is not in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.value >= value, seconds)

    def _admits(self, fence: int) -> bool:
        newest = max(self._fence, fence)
        self._fence = newest
        return not self._fenced or fence == newest


@dataclass(slots=True)
class Tally:
    """What came of it."""

    plain: Register = field(default_factory=lambda: Register(fenced=False))
    fenced: Register = field(default_factory=lambda: Register(fenced=True))
    pauses: int = 0

    def __str__(self) -> str:
        return (
            f"{self.pauses} pauses, {self.plain.taken} counts; lost without a fence: "
            f"{self.plain.lost}, with it: {self.fenced.lost} ({self.fenced.refused} rejected)"
        )


def trial(
    url: str, *, seconds: float = 20.0, ttl: float = 2.0, clients: int = 5, every: float = 5.0
) -> Tally:
    """Have clients count for so long, and stop the one that holds the lock every so often."""
    run = _Trial()
    with ThreadPoolExecutor(clients) as pool, _counters(url, ttl, clients) as counters:
        serving = [pool.submit(run.serve, counter) for counter in counters]
        _require(run.tally.plain.wait_for(1, PATIENCE), "no client has begun to count")
        run.pause(seconds, every)
        run.over.set()
        for each in serving:
            each.result(PATIENCE)
        codes = [counter.wait(PATIENCE) for counter in counters]
        _require(not any(codes), f"clients ended with {codes}")
    return run.tally


class _Trial:
    def __init__(self) -> None:
        self.tally = Tally()
        self.over = threading.Event()
        self._wanted: SimpleQueue[threading.Event] = SimpleQueue()
        """Pauses that are due: each is set when it is over."""

    def pause(self, seconds: float, every: float) -> None:
        """Stop a client every so often."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            done = threading.Event()
            self._wanted.put(done)
            _require(done.wait(2 * PATIENCE), "no client can be stopped while it has the lock")
            self.tally.pauses += 1
            time.sleep(max(0.0, min(passed + every, seconds) - (time.monotonic() - began)))

    def serve(self, counter: Counter) -> None:
        """Answer a client until all is over; then it is told nothing to add one to, and ends.
        What is late is written all the same, so that it is judged."""
        assert counter.stdin is not None
        assert counter.stdout is not None
        with counter.stdin as answers, counter.stdout as questions:
            for question in questions:
                said = json.loads(question)
                if "values" in said:
                    answer = self._write(said["values"], said["fence"])
                elif self.over.is_set():
                    return
                else:
                    answer = self._read(said["fence"], counter)
                answers.write(f"{json.dumps(answer)}\n")
                answers.flush()
        raise Stuck("a client ended by itself")

    def _registers(self) -> tuple[Register, Register]:
        return self.tally.plain, self.tally.fenced

    def _read(self, fence: int, counter: Counter) -> list[int | None]:
        numbers = [register.read(fence) for register in self._registers()]
        try:
            done = self._wanted.get_nowait()
        except Empty:
            return numbers
        with _stopped(counter):
            # The client has the lock and has read; now others get it, and count on.
            plain = self.tally.plain
            _require(plain.wait_for(plain.value + AHEAD, PATIENCE), "no other client gets the lock")
        done.set()
        return numbers

    def _write(self, values: list[int | None], fence: int) -> list[Any]:
        written = zip(self._registers(), values, strict=True)
        return [value is not None and each.write(value, fence) for each, value in written]


@contextmanager
def _counters(url: str, ttl: float, count: int) -> Iterator[list[Counter]]:
    command = [sys.executable, "-m", "tests.equipment.counting.client", url, str(ttl)]
    with ExitStack() as stack:
        yield [stack.enter_context(_counter(command)) for _ in range(count)]


@contextmanager
def _counter(command: list[str]) -> Iterator[Counter]:
    command, pipe = [*bound_to_us(), *command], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _stopped(counter: Counter) -> Iterator[None]:
    counter.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, counter.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    try:
        yield
    finally:
        counter.send_signal(signal.SIGCONT)


def _require(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Stuck(otherwise)
