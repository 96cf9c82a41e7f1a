"""Hearing wake-ups in a thread of its own: one subscription to each server, for all who wait."""

import socket
import threading
from heapq import heappop, heappush
from typing import Any

import hiredis

from holdfast.engines.inherited import detach
from holdfast.engines.redis.link import BROKEN, READ_SIZE
from holdfast.engines.redis.nodes import CONNECT_TIMEOUT, REDIAL_AFTER, Fleet, Node
from holdfast.engines.redis.phrases import Reply, command


class Ear:
    """Listens to one server until it is closed."""

    def __init__(self, node: Node, fleet: Fleet) -> None:
        self._node, self._fleet = node, fleet
        self._closed = threading.Event()
        self._sock: Any = None
        self._later: list[tuple[float, str]] = []
        self.ready = threading.Event()
        """Set while it hears."""
        self._thread = threading.Thread(target=self._run, name="holdfast-ear", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        sock = self._sock
        if sock is not None:
            _shut(sock)
        if self._thread is not threading.current_thread():
            self._thread.join(CONNECT_TIMEOUT)

    def forget(self) -> None:
        """In a forked child: the socket is the parent's."""
        if self._sock is not None:
            detach(self._sock.fileno())

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen()
            except BROKEN:
                self.ready.clear()
                self._fleet.deaf(self._node)
            if self._sock is not None:
                self._sock.close()
                self._sock = None
            self._closed.wait(REDIAL_AFTER)

    def _listen(self) -> None:
        self._sock, _ = self._node.address.open(CONNECT_TIMEOUT)
        self._sock.sendall(command(b"SUBSCRIBE", self._fleet.channel.encode()))
        reader, timed = hiredis.Reader(), True
        while not self._closed.is_set():
            try:
                data = self._sock.recv(READ_SIZE)
                if not data:
                    raise EOFError("the connection was closed")
                reader.feed(data)
            except TimeoutError:
                if not self.ready.is_set():
                    raise
            while (push := reader.gets()) is not False:
                self._hear(push)
            # Whoever was rung for runs when we wait again: until then, no more than has to be.
            due = self._ring_due() if self._later else None
            if due is not None or timed:
                self._sock.settimeout(due)
                timed = due is not None

    def _hear(self, push: Reply) -> None:
        if isinstance(push, Exception):
            raise push
        kind, _, message = push
        if kind == b"message":
            self._fleet.heard(message, self._ring_later)
        else:
            self._fleet.listens(self._node)
            self.ready.set()

    def _ring_later(self, delay: float, holder: str) -> None:
        heappush(self._later, (self._fleet.around.clock() + delay, holder))

    def _ring_due(self) -> float | None:
        """Ring for those whose time has come; gives how long the next one has to wait."""
        now = self._fleet.around.clock()
        while self._later and self._later[0][0] <= now:
            _, holder = heappop(self._later)
            if holder in self._fleet.waiting:
                self._fleet.around.ring(holder)
        return self._later[0][0] - now if self._later else None


def _shut(sock: Any) -> None:
    """Make a blocked read return."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
