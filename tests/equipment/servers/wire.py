"""The bytes between a client and a server: two lanes, in which they keep their order."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from holdfast.lab.servers.process import HOST

Direction = Literal["requests", "replies"]
"""From the client to the server, or back."""

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing discards what is unsent, and resets the connection."""


class End(Enum):
    """How one side ended a connection; takes its place in the order of the bytes."""

    CLOSED = "closed"
    RESET = "reset"


@dataclass(slots=True)
class Conditions:
    """What happens to bytes. Only the event loop may touch it."""

    latency: float = 0.0
    jitter: float = 0.0
    held: set[Direction] = field(default_factory=set)
    cut: set[Direction] = field(default_factory=set)
    loses_replies: bool = False


class Lane:
    """One direction of one connection. Bytes leave it in order, when they are due and not held."""

    def __init__(
        self, direction: Direction, conditions: Conditions, connection: Connection
    ) -> None:
        self._direction: Direction = direction
        self._conditions = conditions
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[float, bytes | End]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._exit: asyncio.Transport | None = None
        self.closed = False

    @property
    def waiting(self) -> int:
        """How many bytes are in it."""
        return sum(len(item) for _, item in self._queue if isinstance(item, bytes))

    def lead_to(self, end: asyncio.Transport) -> None:
        """Set where it ends; until then, whatever is due waits."""
        self._exit = end
        self.deliver()

    def take(self, item: bytes | End) -> None:
        """Let something enter, under the present conditions."""
        if self._direction in self._conditions.cut or self._connection.half_open:
            self._connection.damaged = True
        elif self._direction == "replies" and self._conditions.loses_replies:
            self._connection.reset()
        else:
            delay = self._conditions.latency + random.uniform(0, self._conditions.jitter)
            self._queue.append((self._loop.time() + delay, item))
            self.deliver()

    def hurry(self) -> None:
        """Let all that is in it be due now."""
        self._queue = deque((0.0, item) for _, item in self._queue)
        self.deliver()

    def deliver(self) -> None:
        """Send on all that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and self._exit is not None and not self._is_held:
            due, item = self._queue[0]
            if due > self._loop.time():
                self._timer = self._loop.call_at(due, self.deliver)
                return
            self._queue.popleft()
            self._pass_on(item, self._exit)

    @property
    def _is_held(self) -> bool:
        return self._direction in self._conditions.held or self._connection.stranded

    def _pass_on(self, item: bytes | End, to: asyncio.Transport) -> None:
        if to.is_closing():
            return
        if isinstance(item, bytes):
            to.write(item)
        elif item is End.CLOSED:
            self.closed = True
            self._connection.lane_closed(to)
        else:
            abort(to)


def abort(transport: asyncio.Transport) -> None:
    """End a connection by a reset, whatever is still unsent."""
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        transport.abort()


class Side(asyncio.Protocol):
    """One end of a connection: what comes from there enters a lane."""

    def __init__(self, lane: Lane, made: Callable[[asyncio.Transport], None]) -> None:
        self._lane = lane
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._made(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._lane.take(data)

    def eof_received(self) -> bool:
        """It sends no more, but may still receive."""
        self._lane.take(End.CLOSED)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._lane.take(End.RESET)


class Connection:
    """A client's connection to the proxy, and the proxy's to the server on its behalf.

    damaged    bytes of it were lost: it can never be used again, and is reset when all is healed
    half_open  the server has closed it, and the client does not know
    stranded   the client has given it up, and what it sent is still in flight
    """

    def __init__(self, conditions: Conditions, target_port: int) -> None:
        self.damaged = False
        self.half_open = False
        self.stranded = False
        self._requests = Lane("requests", conditions, self)
        self._replies = Lane("replies", conditions, self)
        self._conditions = conditions
        self._target_port = target_port
        self._client: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Whether both sides are gone."""
        if self._client is None or not self._client.is_closing():
            return False
        connecting = self._connecting is not None and not self._connecting.done()
        return not connecting and (self._server is None or self._server.is_closing())

    def lane(self, direction: Direction) -> Lane:
        """One of its two lanes."""
        return self._requests if direction == "requests" else self._replies

    def accept(self) -> Side:
        """The client's end of it."""
        return Side(self._requests, self._accepted)

    def reset(self) -> None:
        """End it on both sides, at once; what was in flight is lost."""
        if self._connecting is not None:
            self._connecting.cancel()
        for side in (self._client, self._server):
            if side is not None:
                abort(side)

    def drop_server(self) -> None:
        """End it on the server's side; for the client it stays open."""
        self.half_open = self.damaged = True
        if self._server is not None:
            abort(self._server)

    def strand(self) -> None:
        """End it on the client's side; what is in flight to the server stays in flight."""
        self.stranded = True
        if self._client is not None:
            abort(self._client)

    def unstrand(self) -> None:
        """Let what was stranded arrive."""
        self.stranded = False

    def lane_closed(self, end: asyncio.Transport) -> None:
        """The last byte has left one lane; when it has left both, the connection is over."""
        if self._requests.closed and self._replies.closed:
            for side in (self._client, self._server):
                if side is not None:
                    side.close()
        else:
            with contextlib.suppress(OSError):  # it is gone already, which will be noticed
                end.write_eof()

    def _accepted(self, client: asyncio.Transport) -> None:
        self._client = client
        self._replies.lead_to(client)
        if self._conditions.cut:  # a handshake needs both directions
            self.damaged = True
        else:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: Side(self._replies, self._connected), HOST, self._target_port
            )
        except OSError:
            self.reset()

    def _connected(self, server: asyncio.Transport) -> None:
        self._server = server
        self._requests.lead_to(server)
