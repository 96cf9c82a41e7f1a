"""The engines, by URL scheme. Each is imported when a client asks for it, and not before."""

from importlib import import_module
from urllib.parse import SplitResult, quote

from holdfast.core.ports import Engine

_MODULES = {
    "memory": "holdfast.engines.memory",
    "sqlite": "holdfast.engines.sql.sqlite",
    "redis": "holdfast.engines.redis",
    "rediss": "holdfast.engines.redis",
    "unix": "holdfast.engines.redis",
    "redis+sentinel": "holdfast.engines.redis",
    "redlock": "holdfast.engines.redis",
}


def open_engine(url: SplitResult, options: dict[str, str]) -> Engine:
    """The engine that a URL describes. `options` are those of its parameters that are not common
    to all engines; one that the engine does not know is a `ValueError`."""
    module = _MODULES.get(url.scheme)
    if module is None:
        known = ", ".join(f"{scheme}://" for scheme in _MODULES)
        raise ValueError(f"url: there is no engine for {url.scheme!r}; this version has {known}")
    engine: Engine = import_module(module).engine(url, options)
    return engine


def default_url() -> str:
    """The embedded engine, in a file in the user's state folder."""
    from holdfast.engines.sql.sqlite.file import default_path  # imported only if it is needed

    return f"sqlite://{quote(bytes(default_path()))}"


def refuse_options(options: dict[str, str]) -> None:
    """Raise for the first option, for an engine that has none."""
    for name, value in options.items():
        raise ValueError(f"url: unknown option {name}={value!r}")
