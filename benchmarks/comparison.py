"""What other locks for Python do where it matters, tried on real servers: `make comparison`.

Each row of the table in the README is the outcome of an experiment below, with the versions that
are installed. A library that is not installed is left out, and that is said. The dates of the last
releases are PyPI's.
"""

import asyncio
import importlib.metadata
import importlib.util
import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import holdfast
from benchmarks import servers
from benchmarks.contenders import library
from holdfast.lab.servers.redis import RedisServer

TTL = 1.0
WAITERS = 5
YES, NO, NONE = "yes", "no", "-"


class Peer:
    """A library, by the few things that the experiments ask of it."""

    title: str
    package: str
    module: str
    engines: str
    has_async = False
    can_be_lost = True
    key: str | None = "{name}"
    """The key of a lock in Redis; None: it has no expiry."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.redis: Any = None
        with suppress(ImportError):
            import redis

            self.redis = redis.Redis.from_url(url)

    def lock(self, name: str, wait: float | None) -> Any:
        """A context manager that waits that long (None: forever)."""
        raise NotImplementedError

    def lose(self, name: str) -> None:
        """Take the lock from its holder, behind its back."""
        self.redis.delete(str(self.key).format(name=name))

    def told(self, lock: Any, entered: Any) -> bool:
        """Whether the library has said that the lock is lost, without being asked to do anything
        with it."""
        return False

    def fence(self, entered: Any) -> object:
        """The fencing token; None if there is none."""
        return None


class Holdfast(Peer):
    title, package, module = "holdfast", "holdfast", "holdfast"
    engines = "Redis, Redlock, PostgreSQL, MariaDB, etcd, ZooKeeper, SQLite"
    has_async = True
    key = "holdfast:{name}"

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        self.client = holdfast.Client(url)

    def lock(self, name: str, wait: float | None) -> Any:
        return self.client.lock(name, ttl=TTL, timeout=wait)

    def told(self, lock: Any, entered: Any) -> bool:
        return bool(entered.lost)

    def fence(self, entered: Any) -> object:
        return entered.fence


class RedisPy(Peer):
    title, package, module = "redis-py `Lock`", "redis", "redis"
    engines = "Redis"
    has_async = True

    def lock(self, name: str, wait: float | None) -> Any:
        return self.redis.lock(name, timeout=TTL, blocking_timeout=wait)


class RedlockPy(Peer):
    title, package, module = "redlock-py", "redlock-py", "redlock"
    engines = "Redlock"

    def lock(self, name: str, wait: float | None) -> Any:
        import redlock

        retries = 10_000 if wait is None else max(1, int(wait / 0.01))
        locks = redlock.Redlock([self.redis], retry_count=retries, retry_delay=0.01)

        @contextmanager
        def block() -> Iterator[Any]:
            lock = locks.lock(name, int(TTL * 1000))
            if not lock:  # it has no `with`: this is how its users have to write it
                raise TimeoutError
            try:
                yield lock
            finally:
                locks.unlock(lock)

        return block()


class Pottery(Peer):
    title, package, module = "pottery `Redlock`", "pottery", "pottery"
    engines = "Redlock"
    has_async = True
    key = "redlock:{name}"

    def lock(self, name: str, wait: float | None) -> Any:
        import pottery

        return pottery.Redlock(
            key=name,
            masters={self.redis},
            auto_release_time=TTL,
            context_manager_blocking=True,
            context_manager_timeout=-1 if wait is None else wait,
        )


class PythonRedisLock(Peer):
    title, package, module = "python-redis-lock", "python-redis-lock", "redis_lock"
    engines = "Redis"
    key = "lock:{name}"

    def lock(self, name: str, wait: float | None) -> Any:
        import redis_lock

        lock = redis_lock.Lock(self.redis, name, expire=int(TTL), auto_renewal=True)
        if wait is None:
            return lock

        @contextmanager
        def block() -> Iterator[Any]:  # its `with` waits forever: a timeout is for `acquire` alone
            if not lock.acquire(timeout=max(1, round(wait))):
                raise TimeoutError
            try:
                yield lock
            finally:
                lock.release()

        return block()


class Tooz(Peer):
    title, package, module = "tooz (Redis)", "tooz", "tooz"
    engines = "Redis, etcd, ZooKeeper, PostgreSQL, MySQL, files"
    key = "_tooz_{name}_lock"

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        from tooz import coordination

        self.coordinator = coordination.get_coordinator(f"{url}?timeout={int(TTL)}", b"me")
        self.coordinator.start(start_heart=True)

    def lock(self, name: str, wait: float | None) -> Any:
        lock = self.coordinator.get_lock(name.encode())
        return lock if wait is None else lock(blocking=wait)


class FileLock(Peer):
    title, package, module = "filelock", "filelock", "filelock"
    engines = "files of one host"
    has_async = True
    can_be_lost = False
    key = None

    def lock(self, name: str, wait: float | None) -> Any:
        import filelock

        path = self.folder / f"{name}.lock"
        return filelock.FileLock(path, timeout=-1 if wait is None else wait, thread_local=False)


class SqlAlchemyDlock(Peer):
    title, package = "sqlalchemy-dlock (PostgreSQL)", "sqlalchemy-dlock"
    module = "sqlalchemy_dlock"
    engines = "PostgreSQL, MySQL, SQL Server, Oracle"
    has_async = True
    key = None

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        import sqlalchemy

        self.database = servers.postgres()
        self.engine = sqlalchemy.create_engine(
            self.database.url.replace("postgresql://", "postgresql+psycopg://"), pool_size=10
        )

    def lock(self, name: str, wait: float | None) -> Any:
        create_lock = library("sqlalchemy_dlock").create_sadlock

        @contextmanager
        def block() -> Iterator[Any]:
            with (
                self.engine.connect() as connection,
                create_lock(connection, name, contextual_timeout=wait) as lock,
            ):
                yield lock

        return block()

    def lose(self, name: str) -> None:
        self.database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        )


PEERS: Sequence[type[Peer]] = (
    *(Holdfast, RedisPy, RedlockPy, Pottery, PythonRedisLock, Tooz, SqlAlchemyDlock, FileLock),
)


def renewed(peer: Peer) -> str:
    """Whether a holder that works for longer than the ttl still has the lock."""
    if peer.key is None:
        return "never expires"
    key, found = peer.key.format(name="renewed"), []
    with suppress(Exception), peer.lock("renewed", None):  # leaving it may raise
        for pause in (0.0, 2.5 * TTL):
            time.sleep(pause)
            found.append(peer.redis.exists(key))
    if not found or not found[0]:
        raise RuntimeError(f"{peer.title}: its lock is not in {key!r}, so nothing was tried")
    return YES if found[1] else NO


def loss_told(peer: Peer) -> str:
    """How a holder learns that its lock is gone."""
    if not peer.can_be_lost:
        return NONE
    told = False
    try:
        lock = peer.lock("lost", None)
        with lock as entered:
            peer.lose("lost")
            give_up_at = time.monotonic() + 2 * TTL
            while not told and time.monotonic() < give_up_at:
                told = peer.told(lock, entered)
                time.sleep(0.05)
    except Exception:
        return "at the next renewal" if told else "when it is released"
    return NO


def fenced(peer: Peer) -> str:
    """Whether each grant has a number that is greater than that of the one before."""
    found = []
    for _ in range(2):
        with suppress(Exception), peer.lock("fenced", None) as entered:
            found.append(peer.fence(entered))
    first, second = found
    return YES if isinstance(first, int) and isinstance(second, int) and first < second else NO


def never_unlocked(peer: Peer) -> str:
    """Whether a `with` that does not get the lock in time leaves its block alone."""
    entered = False

    def hold(ready: threading.Event, done: threading.Event) -> None:
        with suppress(Exception), peer.lock("held", None):
            ready.set()
            done.wait(10)

    ready, done = threading.Event(), threading.Event()
    holder = threading.Thread(target=hold, args=(ready, done))
    holder.start()
    ready.wait(10)
    with suppress(Exception), peer.lock("held", 0.3):
        entered = True
    done.set()
    holder.join()
    return NO if entered else YES


def fair(peer: Peer) -> str:
    """Whether waiters get the lock in the order in which they came."""
    order: list[int] = []
    threads: list[threading.Thread] = []

    def wait(number: int) -> None:
        with suppress(Exception), peer.lock("fair", None):
            order.append(number)

    for _ in range(3):
        order.clear()
        threads.clear()
        with suppress(Exception), peer.lock("fair", None):
            for number in range(WAITERS):
                threads.append(threading.Thread(target=wait, args=(number,)))
                threads[-1].start()
                time.sleep(0.1)
        for thread in threads:
            thread.join(30)
        if order != sorted(order) or len(order) != WAITERS:
            return NO
    return YES


def cancellation_safe(peer: Peer) -> str:
    """Whether an acquire that is cancelled, at any of its first awaits, leaves no key behind."""
    if isinstance(peer, Holdfast):
        return _cancelled(lambda: holdfast.AsyncClient(peer.url), _acquire_holdfast, peer)
    if isinstance(peer, RedisPy):
        import redis.asyncio

        return _cancelled(lambda: redis.asyncio.Redis.from_url(peer.url), _acquire_redis, peer)
    return "not tried" if peer.has_async else NONE


async def _acquire_holdfast(client: Any, name: str) -> None:
    await client.lock(name, ttl=30).acquire()


async def _acquire_redis(client: Any, name: str) -> None:
    await client.lock(name, timeout=30).acquire()


def _cancelled(make: Callable[[], Any], acquire: Callable[..., Any], peer: Peer) -> str:
    async def attempt(number: int, steps: int) -> bool:
        client = make()
        await acquire(client, "warm")  # it has connected
        name = f"cancelled {number}, {steps}"
        task = asyncio.create_task(acquire(client, name))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        was_cancelled = task.cancelled()
        await asyncio.sleep(0.1)
        left = bool(peer.redis.exists(str(peer.key).format(name=name)))
        await client.aclose()
        peer.redis.delete(str(peer.key).format(name="warm"))
        return was_cancelled and left

    tries = [(number, steps) for number in range(5) for steps in range(12)]
    return NO if any(asyncio.run(attempt(*each)) for each in tries) else YES


def typed(peer: Peer) -> str:
    """Whether type checkers see its types."""
    spec = importlib.util.find_spec(peer.module)
    places = spec.submodule_search_locations if spec else None
    return YES if any((Path(place) / "py.typed").exists() for place in places or ()) else NO


def last_release(peer: Peer) -> str:
    """The month of the newest file on PyPI."""
    if isinstance(peer, Holdfast):
        return "in development"
    with suppress(OSError):
        page = f"https://pypi.org/pypi/{peer.package}/json"
        with urllib.request.urlopen(page, timeout=10) as reply:
            releases = json.load(reply)["releases"]
        times = [file["upload_time"] for files in releases.values() for file in files]
        return str(max(times))[:7]
    return "PyPI does not answer"


ROWS: dict[str, Callable[[Peer], str]] = {
    "renewed while it is held": renewed,
    "the holder learns of a loss": loss_told,
    "fencing token": fenced,
    "a cancelled acquire leaves nothing": cancellation_safe,
    "never enters without the lock": never_unlocked,
    "waiters in order of arrival": fair,
    "asyncio": lambda peer: YES if peer.has_async else NO,
    "types": typed,
    "last release": last_release,
    "engines": lambda peer: peer.engines,
}


def main() -> int:
    """Try everything, and print the table."""
    columns: dict[str, list[str]] = {}
    missing = []
    with tempfile.TemporaryDirectory() as folder, RedisServer() as server:
        for kind in PEERS:
            if importlib.util.find_spec(kind.module) is None:
                missing.append(kind.title)
                continue
            version = importlib.metadata.version(kind.package)
            print(f"trying {kind.title} {version}", file=sys.stderr)
            peer = kind(server.url, Path(folder))
            columns[f"{kind.title} {version}"] = [ask(peer) for ask in ROWS.values()]
    print("| |", " | ".join(columns), "|")
    print("|---|" + "---|" * len(columns))
    for number, row in enumerate(ROWS):
        print(f"| {row} |", " | ".join(column[number] for column in columns.values()), "|")
    if missing:
        print("\nnot installed, so not tried:", ", ".join(missing))
    return 0


if __name__ == "__main__":
    sys.exit(main())
