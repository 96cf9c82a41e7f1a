"""kazoo's client, and what it does not offer: everything that depends on the inside of kazoo."""

import atexit
import contextlib
import select
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from kazoo.client import CLOSED_STATES, KazooClient
from kazoo.exceptions import WriterNotClosedException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Create
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from holdfast.engines.inherited import detach

RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 1.0}
"""How kazoo tries to connect: again and again."""

CONTAINER_FLAG = 4


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of an ensemble, and who we are to them."""

    hosts: tuple[str, ...]
    login: str = ""
    """`user:password`; empty for nobody."""

    @property
    def name(self) -> str:
        """As an error names them."""
        return ",".join(self.hosts)


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, which here wait without opening a file for each wait."""

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until one of these can be read, or written."""
        lines = {line.fileno(): line for line in (*rlist, *wlist)}
        poll = select.poll()
        for number, line in lines.items():
            poll.register(number, select.POLLIN if line in rlist else select.POLLOUT)
        ready = [lines[number] for number, _ in poll.poll(ceil(timeout * 1000))]
        return [x for x in ready if x in rlist], [x for x in ready if x in wlist], []


class Wire(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """One session, over one connection at a time.

    `opening()` is called before a server is asked to accept us, and `opened(session, timeout)` when
    it has, with the seconds that it grants. kazoo's own thread calls them, so they must not wait.
    """

    def __init__(
        self,
        servers: Servers,
        timeout: float,
        opening: Callable[[], None],
        opened: Callable[[int, float], None],
    ) -> None:
        login = {("digest", servers.login)} if servers.login else set()
        super().__init__(
            hosts=servers.name,
            timeout=timeout,
            handler=_Threads(),
            auth_data=login,
            default_acl=CREATOR_ALL_ACL if login else None,
            randomize_hosts=False,
            connection_retry=RETRY,
        )
        retry: Any = self._connection.retry_sleeper
        self._connection: Any = _Connection(self, retry, opening, opened)

    def create_container_async(self, path: str) -> Any:
        """Make a node that the server removes when it has been without children for a while."""
        promise = self.handler.async_result()
        acl = self.default_acl or OPEN_ACL_UNSAFE
        self._call(_CreateContainer(path, b"", acl, CONTAINER_FLAG), promise)
        return promise

    def _call(self, request: Any, async_object: Any) -> Any:
        """Send a request. kazoo's own way takes a Ctrl-C that strikes here for a connection that is
        closed, and swallows it."""
        if self._state in CLOSED_STATES:
            return super()._call(request, async_object)  # which breaks the promise at once
        self._queue.append((request, async_object))
        self.nudge()
        return None

    def nudge(self) -> None:
        """Have kazoo's thread look whether there is anything to send. It is told so for each
        request, but a Ctrl-C may strike before that, and then all would be sent one too late."""
        bell = self._connection._write_sock  # noqa: SLF001 - there is no other way to it
        if bell is not None:
            with contextlib.suppress(OSError):  # it has just been closed
                bell.send(b"\0")

    def cut(self) -> None:
        """End the connection, so that another server is tried; the session goes on."""
        line = self._connection._socket  # noqa: SLF001 - there is no other way to it
        if line is not None:
            with contextlib.suppress(OSError):  # it has just been closed
                line.shutdown(socket.SHUT_RDWR)

    def end(self, patience: float) -> None:
        """End the session, if the server answers in time, and the connection in any case."""
        ending = threading.Thread(target=self._stop, name="holdfast-farewell", daemon=True)
        ending.start()
        ending.join(patience)
        if ending.is_alive():
            self.cut()
            ending.join(patience)
        if not ending.is_alive():
            self.close()

    def _stop(self) -> None:
        with contextlib.suppress(WriterNotClosedException):  # it has waited for longer than we do
            self.stop()

    def forget(self) -> None:
        """In a forked child: the connection is the parent's, and its threads are not here."""
        atexit.unregister(self.handler.stop)
        self._connection.forget()


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, which also tells what timeout a server has granted."""

    def __init__(
        self,
        client: KazooClient,
        retry: Any,
        opening: Callable[[], None],
        opened: Callable[[int, float], None],
    ) -> None:
        super().__init__(client, retry, logger=client.logger)
        self._opening, self._opened = opening, opened

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self._opening()
        times = super()._connect(host, hostip, port)
        self._opened(self.client.client_id[0], times[0] * 1.5 / 1000)  # kazoo waits for two thirds
        return times

    def forget(self) -> None:
        for line in (self._socket, self._read_sock, self._write_sock):
            if line is not None and line.fileno() >= 0:
                detach(line.fileno())


class _CreateContainer(Create):  # type: ignore[misc]  # kazoo has no types
    """The request that kazoo lacks: it differs from the other one in its number alone."""

    type = 19
