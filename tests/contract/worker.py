"""Processes that hold locks and can be killed: `worker.py SOCKET`, a descriptor.

It is the parent of them all, and forks one for each request, since to import an engine takes longer
than most scenarios: a request has mode and URL, and three pipes.

A worker takes commands as JSON lines, `{"do": "acquire", "number": 1, "name": "x"}`, and answers
each with one JSON line of the same number. Lines with an "event" come unasked: "asking" before an
acquire, "lost" when a lease is, "interrupted" after a Ctrl-C that a sync worker outlived.

Every command is a coroutine in both modes. In the sync one nothing is ever awaited, so a single
step runs it to its end, in the main thread, where Ctrl-C arrives.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import holdfast


def say(**line: Any) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


async def awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


class Worker:
    """One client, and the lock and lease that it took last."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.lease: Any = None

    async def perform(self, line: str) -> None:
        command = json.loads(line)
        number = command.pop("number")
        try:
            say(number=number, **await getattr(self, command.pop("do"))(**command))
        except holdfast.LockError as error:
            say(number=number, error=type(error).__name__, text=str(error))

    async def hello(self) -> dict[str, Any]:
        return {"pid": os.getpid()}

    async def acquire(
        self,
        name: str,
        ask: dict[str, Any] | None = None,
        shares: int = 1,
        **options: Any,
    ) -> dict[str, Any]:
        """`shares`: 0 for a reader's, else the slots of a semaphore: one is a lock."""
        if shares:
            lock = self.client.semaphore(name, shares, **options)
        else:
            lock = self.client.rwlock(name, **options).read
        say(event="asking")
        self.lease = await awaited(lock.acquire(**ask or {}))
        if self.lease is None:
            return {"fence": None}
        self.lease.on_lost(lambda lease: say(event="lost", fence=lease.fence))
        return {"fence": self.lease.fence, "holder": self.lease.holder}

    async def release(self) -> dict[str, Any]:
        await awaited(self.lease.release())
        return {}

    async def drop(self) -> dict[str, Any]:
        """Forgets its lease, if it has one."""
        self.lease = None
        return {}

    async def extend(self, **options: Any) -> dict[str, Any]:
        await awaited(self.lease.extend(**options))
        return {}

    async def state(self) -> dict[str, Any]:
        return {
            "held": self.lease.held,
            "lost": self.lease.lost,
            "remaining": self.lease.remaining(),
        }

    async def close(self) -> dict[str, Any]:
        """Closes the client, as a program does that ends well."""
        sync = isinstance(self.client, holdfast.Client)
        await awaited(self.client.close() if sync else self.client.aclose())
        return {}

    async def fences(self, name: str, times: int, **options: Any) -> dict[str, Any]:
        """Takes and releases the lock a number of times."""
        lock, fences = self.client.lock(name, **options), []
        for _ in range(times):
            lease = await awaited(lock.acquire())
            fences.append(lease.fence)
            await awaited(lease.release())
        return {"fences": fences}

    async def count(self, name: str, path: str, times: int) -> dict[str, Any]:
        """Adds one to the number in a file, so many times, each time while it holds the lock."""
        lock, tally, fences = self.client.lock(name), Path(path), []
        for _ in range(times):
            lease = await awaited(lock.acquire())
            _add_one(tally)
            fences.append(lease.fence)
            await awaited(lease.release())
        return {"fences": fences}

    async def sell(self, name: str) -> dict[str, Any]:
        """Takes one off the number in a cell until it is 0; gives what was left each time."""
        cell, sold = self.client.cell(name), []
        while (await awaited(cell.get())).value != "0":
            try:
                sold.append(int(await awaited(cell.update(_take_one))))
            except LookupError:
                break
        return {"sold": sold}

    async def fork(self, wait: float) -> dict[str, Any]:
        """What a forked child sees of the lease that its parent holds, and goes on holding."""
        told: list[Any] = []
        self.lease.on_lost(told.append)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # it must not outlive the test, should it hang
            try:
                os.write(writing, json.dumps(self._as_child(told, wait)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as report:
            # An asyncio parent renews in its loop, which must not stand still meanwhile.
            text = await asyncio.to_thread(report.read) if _in_a_loop() else report.read()
        os.waitpid(child, 0)  # noqa: ASYNC222 - it has closed its end of the pipe: it is over
        return dict(json.loads(text))

    def _as_child(self, told: list[Any], wait: float) -> dict[str, Any]:
        lease = self.lease
        report: dict[str, Any] = {}
        report["before"] = [lease.held, lease.lost]
        time.sleep(
            wait
        )  # long enough for the lease to need its renewal, had the child one to look after
        report["after"] = [lease.held, lease.lost]
        if isinstance(self.client, holdfast.AsyncClient):
            report["release"] = _error(lambda: asyncio.run(lease.release()))
        else:
            report["release"] = _error(lease.release)
            own = self.client.lock("the child's own").acquire(blocking=False)
            report["own"] = bool(own) and own.held
            report["same"] = bool(self.client.lock(lease.name).acquire(blocking=False))
            own.release()
        report["told"] = len(told)
        return report


def _take_one(value: Any) -> str:
    if value == "0":
        raise LookupError("sold out")
    return str(int(value) - 1)


def _add_one(tally: Path) -> None:
    seen = int(tally.read_text())
    os.sched_yield()
    tally.write_text(str(seen + 1))


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _error(call: Any) -> str | None:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return None


def to_its_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("it waits for something")


def main_sync(url: str) -> None:
    worker = Worker(holdfast.Client(url))
    try:
        serve(worker)
    except KeyboardInterrupt:  # a second Ctrl-C, which came before the first was dealt with
        serve(worker, interrupted=True)


def serve(worker: Worker, *, interrupted: bool = False) -> None:
    while True:  # it lives on after a Ctrl-C, to betray what it still holds
        try:
            if interrupted:
                say(event="interrupted")
                interrupted = False
            while line := sys.stdin.readline():
                to_its_end(worker.perform(line))
            return
        except KeyboardInterrupt:
            interrupted = True


async def main_async(url: str) -> None:
    worker = Worker(holdfast.AsyncClient(url))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        await worker.perform(line.decode())


NOT_BEFORE_A_FORK = ("etcd", "etcds")
"""Their library is gRPC. Once it is imported, it has a hand in each fork, and one has been seen to
hang. So each worker imports it by itself."""


@cache
def import_engine(scheme: str, url: str) -> None:
    """Has the engine imported before the fork, once for all its workers. Nothing is asked yet."""
    with suppress(Exception):  # the worker meets it, too, and tells of it
        holdfast.Client(url).close()


def forked(requests: socket.socket) -> tuple[str, str]:
    """Forks a worker for each request, until there are no more. It returns in the workers only."""
    while True:
        request, pipes, _, _ = socket.recv_fds(requests, 65536, 3)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # who watched a worker that has ended
        if not request:
            os._exit(0)
        mode, url = json.loads(request)
        scheme = url.partition(":")[0]
        if scheme not in NOT_BEFORE_A_FORK:
            import_engine(scheme, url)
        if not os.fork():
            requests.close()
            watch(*pipes)
            return mode, url
        for pipe in pipes:
            os.close(pipe)


def watch(commands: int, answers: int, news: int) -> None:
    """Has a worker, tells its number and its exit code, and ends. It returns in the worker only."""
    worker = os.fork()
    if worker:
        os.close(commands)
        os.close(answers)
        os.write(news, b"%d\n" % worker)
        os.write(news, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
        os._exit(0)
    os.dup2(commands, 0)
    os.dup2(answers, 1)
    for pipe in (commands, answers, news):
        os.close(pipe)


if __name__ == "__main__":
    mode, url = forked(socket.socket(fileno=int(sys.argv[1])))
    # A shell that runs the tests in the background has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if mode == "sync":
        main_sync(url)
    else:
        asyncio.run(main_async(url))
