"""Where the servers are: from a URL, or from a user's own redis-py clients.

redis-py makes the connections: host names, TLS, login, database, Sentinel. What it has connected is
then taken over, because its own way of sending and receiving costs 12 µs a command more. Its
retries are off: when to try again is the algorithm's business.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import redis
import redis.asyncio
from redis import connection as blocking
from redis.asyncio import connection as nonblocking
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from holdfast.core.effects import perform, perform_async
from holdfast.engines.urls import Endpoint

DEFAULT_PORT, SENTINEL_PORT = 6379, 26379
SHORTEST_TIMEOUT = 0.001
PING = b"*1\r\n$4\r\nPING\r\n"
WHO_IS_MASTER = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME")

WORDS = (
    *("host", "port", "path", "db", "username", "password", "credential_provider"),
    *("client_name", "socket_keepalive", "socket_keepalive_options"),
)
"""What is taken over of a user's own client, besides all that is about TLS."""

ENCRYPTED = (blocking.SSLConnection, nonblocking.SSLConnection)

Settings = dict[str, Any]
"""Arguments of a redis-py connection."""


class Address(NamedTuple):
    """A server: its name, and two ways of connecting to it within some seconds."""

    name: str
    open: Callable[[float], Any]
    """Returns a connected socket, in blocking mode, and an object to keep as long as it. That
    would otherwise be finalized at any moment, and a Ctrl-C in a finalizer is ignored."""
    open_async: Callable[[float], Awaitable[Any]]
    """Gives a stream writer, whose transport is to be taken over."""
    fails_over: bool = False
    """Whether connecting again may lead to another server."""
    encrypted: bool = False
    """Whether it is asked for TLS."""


def server(settings: Settings, kind: Any = None) -> Address:
    """A server at a host and port, or at the path of a Unix socket; `kind` is a connection class of
    redis-py, if it should not be the usual one."""

    def open_blocking(timeout: float) -> Any:
        return _open(kind or _kind(blocking, settings), settings, timeout)

    async def open_async(timeout: float) -> Any:
        opening = _open_async(kind or _kind(nonblocking, settings), settings, timeout)
        return await _cancellable(opening)

    name = settings.get("path") or Endpoint(settings["host"], settings["port"]).name
    return Address(name, open_blocking, open_async, encrypted=_is_encrypted(settings))


def sentinel(
    endpoints: Sequence[Endpoint], service: str, settings: Settings, asking: Settings
) -> Address:
    """The server that the sentinels report as the master; `asking` are the settings for them. They
    are asked one after another, the one that answered last first, and each has half of the time
    that is left."""
    known = list(endpoints)

    def find(timeout: float) -> Generator[tuple[Settings, float], Any, tuple[Settings, float]]:
        """Yields whom to ask, and for how long; returns where the master is, and the time left."""
        give_up_at = time.monotonic() + timeout
        problems: list[str] = []
        for endpoint in list(known):
            answer = yield asking | endpoint._asdict(), (give_up_at - time.monotonic()) / 2
            others = [other for other in endpoints if other != endpoint]
            if isinstance(answer, (list, tuple)):
                known[:] = [endpoint, *others]
                host, port = answer
                master = settings | {"host": host.decode(), "port": int(port)}
                return master, give_up_at - time.monotonic()
            known[:] = [*others, endpoint]
            problem = answer or f"it knows of no master of {service!r}"
            problems.append(f"sentinel {endpoint.name}: {problem}")
        raise RedisError("; ".join(problems))

    def open_blocking(timeout: float) -> Any:
        master, left = perform(find(timeout), lambda whom: _ask_sentinel(service, *whom))
        return _open(_kind(blocking, master), master, left)

    async def open_master(timeout: float) -> Any:
        steps = find(timeout)
        master, left = await perform_async(steps, lambda whom: _ask_sentinel_async(service, *whom))
        return await _open_async(_kind(nonblocking, master), master, left)

    async def open_async(timeout: float) -> Any:
        return await _cancellable(open_master(timeout))

    return Address(f"the master of {service}", open_blocking, open_async, fails_over=True)


def _kind(module: Any, settings: Mapping[str, Any]) -> Any:
    if "path" in settings:
        return module.UnixDomainSocketConnection
    return module.SSLConnection if _is_encrypted(settings) else module.Connection


