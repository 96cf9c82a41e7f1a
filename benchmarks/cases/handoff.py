"""A waiter sleeps in another process: how long from the release until it has the lock?"""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import Case, Effort, figure_at_most, interleave, rows
from benchmarks.peers import sqlite_url
from benchmarks.workers import Kind, Worker, echo, wait_and_tell
from holdfast.drivers.common import clock

MOST_MILLISECONDS = 5.0
POLL = 0.05
"""filelock's default."""


def measure(effort: Effort, folder: Path) -> Case:
    kinds = {
        "holdfast": Kind(sqlite_url(folder, "handoff")),
        "filelock": Kind(str(folder / "handoff.lock"), POLL),
        "filelock, 1 ms poll": Kind(str(folder / "handoff-1ms.lock"), 0.001),
    }
    with ExitStack() as stack:
        floor = stack.enter_context(Worker(echo))
        batches = {"a pipe": lambda: _through_pipe(floor)}
        batches |= {label: _between(kind, stack) for label, kind in kinds.items()}
        values = interleave(batches, effort.handoffs)
    ours = [seconds * 1000 for seconds in values["holdfast"]]
    return Case(
        "handoff",
        "Hand-off between two processes, SQLite",
        "From just before the release in one process until an idle waiter in another has the lock. "
        "*a pipe* is the floor: one word from process to process.",
        "filelock",
        rows(values, "ms", 1e3, "filelock"),
        (figure_at_most(f"at most {MOST_MILLISECONDS:g} ms", ours, MOST_MILLISECONDS, "ms"),),
    )


def _through_pipe(floor: Worker) -> float:
    time.sleep(random.uniform(0.02, 0.05))  # so that it is as fast asleep as the waiters
    sent = clock()
    floor.tell("now")
    return float(floor.answer()) - sent


def _between(kind: Kind, stack: ExitStack) -> Callable[[], float]:
    waiter = stack.enter_context(Worker(wait_and_tell, kind))
    opened = stack.enter_context(kind.open())

    def hand_off() -> float:
        assert opened.lock.acquire()
        waiter.tell("wait")
        opened.wait_for_waiters(1)
        time.sleep(random.uniform(POLL, 2 * POLL))  # at any point of a poll's interval
        released = clock()
        opened.lock.release()
        return float(waiter.answer()) - released

    return hand_off
