"""The test's end of `worker.py`: a process that can be asked, stopped, interrupted and killed."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import holdfast

SOURCE = Path(__file__).with_name("worker.py")


def environment() -> dict[str, str]:
    """That of a process that has the holdfast that is tested."""
    source = str(Path(holdfast.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


class WorkerGone(Exception):
    """The process ended before it answered."""


class Worker:
    """A process with a client of its own. `await worker("acquire", name="x")` gives its answer."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self.events: list[dict[str, Any]] = []
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, url: str, colour: str) -> Worker:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(SOURCE), colour, url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment(),
        )
        worker = cls(process)
        await worker("hello")
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def begins(self, command: str, **details: Any) -> asyncio.Future[dict[str, Any]]:
        """Sends a command; the future has its answer."""
        assert self._process.stdin is not None
        number = next(self._numbers)
        line = json.dumps({"do": command, "number": number, **details})
        self._process.stdin.write(line.encode() + b"\n")
        self._answers[number] = asyncio.get_running_loop().create_future()
        return self._answers[number]

    async def __call__(self, command: str, **details: Any) -> dict[str, Any]:
        return await self.begins(command, **details)

    def said(self, event: str) -> list[dict[str, Any]]:
        """The events of a kind that the worker has told of, unasked."""
        return [told for told in self.events if told["event"] == event]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def gone(self) -> int:
        """Waits for the process to end by itself, and gives its exit code."""
        return await self._process.wait()

    async def ends(self) -> None:
        """Kills the process, if it still runs, and clears up."""
        if self.alive:
            await self.kill()
        # A child that it forked may hold the pipe open for longer; it ends by itself.
        await asyncio.wait({self._reader}, timeout=5)
        self._reader.cancel()
        assert self._process.stdin is not None
        self._process.stdin.close()
        for answer in self._answers.values():
            answer.cancel()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "event" in said:
                self.events.append(said)
            else:
                self._answers.pop(said.pop("number")).set_result(said)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(WorkerGone("the worker ended without an answer"))
                answer.exception()  # looked at: nobody need have been waiting for it
