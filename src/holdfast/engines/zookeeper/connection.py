"""The connection of one session: kazoo's client, and what it does not offer.

All private parts of kazoo that holdfast uses are used here; a test names each of them.
"""

import atexit
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionDropped
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

from holdfast.engines.processes import detach
from holdfast.engines.urls import hint_for_tls
from holdfast.engines.zookeeper.promise import Promise


@dataclass(frozen=True, slots=True)
class Security:
    """TLS: the files of a client. They are read for each connection, so they can be replaced."""

    ca_cert: str = ""
    """The authorities to trust; empty for those that the system trusts."""
    cert: str = ""
    """The client's certificate, with its chain; empty for none."""
    key: str = ""

    def secure(self, sock: socket.socket, host: str) -> ssl.SSLSocket:
        """The handshake; the server's certificate must be valid for that host."""
        return self._context().wrap_socket(sock, server_hostname=host)

    def check(self) -> None:
        """Raise a `ValueError` if one of the files cannot be used."""
        try:
            self._context()
        except OSError as error:
            files = f"ca_cert={self.ca_cert} cert={self.cert} key={self.key}"
            raise ValueError(f"{files}: cannot be used, {error}") from error

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_cert or None)
        if self.cert:
            # A key that is encrypted is an error: there is no prompt for its password.
            context.load_cert_chain(self.cert, self.key, password=b"")
        return context


RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 1.0}
"""kazoo connects again and again."""

CUT_WITHIN = 1.0
"""Seconds for kazoo's thread to find out that its connection was closed."""

ENDED = (KeeperState.AUTH_FAILED, KeeperState.CLOSED, KeeperState.EXPIRED_SESSION)
"""States in which nothing is sent any more."""

EPHEMERAL, SEQUENCE, CONTAINER = 1, 2, 4
"""The kinds of a node, in the protocol."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of an ensemble, and how to log in."""

    hosts: tuple[str, ...]
    login: str = ""
    """`user:password`; empty for none."""
    security: Security | None = None
    """None for connections without TLS."""

    @property
    def name(self) -> str:
        """As errors name them."""
        return ",".join(self.hosts)


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads. Here they read all that TLS has decrypted, connect to one server within its
    share of the time, and use `Promise`."""

    def __init__(self, servers: Servers) -> None:
        super().__init__()
        self.host = ""
        """The server to connect to next, as the URL names it."""
        self._servers = servers

    def async_result(self) -> Any:
        """A `Promise`, which has all methods that kazoo uses."""
        return Promise(self)

    def start(self) -> None:
        """Start both threads, or none."""
        try:
            super().start()
        except RuntimeError:
            self._running = True  # else `stop` would do nothing
            self.stop()
            raise

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until one of these can be read, or written. Data that is decrypted already makes no
        socket readable."""
        decrypted = [each for each in rlist if isinstance(each, ssl.SSLSocket) and each.pending()]
        return (decrypted, [], []) if decrypted else super().select(rlist, wlist, xlist, timeout)

    def create_connection(
        self, address: tuple[str, int], *, timeout: float, **_: Any
    ) -> socket.socket:
        """Connect to one of the servers, within its share of the time."""
        sock = socket.create_connection(address, timeout / len(self._servers.hosts))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            security = self._servers.security
            return sock if security is None else security.secure(sock, self.host)
        except BaseException:
            sock.close()
            raise


