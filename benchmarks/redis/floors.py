"""The floors: the very commands that holdfast sends, with nothing around them.

The commands are holdfast's own, so that they cannot come to differ; each is made anew for a new
holder id. Of several servers a majority is waited for, as holdfast does; what the others answer is
read, and skipped, with the next replies.
"""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Sequence, Sized
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from time import time
from typing import Any

import hiredis

from benchmarks.contenders import TTL, AsyncPair, Pair
from holdfast.core.messages import Acquire, Release
from holdfast.drivers.common import new_holder
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.protocol import load_scripts
from holdfast.lab.servers.process import HOST

READ_SIZE = 65536
LOADING = load_scripts()


def majority_of(servers: Sized) -> int:
    """How many of them decide."""
    return len(servers) // 2 + 1


class LockCommands:
    """What is sent for one lock, with a place for the holder id."""

    def __init__(self, name: str, *, quorum: bool) -> None:
        commands = Commands(quorum=quorum, keep=3600.0, channel=f"holdfast:{'0' * 24}")
        key = f"holdfast:{name}"
        taking, giving = Acquire(key, "", TTL), Release(key, "")
        self._quorum = quorum
        self._acquire = _read(commands.exchange((taking,), False).commands[0])[
            : -2 if quorum else -1
        ]
        self._release = _read(commands.exchange((giving,), False).commands[0])[:-1]

    def acquire(self, holder: bytes) -> bytes:
        proposed = (b"%d" % int(time() * 1_000_000),) if self._quorum else ()
        return _pack((*self._acquire, *proposed, holder))

    def release(self, holder: bytes) -> bytes:
        return _pack((*self._release, holder))


class End:
    """A blocking socket to one server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = hiredis.Reader()
        self.answered = 0
        """How many commands it has replied to."""


class RawSockets:
    """A socket to each server: all sends before all reads, until a majority has replied."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ends = [End(port) for port in ports]
        self._majority = majority_of(ports)
        self._asked = 0
        self._by_number = {end.socket.fileno(): end for end in self._ends}
        self._poll = select.poll()
        for number in self._by_number:
            self._poll.register(number, select.POLLIN)
        for text in LOADING:
            self.ask(text)

    def ask(self, text: bytes) -> Any:
        """Send it to all; gives the reply that made the majority."""
        self._asked += 1
        for end in self._ends:
            end.socket.sendall(text)
        replies = 0
        while True:
            for end in self._ready():
                end.reader.feed(end.socket.recv(READ_SIZE))
                while (reply := end.reader.gets()) is not False:
                    end.answered += 1
                    replies += end.answered == self._asked
                    if replies == self._majority:
                        return reply

    def _ready(self) -> Sequence[End]:
        """Those with something to read. One alone is read from without asking first."""
        if len(self._ends) == 1:
            return self._ends
        return [self._by_number[number] for number, _ in self._poll.poll()]

    def pair(self, name: str = "floor") -> Pair:
        commands, ask = LockCommands(name, quorum=len(self._ends) > 1), self.ask

        def acquire_and_release() -> None:
            holder = new_holder().encode()
            assert type(ask(commands.acquire(holder))) is int
            assert ask(commands.release(holder)) == 1

        return acquire_and_release

    def close(self) -> None:
        for end in self._ends:
            end.socket.close()


def raw_sockets(ports: Sequence[int], stack: ExitStack) -> Pair:
    sockets = RawSockets(ports)
    stack.callback(sockets.close)
    return sockets.pair()


def socket_each(port: int, threads: int, stack: ExitStack) -> Sequence[Pair]:
    """A socket for each thread."""
    sockets = [RawSockets([port]) for _ in range(threads)]
    for each in sockets:
        stack.callback(each.close)
    return [each.pair(f"floor:{thread}") for thread, each in enumerate(sockets)]


class Tally:
    """A command to several servers: its future is done when a majority has replied."""

    __slots__ = ("answered", "left")

    def __init__(self, enough: int) -> None:
        self.left = enough
        self.answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def take(self, reply: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.answered.set_result(reply)


class Pipeline(asyncio.Protocol):
    """A connection on which questions do not wait for the answers to earlier ones. Those of one
    turn of the event loop go out in one write."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._asked: deque[Tally] = deque()
        self._unsent: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._asked.popleft().take(reply)

    def ask(self, text: bytes, tally: Tally) -> None:
        self._asked.append(tally)
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(text)

    def _send(self) -> None:
        self.transport.write(b"".join(self._unsent))
        self._unsent.clear()


class Pipelines:
    """One such connection to each server."""

    def __init__(self, ends: Sequence[Pipeline]) -> None:
        self._ends = ends

    @classmethod
    async def open(cls, ports: Sequence[int]) -> "Pipelines":
        loop = asyncio.get_running_loop()
        made = [await loop.create_connection(Pipeline, HOST, port) for port in ports]
        pipelines = cls([end for _, end in made])
        for text in LOADING:
            await pipelines.ask(text)
        return pipelines

    def ask(self, text: bytes) -> asyncio.Future[Any]:
        """Send it to all."""
        tally = Tally(majority_of(self._ends))
        for end in self._ends:
            end.ask(text, tally)
        return tally.answered

    async def acquire_and_release(self, commands: LockCommands) -> None:
        holder = new_holder().encode()
        assert type(await self.ask(commands.acquire(holder))) is int
        assert await self.ask(commands.release(holder)) == 1

    def close(self) -> None:
        for end in self._ends:
            end.transport.close()


async def bare_connections(
    ports: Sequence[int], tasks: int, stack: AsyncExitStack
) -> Sequence[AsyncPair]:
    """All tasks share them."""
    pipelines = await Pipelines.open(ports)
    stack.callback(pipelines.close)
    locks = [LockCommands(f"floor:{task}", quorum=len(ports) > 1) for task in range(tasks)]
    return [partial(pipelines.acquire_and_release, each) for each in locks]


def _read(text: bytes) -> list[bytes]:
    reader = hiredis.Reader()
    reader.feed(text)
    words: list[bytes] = reader.gets()
    return words


def _pack(words: tuple[bytes, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # of any length
    return packed