def _is_encrypted(settings: Mapping[str, Any]) -> bool:
    return any(name.startswith("ssl") for name in settings)


BLACK_HOLE = 10_000
"""Milliseconds after which a connection whose other end does not even acknowledge is given up. A
server that is only stopped has a kernel that does."""


def _give_up_on_black_holes(sock: Any) -> None:
    if hasattr(socket, "TCP_USER_TIMEOUT") and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, BLACK_HOLE // 2000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, BLACK_HOLE // 4000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, BLACK_HOLE)


REFUSALS = (b"-NOAUTH", b"-DENIED", b"-ERR max number of clients")


def _refuse(reply: bytes) -> None:
    """Raise what a server refuses an anonymous connection for. One that requires a password refuses
    a short command with an error, but closes the connection on a long one, without a reason. One in
    protected mode, or with too many clients, gives its reason, and closes. So such a connection
    begins with a PING. Any other error to that means nothing."""
    if reply.startswith(REFUSALS):
        raise RedisError(reply[1:].decode().strip())


def _begin(connection: Any) -> None:
    connection._sock.sendall(PING)  # noqa: SLF001 - redis-py's parser is not there yet
    with connection._sock.makefile("rb", buffering=0) as replies:  # noqa: SLF001
        _refuse(replies.readline())
    connection.on_connect()


async def _begin_async(connection: Any) -> None:
    connection._writer.write(PING)  # noqa: SLF001
    async with asyncio.timeout(connection.socket_timeout):
        _refuse(await connection._reader.readline())  # noqa: SLF001
    await connection.on_connect()


def _connection(
    kind: Any, settings: Mapping[str, Any], timeout: float, retry: Any = Retry, begin: Any = _begin
) -> Any:
    timeout = max(timeout, SHORTEST_TIMEOUT)
    is_anonymous = not settings.keys() & {"password", "credential_provider"}
    return kind(
        **settings,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        health_check_interval=0,
        retry_on_timeout=False,
        retry_on_error=[],
        decode_responses=False,
        protocol=2,
        retry=retry(NoBackoff(), 0),
        redis_connect_func=begin if is_anonymous else None,
    )


def _open(kind: Any, settings: Mapping[str, Any], timeout: float) -> Any:
    connection = _connection(kind, settings, timeout)
    try:
        connection.connect()
    except BaseException:
        connection.disconnect()
        raise
    sock, connection._sock = connection._sock, None  # noqa: SLF001 - there is no public way
    _give_up_on_black_holes(sock)
    return sock, connection


async def _open_async(kind: Any, settings: Mapping[str, Any], timeout: float) -> Any:
    connection = _async_connection(kind, settings, timeout)
    try:
        await connection.connect()
    except BaseException:
        await connection.disconnect()  # it was cancelled while it was logging in
        raise
    writer = connection._writer  # noqa: SLF001 - there is no public way
    connection._reader = connection._writer = None  # noqa: SLF001
    _give_up_on_black_holes(writer.get_extra_info("socket"))
    return writer


def _async_connection(kind: Any, settings: Mapping[str, Any], timeout: float) -> Any:
    """A connection that is closed at once, wherever redis-py closes it: with TLS, redis-py would
    wait for the server, and leave the connection open if that is interrupted."""
    connection = _connection(kind, settings, timeout, AsyncRetry, _begin_async)

    async def disconnect(*_: object, **__: object) -> None:
        writer, connection._writer = connection._writer, None  # noqa: SLF001
        if writer is not None:
            writer.transport.abort()

    connection.disconnect = disconnect
    return connection


async def _cancellable(opening: Awaitable[Any]) -> Any:
    """Heeds a cancellation also where redis-py does not: it sends within `asyncio.wait_for`, which
    before Python 3.12 may swallow one. The task would then never end."""
    before, writer = _cancellations(), None
    try:
        writer = await opening
    finally:
        if _cancellations() > before:
            if writer is not None:
                writer.transport.abort()
            raise asyncio.CancelledError
    return writer


