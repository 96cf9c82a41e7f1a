"""kazoo's client, and what it does not offer: everything that depends on the inside of kazoo."""

import atexit
import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from kazoo.client import CLOSED_STATES, KazooClient
from kazoo.exceptions import ConnectionDropped, WriterNotClosedException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import (
    CloseInstance,
    Connect,
    Create,
    Create2,
    Sync,
    int_int_struct,
    int_struct,
)
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from holdfast.engines.inherited import detach
from holdfast.engines.zookeeper.promise import Promise
from holdfast.engines.zookeeper.security import Security

RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 1.0}
"""How kazoo tries to connect: again and again."""

EPHEMERAL, SEQUENCE, CONTAINER = 1, 2, 4
"""What a node is to be, in the protocol."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of an ensemble, and who we are to them."""

    hosts: tuple[str, ...]
    login: str = ""
    """`user:password`; empty for nobody."""
    security: Security | None = None
    """None for connections in the clear."""

    @property
    def name(self) -> str:
        """As an error names them."""
        return ",".join(self.hosts)


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, which here wait without opening a file for each wait, connect without
    spending the time of all servers on one of them, and keep promises of our own."""

    def __init__(self, servers: Servers) -> None:
        super().__init__()
        self.host = ""
        """The server that is connected to next, as the URL names it."""
        self._servers = servers

    def async_result(self) -> Any:
        """A `Promise`, which does all that kazoo asks of one."""
        return Promise(self)

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until one of these can be read, or written."""
        decrypted = [line for line in rlist if isinstance(line, ssl.SSLSocket) and line.pending()]
        lines = {line.fileno(): line for line in (*rlist, *wlist)}
        poll = select.poll()
        for number, line in lines.items():
            poll.register(number, select.POLLIN if line in rlist else select.POLLOUT)
        # What is decrypted already makes no socket readable.
        found = poll.poll(0 if decrypted else ceil(timeout * 1000))
        ready = {*decrypted, *(lines[number] for number, _ in found)}
        return [x for x in rlist if x in ready], [x for x in wlist if x in ready], []

    def create_connection(
        self, address: tuple[str, int], *, timeout: float, **_: Any
    ) -> socket.socket:
        """Connect to one of the servers, within its share of the time."""
        line = socket.create_connection(address, timeout / len(self._servers.hosts))
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            security = self._servers.security
            return line if security is None else security.secure(line, self.host)
        except BaseException:
            line.close()
            raise


class Wire(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """One session, over one connection at a time.

    `opening(shortest)` is called before a server is asked to accept us, with the shortest session
    that it grants, and gives the timeout to ask for; `opened(session, timeout)` when it has, with
    the timeout that it grants. kazoo's own thread calls them, so they must not wait.
    """

    def __init__(
        self,
        servers: Servers,
        timeout: float,
        shortest: float,
        opening: Callable[[float], float],
        opened: Callable[[int, float], None],
    ) -> None:
        login = {("digest", servers.login)} if servers.login else set()
        super().__init__(
            hosts=servers.name,
            timeout=timeout,
            handler=_Threads(servers),
            auth_data=login,
            default_acl=CREATOR_ALL_ACL if login else None,
            randomize_hosts=False,
            connection_retry=RETRY,
        )
        self.trouble = ""
        """Why the last try to connect failed; empty if it did not."""
        retry: Any = self._connection.retry_sleeper
        self._connection: Any = _Connection(self, retry, shortest, opening, opened)

    def join_async(self, path: str, data: bytes) -> Promise:
        """Make an ephemeral sequential node. Gives its path, and what is known of it.

        This, and the two below, without the callbacks that kazoo puts around such requests, and
        which another thread would have to call."""
        return self._promise(Create2(path, data, self._acl, EPHEMERAL | SEQUENCE))

    def create_container_async(self, path: str) -> Promise:
        """Make a node that the server removes when it has been without children for a while."""
        return self._promise(_CreateContainer(path, b"", self._acl, CONTAINER))

    def sync_async(self, path: str) -> Promise:
        """Have our server ask the leader how far it has come."""
        return self._promise(Sync(path))

    @property
    def _acl(self) -> Any:
        return self.default_acl or OPEN_ACL_UNSAFE

    def _promise(self, request: Any) -> Promise:
        promise = Promise(self.handler)
        self._call(request, promise)
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
                # Not the way of TLS, which would say farewell, and take the keys from a reader.
                socket.socket.shutdown(line, socket.SHUT_RDWR)

    def end(self, request_timeout: float) -> None:
        """End the session, if the server answers in time, and the connection in any case."""
        ending = threading.Thread(target=self._stop, name="holdfast-farewell", daemon=True)
        ending.start()
        ending.join(request_timeout)
        if ending.is_alive():
            self.cut()
            ending.join(request_timeout)
        if not ending.is_alive():
            self.close()

    def leave(self) -> Any:
        """Say that the session ends, and do not wait for it. Gives kazoo's event of its end."""
        self._stopped.set()
        self._queue.append((CloseInstance, None))
        self.nudge()
        return self._connection.connection_stopped

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
        shortest: float,
        opening: Callable[[float], float],
        opened: Callable[[int, float], None],
    ) -> None:
        super().__init__(client, retry, logger=client.logger)
        self._shortest, self._opening, self._opened = shortest, opening, opened

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        """One connection, from its beginning to its end. What kazoo does not understand would end
        all connecting; here, another server is tried."""
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except Exception as error:  # noqa: BLE001 - kazoo has logged it
            self.client.trouble = f"{host}:{port}: {error}"
            self.client._session_callback(KeeperState.CONNECTING)  # noqa: SLF001 - as kazoo does
            return None

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self.handler.host = host
        try:
            if not self._shortest:
                self._shortest = self._shortest_session(hostip, port)
            timeout = self._opening(self._shortest)
            self.client._session_timeout = ceil(timeout * 1000)  # noqa: SLF001 - what kazoo asks for
            times = super()._connect(host, hostip, port)
        except Exception as error:
            self.client.trouble = f"{host}:{port}: {error}"
            raise
        self.client.trouble = ""
        self._opened(self.client.client_id[0], times[0] * 1.5 / 1000)  # kazoo waits for two thirds
        return times

    def _shortest_session(self, hostip: str, port: int) -> float:
        """Ask for a session of a millisecond, and end the one that is granted."""
        seconds = self.client._session_timeout / 1000  # noqa: SLF001 - as kazoo does
        with self.handler.create_connection((hostip, port), timeout=seconds) as line:
            line.sendall(_framed(Connect(0, 0, 1, 0, b"\0" * 16, False).serialize()))
            [size] = int_struct.unpack(_read_exactly(line, int_struct.size))
            granted, _ = Connect.deserialize(_read_exactly(line, size), 0)
            line.sendall(_framed(int_int_struct.pack(1, CloseInstance.type)))
            while line.recv(1024):
                pass  # until the server hangs up: then the session is gone
        return float(granted.time_out) / 1000

    def forget(self) -> None:
        for line in (self._socket, self._read_sock, self._write_sock):
            if line is not None and line.fileno() >= 0:
                detach(line.fileno())


def _framed(message: bytes | bytearray) -> bytes:
    return bytes(int_struct.pack(len(message)) + message)


def _read_exactly(line: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = line.recv(size - len(read))
        if not more:
            raise ConnectionDropped("the server hung up")
        read += more
    return read


class _CreateContainer(Create):  # type: ignore[misc]  # kazoo has no types
    """The request that kazoo lacks: it differs from the other one in its number alone."""

    type = 19
