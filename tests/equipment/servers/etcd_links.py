"""The network between the members of an etcd cluster, through which one of them can be cut off.

All members must know one another by the same addresses, so there is one proxy for a member, not one
for each pair. Who calls is told by the kernel: whose process has the other end of the connection.
"""

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeVar

from holdfast.lab.servers.process import HOST

T = TypeVar("T")

CHUNK = 65536

# Of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
ALL_STATES = NO_COOKIE = 0xFFFFFFFF


class Member(Protocol):
    """A server, as far as its links are concerned."""

    @property
    def pid(self) -> int:
        """The process that runs it."""
        ...

    peer_port: int
    """Where it listens for the others."""


@dataclass(slots=True, eq=False)
class Link:
    """One connection between two members. What was `damaged` can never be used again."""

    ends: tuple[Member, Member]
    writers: list[asyncio.StreamWriter]
    carried: "asyncio.Future[None]"
    damaged: bool = False

    def end(self) -> None:
        """Reset it."""
        for writer in self.writers:
            writer.transport.abort()


class Links:
    """Carries what members say to one another, in a thread of its own, but for one who is alone."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._alone: Member | None = None
        self._links: set[Link] = set()
        self._ports: list[int] = []
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="holdfast-links", daemon=True
        )

    def start(self) -> Self:
        """Listen for all members, from when this returns."""
        self._thread.start()
        self._started.wait()
        return self

    def close(self) -> None:
        """Listen no more, and reset every connection."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def port_of(self, member: Member) -> int:
        """Where the others find a member."""
        return self._ports[self._members.index(member)]

    def cut_off(self, member: Member) -> None:
        """Lose all that this member and the others say to each other, without a sign of it."""
        self._within_loop(lambda: setattr(self, "_alone", member))

    def heal(self) -> None:
        """End that, and reset the connections of which something was lost."""
        self._within_loop(self._heal)

    def _heal(self) -> None:
        self._alone = None
        for link in self._links:
            if link.damaged:
                link.end()

    def _within_loop(self, act: Callable[[], T]) -> T:
        async def acting() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        servers = [
            await asyncio.start_server(partial(self._welcome, member), HOST, 0)
            for member in self._members
        ]
        self._ports = [server.sockets[0].getsockname()[1] for server in servers]
        self._started.set()
        await self._stop.wait()
        for server in servers:
            server.close()
        carried = [link.carried for link in self._links]
        for link in list(self._links):
            link.end()
        if carried:
            await asyncio.wait(carried)

    async def _welcome(
        self, called: Member, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ports = (writer.get_extra_info(name)[1] for name in ("peername", "sockname"))
        caller = self._owner(*ports)
        if caller is None:  # it is gone already
            writer.transport.abort()
            return
        carried = asyncio.get_running_loop().create_future()
        link = Link((caller, called), [writer], carried)
        self._links.add(link)
        try:
            await self._carry(link, reader, writer)
        finally:
            self._links.discard(link)
            link.end()
            carried.set_result(None)

    async def _carry(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Until one side ends it."""
        lanes: list[Awaitable[None]] = []
        if self._is_parted(link):  # a handshake needs both
            lanes = [self._pump(link, reader, writer)]
        else:
            with suppress(OSError):
                back, there = await asyncio.open_connection(HOST, link.ends[1].peer_port)
                link.writers.append(there)
                lanes = [self._pump(link, reader, there), self._pump(link, back, writer)]
        tasks = [asyncio.ensure_future(lane) for lane in lanes]
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    async def _pump(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if self._is_parted(link):
                    link.damaged = True
                else:
                    writer.write(data)
                    await writer.drain()

    def _is_parted(self, link: Link) -> bool:
        return self._alone in link.ends

    def _owner(self, port: int, ours: int) -> Member | None:
        """The member from whose process a connection comes."""
        inode = _inode(port, ours)
        return next((each for each in self._members if inode in _sockets(each.pid)), None)


def _inode(port: int, other: int) -> int:
    """The number of the socket of this host that leads from the one port to the other: asked of the
    kernel, for on a busy host the table in /proc/net is long. 0 if there is none."""
    host, anywhere = (
        socket.inet_aton(HOST) + bytes(12),
        struct.pack("=III", 0, NO_COOKIE, NO_COOKIE),
    )
    ends = struct.pack("!HH", port, other) + host + host + anywhere
    question = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + ends
    header = struct.pack("=IHHII", 16 + len(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + question)
        reply = kernel.recv(CHUNK)
    kind = struct.unpack_from("=H", reply, 4)[0]
    return int(struct.unpack_from("=I", reply, 16 + 68)[0]) if kind == SOCK_DIAG_BY_FAMILY else 0


def _sockets(pid: int) -> set[int]:
    """The sockets of a process."""
    found = set()
    with suppress(FileNotFoundError):  # it has ended
        for file in os.scandir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):  # or closed this one
                kind, _, inode = os.readlink(file.path).partition(":")
                if kind == "socket":
                    found.add(int(inode.strip("[]")))
    return found
