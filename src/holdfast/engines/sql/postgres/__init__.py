"""`postgresql://user:password@host:5432/database`: a lease table in a PostgreSQL database."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import SplitResult

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict

from holdfast.core.ports import Clock, Engine
from holdfast.core.records import Guarantees
from holdfast.engines import refuse_options
from holdfast.engines.sql.dialect import LEASES
from holdfast.engines.sql.engine import OPTIONS, Given, refuse_tls, server_engine
from holdfast.engines.sql.guard import postgresql_guard
from holdfast.engines.sql.postgres.commands import Statements
from holdfast.engines.sql.postgres.connection import PostgresConnection, open_connection
from holdfast.engines.sql.postgres.waiters import Listener, ListeningWaiters

GUARANTEES = Guarantees(
    engine="a table in a PostgreSQL database",
    exclusion="among all clients of the database that use the same table",
    broken_by=(
        "a failover to a standby that missed the grant: replicate synchronously",
        "a crash of a server with `synchronous_commit` or `fsync` off: it loses the last grants",
        "the server's clock, if it is set forward, or runs faster by more than 1 % of the ttl",
        "writing to the table by other means",
    ),
    fence="a counter in the name's row, which is never behind the server's clock",
    fence_ends="the loss of rows together with a clock that was set back",
    fairness="waiters in the order of their arrival",
    wake_up=(
        "a release offers the lock to the next waiter, and wakes it by NOTIFY; behind a pooler "
        "waiters poll, every `retry` seconds, at most 0.2"
    ),
    suits="correctness",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind a URL of PostgreSQL. What libpq knows may be a parameter of it, too."""
    given = arguments(url, options)
    return make_engine(url, options, lambda: given)


def make_engine(url: SplitResult, options: dict[str, str], given: Given) -> Engine:
    """The engine that connects with what is given, for any library's arguments."""
    statements = Statements(options.get("table", LEASES))

    def connect(clock: Clock, until: float) -> PostgresConnection:
        return open_connection(hosts_of(parameters_of(given())), clock, until)

    return server_engine(
        url,
        options,
        GUARANTEES,
        connect,
        statements,
        postgresql_guard(statements.names["leases"]),
        lambda host, connect: ListeningWaiters(
            host.clock, host.notify, partial(Listener, host.clock, connect)
        ),
    )


def arguments(url: SplitResult, options: dict[str, str]) -> dict[str, Any]:
    """What a URL connects with."""
    known = known_parameters()
    refuse_options([name for name in options if name not in {*OPTIONS, *known}], *OPTIONS, *known)
    try:
        given = conninfo_to_dict(f"{url.scheme}://{url.netloc}{url.path}")
    except ProgrammingError:
        raise ValueError("url: PostgreSQL's client library does not understand it") from None
    for name, value in options.items():
        if name in known:
            refuse_nul(name, value)
            given[name] = value
    return given


DEFAULTS = {
    "fallback_application_name": "holdfast",
    # The listener sends nothing, and would not notice for hours that the other end is gone.
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""The parameters of libpq that the URL may change."""

FORCED = {"client_encoding": "utf8"}
"""The parameters of libpq that the URL cannot change."""

_SAME = {"database": "dbname", "db": "dbname", "ssl": "sslmode"}
"""What other libraries call differently."""

_LISTS = ("host", "hostaddr", "port")
"""The parameters that may have a value for each host."""


def known_parameters() -> dict[str, str]:
    """Those of this libpq, and what the environment says of them."""
    return {
        option.keyword.decode(): (option.val or b"").decode()
        for option in pq.Conninfo.get_defaults()
    }


def parameters_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """For libpq. The arguments that it does not know are about Python."""
    known = known_parameters()
    found: dict[str, str] = {}
    unknown: list[str] = []
    for name, value in arguments.items():
        if value is None:
            continue
        keyword = _SAME.get(name, name)
        if keyword in known and (keyword != "sslmode" or isinstance(value, str)):
            refuse_nul(name, value)
            found[keyword] = str(value)
        else:  # asyncpg's `ssl` may also be an SSLContext
            unknown.append(name)
    refuse_tls(unknown, "psycopg")
    if "service" not in found:  # which may name hosts, too
        found = {name: known[name] for name in _LISTS if known.get(name)} | found
    return DEFAULTS | found | FORCED


def refuse_nul(name: str, value: object) -> None:
    """Raise for an argument that has a NUL: libpq would leave out what follows it, also other
    arguments."""
    if "\0" in str(value):
        raise ValueError(f"{name}: must not contain NUL characters")


def hosts_of(parameters: Mapping[str, str]) -> list[dict[str, str]]:
    """The parameters for each host, in the order in which they are to be tried."""
    lists = {name: parameters[name].split(",") for name in _LISTS if parameters.get(name)}
    number = max((len(values) for name, values in lists.items() if name != "port"), default=1)
    if len(lists.get("port", ())) == 1:
        lists["port"] *= number
    if any(len(values) != number for values in lists.values()):
        return [dict(parameters)]  # libpq says what is wrong
    return [
        {**parameters, **{name: values[n] for name, values in lists.items()}} for n in range(number)
    ]
