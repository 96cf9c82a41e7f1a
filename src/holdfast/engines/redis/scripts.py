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
    """Read a script, with what it includes put in its place."""
    lines: list[str] = []
    for line in _read(f"{name}.lua").splitlines():
        shared = line.removeprefix(INCLUDE).split(", ") if line.startswith(INCLUDE) else ()
        lines += map(_read, shared) if shared else [line]
    source = "\n".join(lines).encode()
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _read(file: str) -> str:
    return files("holdfast.engines.redis").joinpath("scripts", file).read_text("utf-8")
