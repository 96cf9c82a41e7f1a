"""The stage of a scenario: an engine, a mode, the actors, and the sweep when it is over."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TypeVar

import holdfast

from .actors import Actor, TaskActor, ThreadActor
from .backend import Backend
from .engine import EngineUnderTest
from .killable import Worker, parent

T = TypeVar("T")
Mode = Literal["sync", "async"]

AT_ONCE = 10.0
"""How long to wait for what should happen at once: against hanging, well under the usual ttl."""

LOOPS = ("holdfast-renewer", "holdfast-watcher")

A_WHILE = 0.3
"""A timeout that is to pass, long enough for an engine on a busy machine to answer in."""


class Stage:
    """Where one scenario is played. What it hands out it clears away, and looks if it is gone."""

    def __init__(self, engine: EngineUnderTest, mode: Mode, backend: Backend) -> None:
        self.engine = engine
        self.mode = mode
        self.backend = backend
        self._clients: list[Any] = []
        self._actors: list[Actor] = []
        self._workers: list[Worker] = []

    def client(self, url: str | None = None, **options: Any) -> Any:
        """A `Client` or an `AsyncClient` of this engine."""
        make = holdfast.Client if self.mode == "sync" else holdfast.AsyncClient
        client = make(url or self.backend.url, **options)
        self._clients.append(client)
        return client

    def actor(self, name: str, client: Any = None) -> Actor:
        make = ThreadActor if self.mode == "sync" else TaskActor
        actor = make(name, client or self.client())
        self._actors.append(actor)
        return actor

    def cast(self, *names: str, client: Any = None) -> list[Actor]:
        """Actors, each with a client of their own, or all with the one given."""
        return [self.actor(name, client) for name in names]

    async def worker(self, mode: Mode | None = None) -> Worker:
        """A process with a client of this engine, that can be killed."""
        worker = await Worker.start(self.backend.url, mode or self.mode)
        self._workers.append(worker)
        return worker

    @property
    def short(self) -> float:
        """A ttl for leases that should run out while the scenario watches."""
        return max(self.engine.unit, self._guarantees.min_ttl)

    @property
    def ttl(self) -> float:
        """A ttl for leases that are renewed while the scenario watches."""
        return min(
            max(4 * self.engine.unit, 2 * self._guarantees.min_ttl), self._guarantees.max_ttl
        )

    @property
    def long(self) -> float:
        """A ttl that does not run out before the scenario is over."""
        return float(min(max(30.0, 3 * AT_ONCE), self._guarantees.max_ttl))

    @property
    def _guarantees(self) -> holdfast.Guarantees:
        if not self._clients:
            self.client()
        found: holdfast.Guarantees = self._clients[0].guarantees
        return found

    async def until(self, condition: Callable[[], Any], within: float = AT_ONCE) -> Any:
        """Waits for something that must become true, and gives it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            waited = loop.time() - began
            assert waited < within, f"not within {within:g} s: {_source(condition)}"
            # A look may cost the engine something: the longer it takes, the less often.
            await asyncio.sleep(max(0.005, waited / 20))

    async def passes(self, seconds: float) -> None:
        """Lets time pass, only ever to show that something does not happen meanwhile."""
        await asyncio.sleep(seconds)

    async def asked(self, worker: Worker, times: int = 1) -> None:
        """Waits until a worker is about to ask for a lock."""
        await self.until(lambda: len(worker.said("asking")) >= times)

    async def settles(
        self, watcher: Actor, name: str, waiters: int = 1, within: float = AT_ONCE
    ) -> None:
        """Lets waiters get into their wait. Where no engine can tell, no verdict rests on it."""
        info = await watcher(watcher.client.inspect, name)
        if info is None or info.waiters is None:
            await asyncio.sleep(0.1)
        else:
            await self.until(lambda: self._waiters(watcher, name, waiters), within)

    async def _waiters(self, watcher: Actor, name: str, waiters: int) -> bool:
        info = await watcher(watcher.client.inspect, name)
        return info is not None and info.waiters >= waiters

    def fleeting(self, actor: Actor, name: str, **options: Any) -> Any:
        """A lock whose leases run out while the scenario watches. To connect may take a busy
        machine longer than they last, so it is tried for longer."""
        options = {"ttl": self.short, "renew": False, "timeout": 3 * AT_ONCE, **options}
        return actor.lock(name, **options)

    async def tries(self, actor: Actor, lock: Any) -> Any:
        """What an actor gets by asking once. A busy machine may answer too late, above all where
        there are several nodes with little time each: then they ask again."""
        return await self._insists(lambda: actor(lock.acquire, False))

    async def waits_in_vain(self, actor: Actor, lock: Any) -> bool:
        """Whether an actor that asks for a while does not get it. It, too, asks again if a busy
        machine answers too late: that is an error, since their last question has no answer."""
        return await self._insists(lambda: actor(lock.acquire, timeout=A_WHILE)) is None

    async def _insists(self, asking: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + AT_ONCE
        while True:
            try:
                return await asking()
            except holdfast.EngineUnavailable:
                if loop.time() > give_up_at:
                    raise

    async def takes(self, actor: Actor, name: str) -> bool:
        """Whether an actor gets the lock by asking once. It releases it."""
        lease = await self.tries(actor, actor.lock(name))
        if lease:
            await actor(lease.release)
        return bool(lease)

    async def __aenter__(self) -> Stage:
        parent()  # it stays for all scenarios, so it is there before the first begins
        self._before = Leftovers()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            await worker.ends()
        try:
            for client in self._clients:
                await self.close(client)
        finally:
            for actor in self._actors:
                await actor.leaves()
        if error is None:
            left = Leftovers()
            assert left == self._before, f"left behind: {left - self._before}"

    async def close(self, client: Any) -> None:
        """Closes a client, as often as one likes."""
        if self.mode == "sync":
            await asyncio.wait_for(asyncio.to_thread(client.close), AT_ONCE)
        else:
            await asyncio.wait_for(client.aclose(), AT_ONCE)


def _source(condition: Callable[[], Any]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except TypeError:  # a partial
        return repr(condition)


def added(now: set[T], before: set[T], name_of: Callable[[T], str]) -> list[T]:
    """What is there now, and was not before. A client's loop ends when it has nothing to do, and is
    started again: one that has ended meanwhile makes room for one of its name."""
    ended = Counter(name for name in map(name_of, before - now) if name in LOOPS)
    new = []
    for each in now - before:
        if ended[name_of(each)] > 0:
            ended[name_of(each)] -= 1
        else:
            new.append(each)
    return new


class Leftovers:
    """What can be left behind in one's own process: threads, tasks, open files and sockets."""

    def __init__(self) -> None:
        # What `to_thread` and the watching of child processes leave goes with the loop.
        self.threads = {t for t in threading.enumerate() if not t.name.startswith("asyncio")}
        self.tasks = asyncio.all_tasks()
        self.files = sorted(self._open_files())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leftovers) and not (self - other)  # less than before is fine

    def __sub__(self, other: Leftovers) -> list[str]:
        # A library may end threads and close sockets in a thread of its own, a moment later.
        for _ in range(2000):
            if not self.more_than(other):
                break
            time.sleep(0.005)
            self.files = sorted(self._open_files())
            self.threads &= set(threading.enumerate())
        return [repr(thing) for thing in self.more_than(other)]

    async def let_tasks_end(self, other: Leftovers) -> None:
        """Waits for those that were not there at the other moment: a client does some things by
        itself, and when it likes, as releasing a lease that is not wanted any more."""
        more = added(self.tasks, other.tasks, asyncio.Task.get_name)
        if more:
            await asyncio.wait(more, timeout=AT_ONCE)
            self.tasks = {task for task in self.tasks if not task.done()}

    def more_than(self, other: Leftovers) -> list[Any]:
        """What there was at that moment, and was not there at the other."""
        files = list(self.files)
        for file in other.files:
            if file in files:
                files.remove(file)
        threads = added(self.threads, other.threads, lambda thread: thread.name)
        return [*threads, *added(self.tasks, other.tasks, asyncio.Task.get_name), *files]

    @staticmethod
    def _open_files() -> list[str]:
        found = []
        for number in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{number}"))
            except FileNotFoundError:  # the folder's own descriptor, closed since
                continue
        return found
