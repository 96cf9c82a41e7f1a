"""`mariadb://user:password@host:3306/database`, and `mysql://`: a lease table in a database.

`mariadb://` acquires in one statement, by `RETURNING`. `mysql://` is for servers that do not have
it: a second statement reads what the first has done.
"""

import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, unquote

from holdfast.core.ports import Clock, Engine
from holdfast.core.records import Guarantees
from holdfast.engines import refuse_options
from holdfast.engines.sql.dialect import LEASES
from holdfast.engines.sql.engine import OPTIONS, Given, refuse_tls, server_engine
from holdfast.engines.sql.guard import mysql_guard
from holdfast.engines.sql.mysql.commands import Statements
from holdfast.engines.sql.mysql.connection import MySqlConnection, open_connection
from holdfast.engines.urls import check_host

MARIADB = Guarantees(
    engine="a table in a MariaDB database",
    exclusion="among all clients of the database that use the same table",
    broken_by=(
        "a failover to a replica that missed the grant",
        "a crash of a machine with `innodb_flush_log_at_trx_commit` other than 1: it loses grants",
        "the server's clock, if it is set forward, or runs faster by more than 1 % of the ttl",
        "writing to the table by other means",
    ),
    fence="a counter in the name's row, which is never behind the server's clock",
    fence_ends="the loss of rows together with a clock that was set back",
    fairness="waiters in the order of their arrival",
    wake_up=(
        "a release offers the lock to the next waiter. A waiter of the same client is woken at "
        "once; others poll, every `retry` seconds, at most 0.2"
    ),
    suits="correctness",
    min_ttl=0.01,
    max_ttl=86400.0,
    ttl_step=0.0,
)

MYSQL = replace(
    MARIADB,
    engine="a table in a MySQL database; untested: only tried on MariaDB, with MySQL's statements",
)

PORT = 3306


def engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine behind `mariadb://` or `mysql://`."""
    given = arguments(url, options)
    return make_engine(url, options, lambda: given)


def make_engine(url: SplitResult, options: dict[str, str], given: Given) -> Engine:
    """The engine that connects with what is given, for any library's arguments."""
    is_mariadb = url.scheme == "mariadb"
    statements = Statements(options.get("table", LEASES), returns=is_mariadb)

    def connect(clock: Clock, until: float) -> MySqlConnection:
        connection = open_connection(address_of(given()), until - clock())
        return MySqlConnection(connection, clock, needs_mariadb=is_mariadb)

    return server_engine(
        url,
        options,
        MARIADB if is_mariadb else MYSQL,
        connect,
        statements,
        mysql_guard(statements.names["leases"]),
    )


def arguments(url: SplitResult, options: dict[str, str]) -> dict[str, Any]:
    """What a URL connects with."""
    known = (*OPTIONS, "socket", "ssl", *FILES)
    refuse_options([name for name in options if name not in known], *known)
    database = unquote(url.path.strip("/"))
    if not database or "/" in database:
        raise ValueError(
            f"url: must name a database, as in {url.scheme}://user@host/database, got the path "
            f"{url.path!r}"
        )
    return {
        "host": check_host(url.hostname or "localhost"),
        "port": url.port or PORT,
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
        "database": database,
        "unix_socket": options.get("socket"),
        "ssl": read_tls(options),
    }


def address_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """For PyMySQL, from the arguments of any library; those that it does not know are about
    Python."""
    given = {_SAME.get(name, name): value for name, value in arguments.items() if value is not None}
    refuse_tls([name for name in given if name not in KNOWN], "PyMySQL")
    known = {name: value for name, value in given.items() if name in KNOWN}
    if not any(name.startswith(("ssl", "read_default")) for name in known):
        known["ssl_disabled"] = True  # else PyMySQL reads all authorities of the system each time
    return known


_SAME = {"db": "database", "passwd": "password"}
"""What other libraries call differently."""

FILES = ("ssl_ca", "ssl_cert", "ssl_key")

KNOWN = (
    *("host", "port", "user", "password", "database", "unix_socket", "bind_address"),
    *("read_default_file", "read_default_group", "auth_plugin_map", "server_public_key"),
    *("ssl", *FILES, "ssl_key_password", "ssl_verify_cert", "ssl_verify_identity", "ssl_disabled"),
)
"""The arguments of PyMySQL that say where to connect, and how."""


def read_tls(options: dict[str, str]) -> ssl.SSLContext | None:
    """What `ssl=on`, or the files `ssl_ca`, `ssl_cert` and `ssl_key` ask for. None without them:
    then nothing is encrypted. The server must prove who it is, by the authority of `ssl_ca`, or
    else by those that the system trusts."""
    is_on = options.get("ssl")
    if is_on not in (None, "on"):
        raise ValueError(f"ssl: must be on, or left out, got {is_on!r}")
    files = {name: options[name] for name in FILES if name in options}
    if not is_on and not files:
        return None
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
        if "ssl_cert" in files:
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"))
    except OSError as error:  # no such file, or nothing that makes sense in it
        raise ValueError(f"{', '.join(files)}: cannot be read: {error}") from error
    return context
