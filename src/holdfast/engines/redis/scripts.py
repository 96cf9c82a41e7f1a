"""The Lua scripts, each a file that begins with its keys, its arguments and its result."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple

INCLUDE = "-- include: "
NAMES = (
    *("acquire", "share", "release", "extend", "inspect"),
    *("vote", "vote_shared", "unvote", "raise", "repair", "repair_shared"),
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
    source = "\n".join(_lines(f"{name}.lua")).encode()
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _lines(file: str) -> Iterator[str]:
    text = files("holdfast.engines.redis").joinpath("scripts", file).read_text("utf-8")
    for line in text.splitlines():
        if line.startswith(INCLUDE):
            for shared in line.removeprefix(INCLUDE).split(", "):
                yield from _lines(shared)
        else:
            yield line
