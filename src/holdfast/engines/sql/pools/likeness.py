"""What a user's pool connects with, as a URL to connect with ourselves."""

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

_SAME = {"database": "dbname", "db": "dbname", "unix_socket": "socket"}
"""What libraries call differently."""

_PLACE = ("host", "port", "user", "password", "dbname")

_OF_PYTHON = frozenset(
    (
        "autocommit", "charset", "client_flag", "command_timeout", "connect_timeout", "context",
        "conv", "cursor_factory", "cursorclass", "prepare_threshold", "read_timeout", "row_factory",
        "use_unicode", "write_timeout",
    )
)  # fmt: skip
"""What is of no consequence to where a connection leads."""


class _ArgumentsError(Exception):
    """Carries what a connection was to be made with."""


def connect_arguments(engine: Any) -> dict[str, Any]:
    """What an engine calls its library with, after all that its user has arranged: its URL does not
    tell `connect_args`. Nothing is connected, since we leave at the last moment."""
    from sqlalchemy import event

    me = threading.get_ident()

    def leave(dialect: Any, record: Any, args: Any, arguments: Mapping[str, Any]) -> None:
        if threading.get_ident() == me:  # others may be connecting
            raise _ArgumentsError(arguments)

    pool = engine.pool.recreate()
    event.listen(engine, "do_connect", leave)
    try:
        pool.connect().close()
    except _ArgumentsError as caught:
        return dict(caught.args[0])
    finally:
        event.remove(engine, "do_connect", leave)
        pool.dispose()
    raise ValueError("url: the Engine's connections are made by a creator of yours; give a URL")


def similar(scheme: str, arguments: Mapping[str, Any]) -> tuple[SplitResult, dict[str, str]]:
    """The URL for such arguments, with its password, and the options that go with it."""
    settings = {
        _SAME.get(name, name): str(value)
        for name, value in arguments.items()
        if value is not None and name not in _OF_PYTHON
    }
    for name, value in arguments.items():
        if _SAME.get(name, name) in settings and not isinstance(value, (str, int)):
            raise ValueError(f"url: {name} cannot be taken over from the pool; give a URL")
    password = settings.get("password", "")
    options = {name: value for name, value in settings.items() if name not in _PLACE}
    login = f":{quote(password, safe='')}" if password else ""
    return urlsplit(_url(scheme, settings, login)), options


def address(scheme: str, arguments: Mapping[str, Any]) -> str:
    """Where such arguments lead, to be shown: without any password."""
    known = {_SAME.get(name, name): value for name, value in arguments.items()}
    return _url(scheme, {name: str(value) for name, value in known.items() if value is not None})


def _url(scheme: str, place: Mapping[str, str], password: str = "") -> str:
    login = quote(place.get("user", ""), safe="") + password
    port = place.get("port", "")
    host = quote(place.get("host", ""), safe=":,") + (f":{port}" if port else "")
    path = f"/{quote(place.get('dbname', ''))}"
    return f"{scheme}://{login}{'@' if login else ''}{host}{path}"
