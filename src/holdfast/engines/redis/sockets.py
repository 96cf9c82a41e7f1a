"""Sockets that do not block, and waiting for several of them.

`select.poll` is used where there is one: gevent replaces it, and eventlet removes it.
"""

import select
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.engines.processes import detach
from holdfast.engines.redis.connection import Connection
from holdfast.engines.redis.protocol import CLOSED

READ_SIZE = 65536

NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Socket:
    """One connected socket, plain or with TLS. Not thread-safe. `changed` is called when there is
    something unsent, or less than before."""

    def __init__(self, changed: Callable[[], None], sock: Any, keep: object) -> None:
        self._changed, self._sock, self._keep = changed, sock, keep
        sock.setblocking(False)
        self.is_plain = not isinstance(sock, ssl.SSLSocket)
        self.fd: int = sock.fileno()
        self.unsent = b""

    def send(self, commands: Sequence[bytes] = ()) -> None:
        """Send what is unsent, and then this, or as much of it as the system takes."""
        waited = self.unsent
        text = waited + b"".join(commands)
        try:
            sent = self._sock.send(text)
        except NOT_NOW:
            sent = 0
        if waited or sent < len(text):
            self.unsent = text[sent:]
            self._changed()

    def receive(self) -> bytes:
        """What has arrived; empty if nothing has; an `EOFError` at the end."""
        try:
            data: bytes = self._sock.recv(READ_SIZE)
        except NOT_NOW:
            return b""
        if not data:
            raise EOFError(CLOSED)
        return data

    def close(self) -> None:
        """Close it, and wake a thread that waits for it."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def forget(self) -> None:
        """In a forked child: drop it without closing the parent's connection."""
        detach(self.fd)


class Wakeup:
    """Ends a wait for sockets, from any thread or signal handler."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.fd = self._reader.fileno()

    def wake(self) -> None:
        """End the present wait, or the next one."""
        with suppress(OSError):  # there are enough bytes in it, or it was closed
            self._writer.send(b"\0")

    def drain(self) -> None:
        """It was seen."""
        with suppress(OSError):
            self._reader.recv(READ_SIZE)

    def close(self) -> None:
        """Close both ends."""
        self._reader.close()
        self._writer.close()

    def forget(self) -> None:
        """In a forked child."""
        detach(self._reader.fileno())
        detach(self._writer.fileno())


class Poller:
    """Waits for some sockets; used by one thread at a time."""

    def __init__(self, sockets: Mapping[Connection, Socket], wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.connections = {sock.fd: connection for connection, sock in sockets.items()}
        """The connection of each descriptor."""
        self._reads = [wakeup.fd, *self.connections]
        self._writes = [sock.fd for sock in sockets.values() if sock.unsent]
        self._poll: Any = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            for fd in self._reads:
                self._poll.register(fd, select.POLLIN)
            for fd in self._writes:
                self._poll.register(fd, select.POLLIN | select.POLLOUT)

    def wait(self, seconds: float) -> Sequence[tuple[int, int]]:
        """Wait; gives the descriptors that can be read or written, each with its events."""
        if self._poll is not None:
            return self._poll.poll(seconds * 1000)  # type: ignore[no-any-return]  # of `select`
        reads, writes, _ = select.select(self._reads, self._writes, (), seconds)
        return [(fd, 0) for fd in (*reads, *writes)]