def _cancellations() -> int:
    """How often the task that runs us has been asked to end."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _ask_sentinel(service: str, settings: Settings, timeout: float) -> Any:
    """Host and port of the master; None if it does not know; an error if it does not answer."""
    connection = _connection(_kind(blocking, settings), settings, timeout)
    try:
        connection.connect()
        connection.send_command(*WHO_IS_MASTER, service)
        return connection.read_response()
    except (RedisError, OSError) as error:
        return error
    finally:
        connection.disconnect()


async def _ask_sentinel_async(service: str, settings: Settings, timeout: float) -> Any:
    connection = _async_connection(_kind(nonblocking, settings), settings, timeout)
    try:
        await connection.connect()
        await connection.send_command(*WHO_IS_MASTER, service)
        return await connection.read_response()
    except (RedisError, OSError) as error:
        return error
    finally:
        await connection.disconnect()


class Server(NamedTuple):
    """One client's server."""

    address: Address
    url: str
    """As it is shown."""


class ClusterOf(NamedTuple):
    """One client's cluster."""

    seeds: list[Endpoint]
    settings: Settings


def read_client(client: Any, *, awaits: bool) -> Server | ClusterOf:
    """The server that a user's own client is for. That is neither used nor closed: holdfast makes
    connections like its own. A client of asyncio where one of threads is needed, or the
    reverse, is a `TypeError`."""
    _check_kind(client, awaits=awaits)
    if isinstance(client, (redis.RedisCluster, redis.asyncio.RedisCluster)):
        return _cluster(client)
    pool = client.connection_pool
    encrypted = issubclass(pool.connection_class, ENCRYPTED)
    settings = _settings(pool.connection_kwargs, encrypted=encrypted)
    database = settings.setdefault("db", 0) or 0
    if hasattr(pool, "sentinel_manager"):
        return _sentinel(pool, settings)
    if "path" in settings:
        address = server(settings, pool.connection_class)
        return Server(address, f"unix://{quote(settings['path'])}")
    endpoint = Endpoint(settings.get("host", "localhost"), int(settings.get("port", DEFAULT_PORT)))
    settings |= endpoint._asdict()
    address = server(settings, pool.connection_class)
    scheme = "rediss" if encrypted else "redis"
    return Server(address, f"{scheme}://{endpoint.name}/{database}")


def _check_kind(client: Any, *, awaits: bool) -> None:
    ours, theirs = ("an AsyncClient", redis.asyncio) if awaits else ("a Client", redis)
    if not isinstance(client, (theirs.Redis, theirs.RedisCluster)):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise TypeError(f"url: {ours} needs a {theirs.__name__}.Redis, got a {kind}")


def _settings(given: Mapping[str, Any], *, encrypted: bool) -> Settings:
    marked = {"ssl_cert_reqs": "required"} if encrypted else {}  # redis-py's default
    return marked | {
        name: value
        for name, value in given.items()
        if value is not None and (name in WORDS or (encrypted and name.startswith("ssl_")))
    }


def _sentinel(pool: Any, settings: Settings) -> Server:
    if not pool.is_master:
        raise ValueError("url: a lock is kept by the master, got a client of its replicas")
    endpoints, asking = [], {}
    for each in pool.sentinel_manager.sentinels:
        kind, given = each.connection_pool.connection_class, each.connection_pool.connection_kwargs
        encrypted = issubclass(kind, ENCRYPTED)
        asking = _settings(given, encrypted=encrypted)
        endpoints.append(Endpoint(asking.pop("host"), int(asking.pop("port"))))
    address = sentinel(endpoints, pool.service_name, settings, asking)
    hosts = ",".join(endpoint.name for endpoint in endpoints)
    url = f"redis+sentinel://{hosts}/{pool.service_name}/{settings['db']}"
    return Server(address, url)


def _cluster(client: Any) -> ClusterOf:
    manager = client.nodes_manager
    given = getattr(manager, "connection_kwargs", {})
    kind = given.get("connection_class", object)
    encrypted = bool(given.get("ssl")) or issubclass(kind, ENCRYPTED)
    settings = _settings(given, encrypted=encrypted)
    for name in ("host", "port", "db"):
        settings.pop(name, None)
    nodes = manager.startup_nodes.values()
    return ClusterOf([Endpoint(node.host, int(node.port)) for node in nodes], settings)
