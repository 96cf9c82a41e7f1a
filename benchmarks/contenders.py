"""Contenders that do pairs of an acquire and a release, each in a process of its own.

No real program has the libraries, threads and connections of all of them at once, so none of these
has: a process is started clean, and imports what its contender needs. That is why what
opens a contender imports its library itself, and can be pickled.
"""

import asyncio
import importlib
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from inspect import iscoroutinefunction
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any, TypeAlias

from benchmarks.measure import Values, interleave, seconds_each
from benchmarks.workers import CLEAN, Lock, Worker

Pair: TypeAlias = Callable[[], object]
"""Acquires and releases, once."""

AsyncPair: TypeAlias = Callable[[], Awaitable[object]]
"""The same for a task."""

Opening: TypeAlias = Callable[[ExitStack], Pair]
"""Opens what a contender needs, on a stack; raises an `ImportError` if it is not installed."""

AsyncOpening: TypeAlias = Callable[[AsyncExitStack], Awaitable[Sequence[AsyncPair]]]
"""The same for tasks: the pair of each."""

Openings: TypeAlias = Mapping[str, Opening | AsyncOpening]
"""Of several contenders, by their labels."""

MISSING, READY = "not installed", "ready"

TTL = 30


def compare(openings: Openings, times: int, rounds: int) -> Values:
    """Seconds that a pair takes, in batches of `times` by a thread, or by each task. Those that are
    not installed have no figures."""
    with ExitStack() as stack:
        workers = start(openings, times, stack)
        return interleave({label: partial(_ask, each) for label, each in workers.items()}, rounds)


def start(openings: Openings, times: int, stack: ExitStack) -> dict[str, Worker]:
    """A worker for each that is installed: told anything, it does a batch, and answers with the
    seconds that a pair took, or with a text that says what went wrong."""
    workers = {
        label: stack.enter_context(Worker(_job(each), each, times, context=CLEAN))
        for label, each in openings.items()
    }
    return {label: worker for label, worker in workers.items() if worker.answer() == READY}


def in_threads(
    open_all: Callable[[int, ExitStack], Sequence[Pair]], threads: int, times: int, stack: ExitStack
) -> Pair:
    """A pair for each thread; all repeat theirs `times` times, at once."""
    pairs = open_all(threads, stack)
    pool = stack.enter_context(ThreadPoolExecutor(threads))

    def repeat(pair: Pair) -> None:
        for _ in range(times):
            pair()

    return lambda: list(pool.map(repeat, pairs))


def pair_with(lock: Lock) -> Pair:
    """Of a peer's lock."""

    def acquire_and_release() -> None:
        assert lock.acquire()
        lock.release()

    return acquire_and_release


def library(name: str) -> Any:
    """A peer's module, if it is installed and runs on this Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what will go from Python: that is theirs to see to
        return importlib.import_module(name)


def _ask(worker: Worker) -> float:
    worker.tell("once more")
    answer = worker.answer()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return float(answer)


def _job(opening: Opening | AsyncOpening) -> Callable[..., None]:
    return _by_tasks if iscoroutinefunction(opening) else _by_thread


def _by_thread(pipe: "Connection[Any, Any]", opening: Opening, times: int) -> None:
    with ExitStack() as stack:
        try:
            pair = opening(stack)
        except ImportError:
            pipe.send(MISSING)
        else:
            _serve(pipe, partial(seconds_each, pair, times))


def _by_tasks(pipe: "Connection[Any, Any]", opening: AsyncOpening, times: int) -> None:
    async def open_all() -> Sequence[AsyncPair]:
        return await opening(stack)

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            pairs = runner.run(open_all())
        except ImportError:
            pipe.send(MISSING)
        else:
            _serve(pipe, lambda: runner.run(_seconds_awaited(pairs, times)))
        finally:
            runner.run(stack.aclose())


def _serve(pipe: "Connection[Any, Any]", batch: Callable[[], float]) -> None:
    pipe.send(READY)
    while True:  # until the other end is closed
        pipe.recv()
        try:
            pipe.send(batch())
        except Exception as error:
            pipe.send(f"raised {type(error).__name__}: {error}")


async def _seconds_awaited(pairs: Sequence[AsyncPair], times: int) -> float:
    async def repeat(pair: AsyncPair) -> None:
        for _ in range(times):
            await pair()

    began = perf_counter()
    await asyncio.gather(*map(repeat, pairs))
    return (perf_counter() - began) / (len(pairs) * times)
