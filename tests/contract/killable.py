"""The test's end of `worker.py`: a process that can be asked, stopped, interrupted and killed."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import holdfast

SOURCE = Path(__file__).with_name("worker.py")


def environment() -> dict[str, str]:
    """That of a process that has the holdfast that is tested."""
    source = str(Path(holdfast.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def parent() -> socket.socket:
    """The process that forks the workers: a request is sent to it with the ends of their pipes."""
    return _parent(environment()["PYTHONPATH"])


@cache
def _parent(path: str) -> socket.socket:
    """One for each path: the package of an engine may be there."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", str(SOURCE), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=[theirs.fileno()],
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


async def _reader(pipe: int, stack: ExitStack) -> asyncio.StreamReader:
    """Reads a pipe, which the stack closes."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", 0)
    )
    stack.callback(transport.close)
    return reader


class WorkerGone(Exception):
    """The process ended before it answered."""


class Worker:
    """A process with a client of its own. `await worker("acquire", name="x")` gives its answer."""

    def __init__(
        self, pid: int, commands: int, answers: asyncio.StreamReader, news: asyncio.StreamReader
    ) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self._commands = commands
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self.events: list[dict[str, Any]] = []
        self._reader = asyncio.create_task(self._read(answers))
        self._watcher = asyncio.create_task(self._watch(news))
        self._pipes = ExitStack()

    @classmethod
    async def start(cls, url: str, mode: str) -> Worker:
        pipes = [os.pipe() for _ in range(3)]
        (theirs, commands), (answers, to_us), (news, of_it) = pipes
        socket.send_fds(parent(), [json.dumps([mode, url]).encode()], [theirs, to_us, of_it])
        for pipe in (theirs, to_us, of_it):
            os.close(pipe)
        with ExitStack() as stack:
            stack.callback(os.close, commands)
            answered, told = [await _reader(pipe, stack) for pipe in (answers, news)]
            worker = cls(int(await told.readline()), commands, answered, told)
            worker._pipes = stack.pop_all()
        await worker("hello")
        return worker

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    def begins(self, command: str, **details: Any) -> asyncio.Future[dict[str, Any]]:
        """Sends a command; the future has its answer."""
        number = next(self._numbers)
        line = json.dumps({"do": command, "number": number, **details})
        os.write(self._commands, line.encode() + b"\n")
        self._answers[number] = asyncio.get_running_loop().create_future()
        return self._answers[number]

    async def __call__(self, command: str, **details: Any) -> dict[str, Any]:
        return await self.begins(command, **details)

    def said(self, event: str) -> list[dict[str, Any]]:
        """The events of a kind that the worker has told of, unasked."""
        return [told for told in self.events if told["event"] == event]

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._signal(signal.SIGINT)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self.gone()

    async def gone(self) -> int:
        """Waits for the process to end by itself, and gives its exit code."""
        return await asyncio.shield(self._watcher)

    async def ends(self) -> None:
        """Kills the process, if it still runs, and clears up."""
        if self.alive:
            await self.kill()
        # A child that it forked may hold the pipe open for longer; it ends by itself.
        await asyncio.wait({self._reader}, timeout=5)
        self._reader.cancel()
        self._pipes.close()
        await asyncio.sleep(0)  # asyncio closes them in its next round
        for answer in self._answers.values():
            answer.cancel()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.pid, number)

    async def _watch(self, news: asyncio.StreamReader) -> int:
        self.exit_code = int(await news.readline())
        return self.exit_code

    async def _read(self, answers: asyncio.StreamReader) -> None:
        async for line in answers:
            said = json.loads(line)
            if "event" in said:
                self.events.append(said)
            else:
                self._answers.pop(said.pop("number")).set_result(said)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(WorkerGone("the worker ended without an answer"))
                answer.exception()  # looked at, since no caller may wait for it
