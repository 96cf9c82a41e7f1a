"""The engines, by URL scheme. Each is imported when a client asks for it, and not before."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol, TypeAlias
from urllib.parse import SplitResult, quote

from holdfast.core.ports import Engine
from holdfast.options import COMMON, hint_for_address, hint_for_word, without_password

_MODULES = {
    "memory": "holdfast.engines.memory",
    "sqlite": "holdfast.engines.sql.sqlite",
    "postgresql": "holdfast.engines.sql.postgres",
    "postgres": "holdfast.engines.sql.postgres",
    "mariadb": "holdfast.engines.sql.mysql",
    "mysql": "holdfast.engines.sql.mysql",
    "redis": "holdfast.engines.redis",
    "rediss": "holdfast.engines.redis",
    "unix": "holdfast.engines.redis",
    "redis+sentinel": "holdfast.engines.redis",
    "redis+cluster": "holdfast.engines.redis",
    "redlock": "holdfast.engines.redis",
    "zookeeper": "holdfast.engines.zookeeper",
    "zookeepers": "holdfast.engines.zookeeper",
    "etcd": "holdfast.engines.etcd",
    "etcds": "holdfast.engines.etcd",
}

_CONNECTED = ("holdfast.engines.sql.postgres", "holdfast.engines.sql.mysql")
"""Engines to which a user's own function can connect."""

_LIBRARIES = {
    "redis": "holdfast.engines.redis",
    "sqlalchemy": "holdfast.engines.sql.pools",
    "psycopg_pool": "holdfast.engines.sql.pools",
}
"""Libraries whose clients can be given instead of a URL."""

ENTRY_POINTS = "holdfast.engines"
"""The group of entry points by which other packages add engines: docs/new-engine.md."""


class RedisClient(Protocol):
    """A client of redis-py: `Redis`, of threads or of asyncio."""

    @property
    def connection_pool(self) -> Any: ...  # noqa: D102 - redis-py's


class RedisClusterClient(Protocol):
    """A client of redis-py: `RedisCluster`, of threads or of asyncio."""

    @property
    def nodes_manager(self) -> Any: ...  # noqa: D102 - redis-py's


class SqlAlchemyEngine(Protocol):
    """An `Engine` of SQLAlchemy, or an `AsyncEngine`."""

    @property
    def dialect(self) -> Any: ...  # noqa: D102 - SQLAlchemy's

    @property
    def url(self) -> Any: ...  # noqa: D102 - SQLAlchemy's


class PsycopgPool(Protocol):
    """A pool of psycopg: `ConnectionPool`, or `AsyncConnectionPool`."""

    @property
    def conninfo(self) -> Any: ...  # noqa: D102 - psycopg's

    @property
    def kwargs(self) -> Any: ...  # noqa: D102 - psycopg's


EngineSource: TypeAlias = (
    str | RedisClient | RedisClusterClient | Sequence[RedisClient] | SqlAlchemyEngine | PsycopgPool
)
"""What can be given as `url`. Protocols, since the libraries need not be installed."""

Opening: TypeAlias = Callable[[dict[str, str]], Engine]
"""Gives the engine, with its options."""


def open_engine(
    url: SplitResult, options: dict[str, str], connect: Callable[[], Any] | None = None
) -> Engine:
    """The engine that a URL describes. `options` are those of its parameters that are not common
    to all engines; one that the engine does not know is a `ValueError`. `connect`: the user's own
    way of connecting to an SQL server."""
    module = _MODULES.get(url.scheme)
    make = _added(url) if module is None else None
    if connect is None:
        engine: Engine = (make or _import(_MODULES[url.scheme]).engine)(url, options)
        return engine
    if module not in _CONNECTED:
        raise ValueError(f"connect: is for SQL servers, and not for {url.scheme}://")
    _import(module)
    own: Engine = _import("holdfast.engines.sql.pools").of_function(url, options, connect)
    return own


def _added(url: SplitResult) -> Callable[[SplitResult, dict[str, str]], Engine]:
    """The engine that another package has added for the scheme of a URL."""
    from importlib.metadata import entry_points  # it takes time that our own engines do not need

    added = entry_points(group=ENTRY_POINTS)
    if url.scheme in added.names:
        make: Callable[[SplitResult, dict[str, str]], Engine] = added[url.scheme].load()
        return make
    known = (*_MODULES, *sorted(added.names))
    hint = hint_for_address(url.geturl()) or hint_for_word(url.scheme, known, "://")
    has = f"; this version has {', '.join(f'{scheme}://' for scheme in known)}"
    raise ValueError(f"url: there is no engine for {url.scheme!r}{hint or has}")


def of_clients(given: object, *, awaits: bool) -> tuple[str, Opening]:
    """A user's own clients of an engine's library, or one of them: the URL to show for them, and
    the engine behind them. Clients of redis-py for asyncio are a `TypeError` where a `Client` is
    made, and those for threads where an `AsyncClient` is."""
    clients = list(given) if isinstance(given, (list, tuple)) else [given]
    modules = {_module_of(client) for client in clients}
    module = modules.pop() if len(modules) == 1 else None
    if module is None:
        raise TypeError(
            "url: must be text, or one or several clients of redis-py, or an Engine of SQLAlchemy, "
            f"or a pool of psycopg, got {_shown(given)}"
        )
    found: tuple[str, Opening] = _import(module).of_clients(clients, awaits=awaits)
    return found


def _module_of(client: object) -> str | None:
    """The engine for a client: that of the library in which its class, or a base of it, is."""
    tops = (kind.__module__.partition(".")[0] for kind in type(client).__mro__)
    return next((_LIBRARIES[top] for top in tops if top in _LIBRARIES), None)


def _shown(given: object) -> str:
    """As an error may show it: without a password."""
    if isinstance(given, (list, tuple)):
        return f"{type(given).__name__} of {[type(each).__name__ for each in given]}"
    if isinstance(given, bytes):
        return repr(without_password(given.decode(errors="replace")).encode())
    return repr(given)


def _import(module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("holdfast"):
            raise
        extra = module.rpartition(".")[2]
        raise ModuleNotFoundError(
            f"a library of this engine is not installed ({error.name}): "
            f"pip install 'holdfast[{extra}]'",
            name=error.name,
        ) from error


def default_url() -> str:
    """The embedded engine, in a file in the user's state folder."""
    from holdfast.engines.sql.sqlite.connection import default_path  # imported only if it is needed

    return f"sqlite://{quote(bytes(default_path()))}"


def refuse_options(options: Iterable[str], *known: str) -> None:
    """Raise for the first of these options, which the engine does not have. `known`: those that it
    has, of which one may be meant."""
    for name in options:  # its value is not shown: it may be a password
        hint = hint_for_word(name, {*known, *COMMON} - {name})
        raise ValueError(f"{name}: this engine has no such option{hint}")
