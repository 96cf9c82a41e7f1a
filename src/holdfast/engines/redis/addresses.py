"""Where the servers are: from a URL, or from a user's own redis-py clients.

redis-py makes the connections: host names, TLS, login, database, Sentinel. What it has connected is
then taken over, because its own way of sending and receiving costs 12 µs a command more. Its
retries are off: when to try again is the algorithm's business.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote

from redis import connection as blocking
from redis.asyncio import connection as nonblocking
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

DEFAULT_PORT, SENTINEL_PORT = 6379, 26379

Settings = dict[str, Any]
"""Arguments of a redis-py connection."""


class Address(NamedTuple):
    """A server: its name, and two ways of connecting to it within some seconds."""

    name: str
    open: Callable[[float], Any]
    """Gives a connected socket, in blocking mode."""
    open_async: Callable[[float], Awaitable[Any]]
    """Gives a stream writer, whose transport is to be taken over."""


def server(settings: Settings) -> Address:
    """A server at a host and port, or at the path of a Unix socket."""

    async def open_async(timeout: float) -> Any:
        return await _open_async(_kind(nonblocking, settings), settings, timeout)

    name = settings.get("path") or f"{settings['host']}:{settings['port']}"
    return Address(
        name, lambda timeout: _open(_kind(blocking, settings), settings, timeout), open_async
    )


def sentinel(hosts: Sequence[tuple[str, int]], service: str, settings: Settings) -> Address:
    """Whichever server the sentinels say is the master."""

    def manager(kind: Any, timeout: float, retry: Any) -> Any:
        asking = _tuned({}, timeout) | {"retry": retry}
        return kind(hosts, sentinel_kwargs=asking)

    def open_blocking(timeout: float) -> Any:
        sentinels = manager(Sentinel, timeout, Retry(NoBackoff(), 0))
        try:
            host, port = sentinels.discover_master(service)
        finally:
            for each in sentinels.sentinels:
                each.close()
        found = settings | {"host": host, "port": port}
        return _open(_kind(blocking, found), found, timeout)

    async def open_async(timeout: float) -> Any:
        sentinels = manager(AsyncSentinel, timeout, AsyncRetry(NoBackoff(), 0))
        try:
            host, port = await sentinels.discover_master(service)
        finally:
            for each in sentinels.sentinels:
                await each.aclose()
        found = settings | {"host": host, "port": port}
        return await _open_async(_kind(nonblocking, found), found, timeout)

    return Address(f"the master of {service}", open_blocking, open_async)


def of_client(client: Any) -> Address:
    """The server that a `redis.Redis` or a `redis.asyncio.Redis` is a client of."""
    pool = client.connection_pool
    kind, settings = pool.connection_class, pool.connection_kwargs

    def open_blocking(timeout: float) -> Any:
        if not issubclass(kind, blocking.ConnectionInterface):
            raise TypeError(f"url: a Client needs a redis.Redis, got {client!r}")
        return _open(kind, settings, timeout)

    async def open_async(timeout: float) -> Any:
        if not issubclass(kind, nonblocking.AbstractConnection):
            raise TypeError(f"url: an AsyncClient needs a redis.asyncio.Redis, got {client!r}")
        return await _open_async(kind, settings, timeout)

    return Address(_name(pool), open_blocking, open_async)


def _name(pool: Any) -> str:
    settings = pool.connection_kwargs
    if hasattr(pool, "service_name"):
        return f"the master of {pool.service_name}"
    if "path" in settings:
        return str(settings["path"])
    return f"{settings.get('host', 'localhost')}:{settings.get('port', DEFAULT_PORT)}"


def read_hosts(url: SplitResult, port: int) -> list[tuple[str, int]]:
    """The hosts of a URL, which may name several: `h1:p1,h2,[::1]:p3`."""
    _, _, places = url.netloc.rpartition("@")
    hosts = []
    for place in places.split(","):
        host, colon, digits = place.rpartition(":")
        if not colon or place.endswith("]"):
            host, digits = place, str(port)
        host = host.strip("[]") or "localhost"
        if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 65536:
            raise ValueError(f"url: {place!r} has no valid port; write host:port")
        hosts.append((host, int(digits)))
    return hosts


def read_login(url: SplitResult) -> Settings:
    """User name and password."""
    login, _, _ = url.netloc.rpartition("@")
    user, _, password = login.partition(":")
    found = {"username": unquote(user) or None, "password": unquote(password) or None}
    return {name: value for name, value in found.items() if value is not None}


def _kind(module: Any, settings: Mapping[str, Any]) -> Any:
    if "path" in settings:
        return module.UnixDomainSocketConnection
    encrypted = any(name.startswith("ssl") for name in settings)
    return module.SSLConnection if encrypted else module.Connection


def _tuned(settings: Mapping[str, Any], timeout: float) -> Settings:
    return {
        **settings,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "health_check_interval": 0,
        "retry_on_timeout": False,
        "retry_on_error": [],
        "decode_responses": False,
        "protocol": 2,
    }


def _open(kind: Any, settings: Mapping[str, Any], timeout: float) -> Any:
    connection = kind(**_tuned(settings, timeout), retry=Retry(NoBackoff(), 0))
    connection.connect()
    sock, connection._sock = connection._sock, None  # noqa: SLF001 - there is no public way
    return sock


async def _open_async(kind: Any, settings: Mapping[str, Any], timeout: float) -> Any:
    connection = kind(**_tuned(settings, timeout), retry=AsyncRetry(NoBackoff(), 0))
    await connection.connect()
    writer = connection._writer  # noqa: SLF001 - there is no public way
    connection._reader = connection._writer = None  # noqa: SLF001
    return writer
