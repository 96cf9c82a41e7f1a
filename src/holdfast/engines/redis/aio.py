"""The store for asyncio: one protocol for each connection, shared by all tasks of a client.

A cancelled task leaves what it has sent in the connection's queue: the reply is read and dropped,
and the release that follows is executed behind it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

from holdfast.core.effects import Sleep, perform_async
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Answer, Request
from holdfast.engines.processes import detach
from holdfast.engines.redis.connection import GONE, Connection
from holdfast.engines.redis.nodes import Effect, Nodes, Route
from holdfast.engines.redis.protocol import BROKEN, CLOSED, explain, heals_in


class WaitingTask(asyncio.Future[None]):
    """A task that waits for a round."""

    def wake(self) -> None:
        """The round is over."""
        if not self.done():
            self.set_result(None)


class Protocol(asyncio.Protocol):
    """One connection."""

    def __init__(
        self, store: "AsyncRedisStore", connection: Connection, writer: asyncio.StreamWriter
    ) -> None:
        self._store, self.connection = store, connection
        self._writer = writer  # its finalizer would close the transport
        self.transport: Any = writer.transport
        self.loop = asyncio.get_running_loop()
        self._outgoing: list[bytes] = []
        """What is sent at the end of this turn of the loop."""
        self.transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        """Replies and pushes have come."""
        store, connection = self._store, self.connection
        if store.protocols.get(connection) is not self:
            return  # it was given up meanwhile
        try:
            connection.receive(data)
        except BROKEN as error:
            store.disconnect(connection, explain(error))
        except BaseException as error:
            store.disconnect(connection, f"an internal error: {error!r}")
            raise
        store.set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        if self._store.protocols.get(self.connection) is self:
            self._store.disconnect(self.connection, CLOSED if exc is None else explain(exc))

    def write(self, commands: Sequence[bytes]) -> None:
        """Send it: at once if nothing is pending before it, else together with what else is sent in
        this turn of the loop."""
        is_first = not self._outgoing
        self._outgoing += commands
        if len(self.connection.pending) <= 1:
            self._flush()
        elif is_first:
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"".join(self._outgoing))
        self._outgoing.clear()


class AsyncRedisStore:
    """One server, a quorum of several, or a cluster."""

    def __init__(self, nodes: Nodes, route: Route) -> None:
        self._nodes, self._route = nodes, route
        self._clock, self._waiters = nodes.clock, nodes.waiters
        nodes.connect, nodes.disconnect = self._connect, self.disconnect
        self._begin()

    def _begin(self) -> None:
        self.protocols: dict[Connection, Protocol] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf
        """When the timer fires."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        way = self._route(requests, until)
        if isinstance(way, FanOut):
            try:
                await self._start(way)
            finally:
                if not way.over:  # a cancelled task must not be granted anything any more
                    way.stop()
            return self._nodes.answers(way)
        return await perform_async(way, self._do)

    async def close(self) -> None:
        """Close every connection."""
        self._nodes.closed = True
        connecting = list(self._connecting)
        for task in connecting:
            task.cancel()
        if connecting:
            await asyncio.wait(connecting)
        self._drop_all()
        await asyncio.sleep(0)  # the transports close in the next turn of the loop

    def abandon(self) -> None:
        """Close every connection where nothing can be awaited: the client was garbage-collected,
        perhaps in another thread."""
        self._nodes.closed = True
        for task in list(self._connecting):
            loop = task.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        protocols = list(self.protocols.values())
        self.protocols.clear()
        for protocol in protocols:
            try:
                protocol.loop.call_soon_threadsafe(protocol.transport.abort)
            except RuntimeError:
                _close_after_its_loop(protocol.transport)

    def forget(self) -> None:
        """In a forked child: the sockets are the parent's."""
        for protocol in self.protocols.values():
            sock = protocol.transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                detach(sock.fileno())
        self._nodes.forget()
        self._begin()

    def disconnect(self, connection: Connection, why: str, heals: float | None = None) -> None:
        """Close a connection."""
        protocol = self.protocols.pop(connection, None)
        if protocol is not None:
            protocol.transport.abort()
            connection.lost(why, heals)

    def set_timer(self) -> None:
        """Have the timer fire when the next waiter is due."""
        if self._waiters.next_due < self._due:
            self._fire_at(self._waiters.next_due)

    def _drop_all(self) -> None:
        for connection in list(self.protocols):
            self.disconnect(connection, GONE)
        if self._timer is not None:
            self._timer.cancel()
            self._due = inf

    async def _do(self, effect: Effect) -> None:
        if isinstance(effect, Sleep):
            await asyncio.sleep(effect.until - self._clock())
        else:
            try:
                await self._start(effect)
            finally:
                if not effect.over:
                    effect.stop()

    def _start(self, each: FanOut) -> WaitingTask:
        """Send a round; the result is set when it is over."""
        waiting = WaitingTask(loop=asyncio.get_running_loop())
        self._nodes.start(each, waiting.wake)
        if each.until < self._due:
            self._fire_at(each.until)
        return waiting

    def _fire_at(self, instant: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = instant
        delay = max(0.001, instant - self._clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        """Something is due. But the loop may have been held up: it reads what has come first."""
        self._timer = asyncio.get_running_loop().call_later(0, self._look)

    def _look(self) -> None:
        """Declare timeouts, and wake waiters whose time has come."""
        self._due = inf
        now = self._clock()
        try:
            self._waiters.wake_due()
            for exchange in self._nodes.unanswered():
                each = exchange.round
                if each.until <= now and not each.over:
                    self._nodes.expire(each)
        finally:  # also after a Ctrl-C
            waits = [exchange.round.until for exchange in self._nodes.unanswered()]
            following = min([self._waiters.next_due, *waits])
            if following < inf:
                self._fire_at(following)

    def _connect(self, connection: Connection, timeout: float) -> None:
        task = asyncio.ensure_future(self._open(connection, timeout))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _open(self, connection: Connection, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                writer = await connection.address.open_async(timeout)
        except asyncio.CancelledError:
            connection.lost(GONE)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            connection.lost(explain(error), heals_in(error))
            return
        if self._nodes.closed:
            writer.transport.abort()
            connection.lost(GONE)
            return
        self.protocols[connection] = protocol = Protocol(self, connection, writer)
        connection.opened(protocol.write)


def _close_after_its_loop(transport: Any) -> None:
    """Close a transport whose event loop has ended: no public method does so any more."""
    encryption = getattr(transport, "_ssl_protocol", None)
    raw = transport if encryption is None else encryption._transport  # noqa: SLF001
    # Each does its part, and then finds that the loop is closed.
    with suppress(RuntimeError):
        raw.abort()
    with suppress(RuntimeError):
        raw._call_connection_lost(None)  # noqa: SLF001 - what the loop would call