class Connection(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """One session, over one connection at a time.

    `opening(shortest)` is called before a session is requested, with the shortest one that the
    server grants, and returns the timeout to request; `opened(session, timeout)` when there is a
    session, with the timeout that was granted. kazoo's own thread calls them: they must not block.
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
        self.last_error = ""
        """Why the last try to connect failed; empty if it did not."""
        self._ending: threading.Thread | None = None
        retry: Any = self._connection.retry_sleeper
        self._connection: Any = _Handler(self, retry, shortest, opening, opened)

    def join_async(self, path: str, data: bytes) -> Promise:
        """Create an ephemeral sequential node; the result is its path, and its `Stat`.

        This request, and the two below, without the callbacks that kazoo adds to them, and that
        another thread would have to call."""
        return self._promise(Create2(path, data, self._acl, EPHEMERAL | SEQUENCE))

    def create_container_async(self, path: str) -> Promise:
        """Create a node that the server removes when it has been without children for a while."""
        return self._promise(_CreateContainer(path, b"", self._acl, CONTAINER))

    def sync_async(self, path: str) -> Promise:
        """Have the server catch up with the leader."""
        return self._promise(Sync(path))

    @property
    def _acl(self) -> Any:
        return self.default_acl or OPEN_ACL_UNSAFE

    def _promise(self, request: Any) -> Promise:
        promise = Promise(self.handler)
        self._call(request, promise)
        return promise

    def cut(self) -> None:
        """Close the connection, so that another server is tried; the session goes on."""
        sock = self._connection._socket  # noqa: SLF001 - there is no public way
        if sock is not None:
            with contextlib.suppress(OSError):  # it was closed just now
                # Not that of TLS, which would send a message, and take the keys from a reader.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def begin_end(self) -> None:
        """Begin to close the session, and the connection: in a thread, since to join those of kazoo
        may take longer than we wait."""
        if self._ending is None:
            ending = threading.Thread(target=self._stop, name="holdfast-close", daemon=True)
            with contextlib.suppress(RuntimeError):  # no thread can be started
                ending.start()
                self._ending = ending

    def end(self, timeout: float) -> None:
        """Close the session, if the server answers in time, and the connection in any case."""
        self.begin_end()
        if self._ending is None:
            self._request_end()
            if not self._connection.connection_stopped.wait(timeout):
                self.cut()
            self._stop()
        else:
            self._ending.join(timeout)
            if self._ending.is_alive():
                self.cut()
                self._ending.join(CUT_WITHIN)
                if self._ending.is_alive():
                    return
        self.close()

    def _call(self, request: Any, async_object: Any) -> Any:
        """Have kazoo's thread send a request. kazoo's own swallows a Ctrl-C here."""
        if self._state in ENDED:
            return super()._call(request, async_object)  # which sets the error
        if not self._enqueue(request, async_object):
            async_object.set_exception(ConnectionClosedError("the connection was closed"))
        return None

    def _enqueue(self, request: Any, promise: Any) -> bool:
        """Queue a request, and a byte that wakes kazoo's thread; False if that has ended.

        The thread takes out one request for each byte. A byte too many is harmless; one too few,
        after an interruption (Ctrl-C), would delay each later request until there is another."""
        try:
            self._queue.append((request, promise))
            self._wake()
        except OSError:
            return False
        except BaseException:
            with contextlib.suppress(OSError):  # the interruption is what the caller must see
                self._wake()
            raise
        return True

    def _wake(self) -> None:
        wakeup = self._connection._write_sock  # noqa: SLF001 - there is no public way
        if wakeup is None:
            raise OSError("the connection was closed")
        wakeup.send(b"\0")

    def _request_end(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._enqueue(CloseInstance, None)

    def _stop(self) -> None:
        self._request_end()
        self.handler.stop()
        self._connection.stop()

    def forget(self) -> None:
        """In a forked child: the connection is the parent's, and its threads are not here."""
        atexit.unregister(self.handler.stop)
        self._connection.forget()


class _Handler(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, which also reports the timeout that a server grants."""

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

    def _expand_client_hosts(self) -> Any:
        """The addresses of the servers. If no name can be resolved, kazoo only logs that."""
        found = super()._expand_client_hosts()
        if not found:
            self.client.last_error = "no server's name can be resolved"
        return found

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        """One connection, from its beginning to its end. An error that kazoo does not expect would
        end its thread; here, another server is tried."""
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except Exception as error:  # noqa: BLE001 - kazoo has logged it
            self.client.last_error = f"{host}:{port}: {error}"
            self.client._session_callback(KeeperState.CONNECTING)  # noqa: SLF001 - as kazoo does
            return None

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self.handler.host = host
        try:
            if not self._shortest:
                self._shortest = self._shortest_session(hostip, port)
            timeout = self._opening(self._shortest)
            self.client.last_zxid = 0  # servers that were set up anew would refuse a later one
            self.client._session_timeout = ceil(timeout * 1000)  # noqa: SLF001 - what kazoo asks for
            times = super()._connect(host, hostip, port)
        except Exception as error:
            why = f"{error}{hint_for_tls(str(error), 'zookeeper')}"
            self.client.last_error = f"{host}:{port}: {why}"
            if isinstance(error, OSError):
                raise ConnectionDropped(why) from error  # kazoo logs others with a traceback
            raise
        self.client.last_error = ""
        self._opened(self.client.client_id[0], times[0] * 1.5 / 1000)  # kazoo waits for two thirds
        return times

    def _shortest_session(self, hostip: str, port: int) -> float:
        """Request a session of a millisecond, and close the one that is granted."""
        seconds = self.client._session_timeout / 1000  # noqa: SLF001 - as kazoo does
        with self.handler.create_connection((hostip, port), timeout=seconds) as sock:
            sock.sendall(_framed(Connect(0, 0, 1, 0, b"\0" * 16, False).serialize()))
            [size] = int_struct.unpack(_read_exactly(sock, int_struct.size))
            granted, _ = Connect.deserialize(_read_exactly(sock, size), 0)
            sock.sendall(_framed(int_int_struct.pack(1, CloseInstance.type)))
            while sock.recv(1024):
                pass  # until the server closes the connection: then the session is closed
        return float(granted.time_out) / 1000

    def forget(self) -> None:
        for sock in (self._socket, self._read_sock, self._write_sock):
            if sock is not None and sock.fileno() >= 0:
                detach(sock.fileno())


def _framed(message: bytes | bytearray) -> bytes:
    return bytes(int_struct.pack(len(message)) + message)


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = sock.recv(size - len(read))
        if not more:
            raise ConnectionDropped("the server closed the connection")
        read += more
    return read


class _CreateContainer(Create):  # type: ignore[misc]  # kazoo has no types
    """The request that kazoo lacks: it differs from `Create` in its number alone."""

    type = 19
