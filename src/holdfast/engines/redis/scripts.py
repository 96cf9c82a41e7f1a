"""The Lua scripts, each a file with a comment that says what it wants and what it gives."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple

INCLUDE = "-- include: "
NAMES = (
    *("acquire", "release", "extend", "inspect"),
    *("vote", "unvote", "raise", "repair"),
    *("getset_acquire", "getset_extend", "getset_release"),
)


class Script(NamedTuple):
    """A script and the name under which the server keeps it."""

    source: bytes
    sha: bytes


def scripts() -> Iterator[Script]:
    """All of them."""
    return map(script, NAMES)


@cache
def script(name: str) -> Script:
    """Read a script, with what it includes put before it."""
    text = _read(f"{name}.lua")
    first, _, rest = text.partition("\n")
    if first.startswith(INCLUDE):
        shared = first.removeprefix(INCLUDE).split(", ")
        text = "\n".join([*map(_read, shared), rest])
    source = text.encode()
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _read(file: str) -> str:
    return files("holdfast.engines.redis").joinpath("scripts", file).read_text("utf-8")
