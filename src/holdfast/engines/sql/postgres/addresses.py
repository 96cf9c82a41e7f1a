"""From the arguments of a connection, of any library, to what libpq is given: one text for each
address that may be tried.

Left to itself, libpq waits for a host that is silent until the time for all is over; and while it
looks a name up, no other thread of the program runs.
"""

import socket
from collections.abc import Mapping
from typing import Any

from psycopg import pq
from psycopg.conninfo import make_conninfo

from holdfast.engines.sql.connection import BrokenError
from holdfast.engines.sql.engine import refuse_tls

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


def addresses_of(host: Mapping[str, str]) -> list[str]:
    """What libpq is given for each address of a host. None is looked up for a socket's folder, or
    an address of IPv6. Raises `BrokenError` if none is found."""
    name = host.get("host", "")
    if host.get("hostaddr") or name[:1] in ("", "/", "@") or ":" in name or "," in name:
        return [make_conninfo("", **host)]
    try:
        infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BrokenError(f"the address of {name} was not found: {error}") from error
    return [
        make_conninfo("", **{**host, "hostaddr": str(address)})
        for address in dict.fromkeys(info[4][0] for info in infos)
    ]
