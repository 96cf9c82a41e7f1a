"""Sync and async clients that a test drives by plain calls, and a bare connection to a server."""

import asyncio
import contextlib
import inspect
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Literal

import hiredis

import holdfast
from holdfast.core.messages import Answer, ToNode
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.protocol import Exchange, Reply, conclude
from holdfast.lab.servers.redis import RedisServer
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

Mode = Literal["sync", "async"]

HANGS_AFTER = 20.0
"""Against hanging, and no more."""


class Party:
    """A client, driven by plain calls: `ann(lease.release)`. `begin` does not wait for the end."""

    def __init__(self, mode: Mode, url: str, **options: Any) -> None:
        self.mode = mode
        make = holdfast.Client if mode == "sync" else holdfast.AsyncClient
        self.client: Any = make(url, **options)
        self._leases: list[Any] = []  # one that is dropped is not renewed any more
        if mode == "async":
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()

    def __call__(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        if self.mode == "sync":
            answer = call(*args, **options)
            return list(answer) if inspect.isgenerator(answer) else answer
        return self._submit(call, *args, **options).result(HANGS_AFTER)

    def begin(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> "Future[Any]":
        """Start a call, in a thread or a task of its own."""
        if self.mode == "async":
            return self._submit(call, *args, **options)
        outcome: Future[Any] = Future()

        def run() -> None:
            try:
                outcome.set_result(call(*args, **options))
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return outcome

    def tries(self, name: str = "job", **options: Any) -> Any:
        """Ask once for a lock."""
        lease = self(self.client.lock(name, **options).acquire, blocking=False)
        self._leases.append(lease)
        return lease

    def takes(self, name: str = "job", timeout: float = 10.0, **options: Any) -> Any:
        """Take a lock that is, or soon becomes, free."""
        lease = self(self.client.lock(name, **options).acquire, timeout=timeout)
        assert lease
        self._leases.append(lease)
        return lease

    def reads(self, name: str = "job", timeout: float = 10.0, **options: Any) -> Any:
        """Take a share of a lock, as a reader."""
        lease = self(self.client.rwlock(name, **options).read.acquire, timeout=timeout)
        assert lease
        self._leases.append(lease)
        return lease

    def insists(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Call it again for as long as the engine cannot be asked, or does not answer in time."""
        give_up_at = time.monotonic() + HANGS_AFTER
        while True:
            try:
                return self(call, *args)
            except holdfast.EngineUnavailable:
                assert time.monotonic() < give_up_at, "it cannot be asked"

    def drops(self, lease: Any) -> None:
        """Give a lease back. With a short ttl, a busy machine may not answer in time about it."""
        with contextlib.suppress(holdfast.EngineUnavailable):
            self(lease.release)

    def refused(self, name: str = "job", **options: Any) -> dict[str, str]:
        """Ask once, of an engine that cannot be asked; gives what each node answered."""
        try:
            lease = self.tries(name, **options)
        except holdfast.EngineUnavailable as error:
            return dict(error.nodes)
        raise AssertionError(f"it answered: {lease}")

    def close(self) -> None:
        if self.mode == "sync":
            self.client.close()
        else:
            self(self.client.aclose)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _submit(self, call: Callable[..., Any], *args: Any, **options: Any) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(_as_coroutine(call, *args, **options), self._loop)


async def _as_coroutine(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    answer = call(*args, **options)
    if inspect.isasyncgen(answer):
        return [each async for each in answer]
    return await answer if isinstance(answer, Coroutine) else answer


class Bare:
    """One connection to one server, on which requests are put as the engine would put them."""

    def __init__(self, server: RedisServer, *, quorum: bool = True, keep: float = 3600.0) -> None:
        self.commands = Commands(quorum=quorum, keep=keep, channel="bare:channel")
        self._socket = socket.create_connection(("127.0.0.1", server.port), 5)
        self._reader = hiredis.Reader()

    def ask(self, *requests: ToNode, wakes: bool = True) -> Sequence[Answer]:
        outcome: Sequence[Answer] | Exchange = self.commands.exchange(requests, wakes)
        while isinstance(outcome, Exchange):
            self._socket.sendall(b"".join(outcome.commands))
            outcome = conclude(outcome, [self.reply() for _ in outcome.commands])
        return outcome

    def reply(self) -> Reply:
        """The next reply; an error is given, not raised."""
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65536))
        return reply

    def close(self) -> None:
        self._socket.close()


def holders(servers: Sequence[RedisServer], name: str = "job") -> list[object]:
    """What each server has for the holder of a lock."""
    return [server.command("GET", f"holdfast:{name}") for server in servers]


def warm_up(party: Party, masters: RedisMasters) -> None:
    """Connect to every node: at first, those that are slow to connect to are not waited for. What
    was sent before on the same connections is over then."""

    def reaches_all() -> bool:
        lease = party.takes("warm-up")
        reached = all(holders(masters.servers, "warm-up"))
        party.drops(lease)
        return reached

    wait_for(reaches_all)
