"""A client: one engine, one renewer, any number of locks. `Client` for threads, `AsyncClient` for
asyncio."""

import os
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar, Unpack

from holdfast.cell import AsyncCell, Cell
from holdfast.core.effects import Steps
from holdfast.core.lease_state import LockSpec
from holdfast.core.queries import break_lock, inspect, page
from holdfast.core.records import Finding, Guarantees, Label, LeaseInfo, NodeInfo
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.hooks import Hook
from holdfast.drivers.threads import ThreadDriver
from holdfast.election import AsyncElection, Election
from holdfast.engines import EngineSource, SqlAlchemyEngine, default_url, of_clients, open_engine
from holdfast.errors import ClientClosed, Unsupported
from holdfast.latch import AsyncLatch, Latch
from holdfast.lease import NotPicklable
from holdfast.lock import AsyncLock, AsyncLockOptions, Lock, LockOptions, ReadWriteLock
from holdfast.lock_all import AsyncLockAll, LockAll
from holdfast.options import (
    DEFAULT_TTL,
    check_bool,
    check_count,
    check_holder,
    check_hooks,
    check_label,
    check_max_hold,
    check_min_hold,
    check_name,
    check_names,
    check_positive,
    check_text,
    check_timeout,
    nearest_ttl,
    read_options,
)
from holdfast.skip import AsyncOnce, Once

D = TypeVar("D", bound=Driver)


class BaseClient(NotPicklable, Generic[D]):
    """What is the same for threads and asyncio: the URL, the options, the engine."""

    _awaits = False

    def __init__(
        self,
        url: EngineSource | None = None,
        *,
        prefix: str | None = None,
        ttl: float | None = None,
        retry: float | None = None,
        label: str | None = None,
        connect: Callable[[], Any] | None = None,
        hooks: Iterable[Hook] = (),
        **engine_options: str | float | bool | os.PathLike[str],
    ) -> None:
        if url is None:
            url = os.environ.get("HOLDFAST_URL") or default_url()
        opening = None
        if not isinstance(url, str):
            if connect is not None:
                raise ValueError("connect: needs a URL, and not a client, an Engine or a pool")
            url, opening = of_clients(url, awaits=self._awaits)
        self._options = read_options(
            url, prefix=prefix, ttl=ttl, retry=retry, label=label, engine=engine_options
        )
        if opening is None:
            self._engine = open_engine(self._options.url, self._options.engine, connect)
        else:
            self._engine = opening(self._options.engine)
        self._ttl = self._default_ttl()
        self._hooks = check_hooks(hooks)
        self._driver = self._make_driver()

    @classmethod
    def from_sqlalchemy(cls, engine: SqlAlchemyEngine, **options: Any) -> Self:
        """A client that connects as an `Engine` or an `AsyncEngine` of SQLAlchemy does. It takes no
        connection out of the engine's pool. docs/sql.md lists the libraries.

        Args:

        - `engine`: connections are opened with its settings.
        - `options`: the other arguments of a client.

        >>> import holdfast, sqlalchemy
        >>> engine = sqlalchemy.create_engine("postgresql+psycopg://app:secret@db.example/shop")
        >>> holdfast.Client.from_sqlalchemy(engine, ttl=10)
        <Client postgresql://app@db.example/shop>
        """
        if engine is None or isinstance(engine, str):  # which a client takes for a URL
            kind = type(engine).__name__
            raise TypeError(f"engine: must be an Engine of SQLAlchemy, got a {kind}")
        return cls(engine, **options)

    def _make_driver(self) -> D:
        raise NotImplementedError

    def _sibling(self, hooks: Sequence[Hook] = ()) -> "Client":
        """Another client of the same engine, for threads."""
        other = object.__new__(Client)
        vars(other).update(vars(self), _driver=ThreadDriver(self._engine, hooks))
        return other

    @property
    def url(self) -> str:
        """The URL of its engine, without any password."""
        return self._options.shown

    @property
    def guarantees(self) -> Guarantees:
        """What this engine promises, and what can break the promise."""
        return self._engine.guarantees

    @property
    def closed(self) -> bool:
        """Whether the client has been closed."""
        return self._driver.runtime.closed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}{' closed' if self.closed else ''}>"

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)
        if driver is not None and driver.in_use and not driver.runtime.closed:
            description = repr(self)
            driver.abandon()
            warnings.warn(f"{description} was dropped without being closed", ResourceWarning, 2)

    def _look_at_nodes(self) -> list[NodeInfo]:
        if self.closed:
            raise ClientClosed
        return list(self._engine.nodes())

    def _default_ttl(self) -> float:
        """The ttl that the user gave, else the nearest to the usual one that the engine allows."""
        promises = self._engine.guarantees
        if self._options.ttl is not None:
            return self._engine.check_ttl(self._options.ttl)
        return nearest_ttl(DEFAULT_TTL, promises.min_ttl, promises.max_ttl, promises.ttl_step)

    def _cell_name(self, name: str) -> str:
        name = check_name(name)
        if self._engine.no_cells:
            raise Unsupported(f"url: {self.url} has no cells: {self._engine.no_cells}")
        return name

    def _election_cell(self, name: str, value: str) -> str | None:
        """The cell in which a leader publishes its `value`; None if the engine has none."""
        if not check_text("value", value) and self._engine.no_cells:
            return None
        return self._cell_name(f"election:{name}")

    def _participant(self) -> str:
        """What this client is in a latch, also after a restart: its label, else its host."""
        me = Label.of(self._driver.runtime.new_holder(self._options.label))
        return (me.text or me.host) if me else ""

    def _inspect(self, name: str) -> Steps[LeaseInfo | None]:
        return inspect(self._driver.runtime, self._options.prefix, check_name(name))

    def _break(self, name: str, holder: str) -> Steps[bool]:
        name, holder = check_name(name), check_holder(holder)
        return break_lock(self._driver.runtime, self._options.prefix, name, holder)

    def _retry(self, retry: float | None) -> float:
        return self._options.retry if retry is None else check_positive("retry", retry)

    def _shares(self, shares: int) -> int:
        """The same, if this engine has locks of that kind."""
        if shares != 1 and self._engine.no_sharing:
            raise Unsupported(f"no read locks or semaphores: {self._engine.no_sharing}")
        if shares > 1 and self._engine.no_counting:
            raise Unsupported(f"no semaphores: {self._engine.no_counting}")
        return shares

    def _spec(
        self,
        name: str,
        ttl: float | None,
        renew: bool,
        max_hold: float | None,
        retry: float | None,
        label: str | None,
        min_hold: float = 0.0,
    ) -> LockSpec:
        name = check_name(name)
        ttl = self._ttl if ttl is None else self._engine.check_ttl(ttl)
        if max_hold is not None:
            max_hold = check_max_hold(max_hold, self.guarantees.min_ttl)
            # A lease that must end before its ttl is over is a lease of a shorter ttl.
            ttl = min(ttl, self._engine.check_ttl(min(ttl, max_hold)))
        return LockSpec(
            key=self._options.prefix + name,
            prefix=self._options.prefix,
            ttl=ttl,
            renew=check_bool("renew", renew),
            max_hold=max_hold,
            retry=self._retry(retry),
            request_timeout=self._engine.request_timeout(ttl),
            label=self._options.label if label is None else check_label(label),
            min_hold=check_min_hold(min_hold, None if renew else ttl, max_hold),
        )


class Client(BaseClient[ThreadDriver]):
    """Locks and cells of one engine, for threads. It connects on first use.

    Args:

    - `url`: where the locks are kept, such as `redis://host:6379/0`. Default: `$HOLDFAST_URL`, else
      an SQLite file in the user's state folder. It can also be a client of redis-py (or several,
      for a quorum), an `Engine` of SQLAlchemy, or a pool of psycopg: connections are then opened
      with their settings.
    - `prefix`: is put before every name in the store. Default: `holdfast:`.
    - `ttl`: the default ttl of its locks, in seconds. Default: 30, or the nearest value that the
      engine allows.
    - `retry`: the default `retry` of its locks, in seconds. Default: 0.1.
    - `label`: the default label of its locks. Default: none.
    - `connect`: for PostgreSQL, MariaDB and MySQL: a plain function that is called for each
      connection. It returns arguments for it, such as a fresh password, which override those of
      the URL.
    - `hooks`: functions that are called with each event (see `holdfast.events`), in order, each in
      a thread of its own: one that is slow or raises delays no lock. Default: none.
    - `engine_options`: options of the engine: `Client("redlock://h1,h2,h3", max_ttl=120)`. The page
      of each engine lists them.

    All but `url`, `connect` and `hooks` can also be parameters of the URL. An argument overrides a
    parameter. `lock` explains `ttl`, `retry` and `label`.

    >>> import holdfast
    >>> with holdfast.Client("memory://client-example", ttl=10) as client:
    ...     with client.lock("invoice:42") as lease:
    ...         [info.name for info in client.leases()]
    ['invoice:42']
    """

    def _make_driver(self) -> ThreadDriver:
        return ThreadDriver(self._engine, self._hooks)

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        reentrant: bool = False,
        max_hold: float | None = None,
        min_hold: float = 0.0,
        retry: float | None = None,
        label: str | None = None,
    ) -> Lock:
        """Describe a lock. Nothing is sent to the engine yet.

        Args:

        - `name`: any text of 1 to 512 bytes. Clients that give the same name (and prefix) exclude
          each other.
        - `ttl`: how long a lease lasts unless it is renewed, in seconds. If the holder crashes,
          others wait for up to that long. Default: the client's.
        - `timeout`: how long to wait for the lock, in seconds. 0 tries once, None or -1 waits
          forever. Default: forever.
        - `renew`: whether the client renews the lease in the background, every third of the ttl.
          Default: yes.
        - `reentrant`: whether a thread that holds it may take it again. Default: no.
        - `max_hold`: after this many seconds the lease is no longer renewed, and is lost: for code
          that may hang. Default: no limit.
        - `min_hold`: a release waits until the lock has been held for this many seconds, so that a
          short job runs only once on hosts whose clocks differ. Default: 0.
        - `retry`: how often a waiter asks again, in seconds, where the engine does not wake it.
          Default: the client's.
        - `label`: text that is shown beside host, pid and program of the holder. Default: the
          client's.
        """
        spec = self._spec(name, ttl, renew, max_hold, retry, label, min_hold)
        return Lock(
            self._driver,
            spec,
            check_timeout(timeout),
            check_bool("reentrant", reentrant),
            self,
        )

    def rwlock(self, name: str, **options: Unpack[LockOptions]) -> ReadWriteLock[Lock]:
        """Describe a read/write lock: any number of readers at once, or one writer.

        Both sides queue, first in, first out: readers that come after a waiting writer wait for it.
        A reader cannot become a writer: it would wait for itself.

        Args:

        - `name`: as for `lock`. The writer's side is the lock of that name.
        - `options`: of both sides, as for `lock`.
        """
        write = self.lock(name, **options)
        return ReadWriteLock(write._with_shares(self._shares(0)), write)

    def semaphore(self, name: str, slots: int, **options: Unpack[LockOptions]) -> Lock:
        """Describe a semaphore: a lock that several clients may hold at once.

        Clients that give different sizes wait for each other. So to resize it, give the new size
        everywhere: clients with the new size wait until the last holder with the old one is done.

        >>> import holdfast
        >>> client = holdfast.Client("memory://semaphore-example")
        >>> exports = client.semaphore("exports", 2)
        >>> with exports, exports:
        ...     print(exports.acquire(blocking=False))
        None
        >>> client.close()

        Args:

        - `name`: as for `lock`. The holder of the lock of that name excludes all slots.
        - `slots`: how many may hold it at once. 1 is the same as a lock.
        - `options`: as for `lock`.
        """
        slots = self._shares(check_count("slots", slots))
        return self.lock(name, **options)._with_shares(slots)

    def lock_all(
        self,
        names: Iterable[str],
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        retry: float | None = None,
        label: str | None = None,
    ) -> LockAll:
        """Describe several locks that are taken together: all of them, or none.

        They are acquired in the order of their names, whatever order is given, so that callers
        whose names overlap cannot deadlock.

        Args:

        - `names`: at least one. A name that is given twice is taken once.
        - `timeout`: how long to wait for all of them together, in seconds. Default: forever.
        - `ttl`, `renew`, `max_hold`, `retry`, `label`: for each of them, as for `lock`.
        """
        specs = [
            self._spec(name, ttl, renew, max_hold, retry, label) for name in check_names(names)
        ]
        return LockAll(self._driver, specs, check_timeout(timeout), self)

    def once(
        self,
        name: str,
        *,
        every: float,
        ttl: float | None = None,
        timeout: float = 0.0,
        max_hold: float | None = None,
        retry: float | None = None,
        label: str | None = None,
    ) -> Once:
        """Describe work that is done at most once in each period of `every` seconds, over all
        clients. As a decorator, the function returns None if it is not this client's turn; in a
        `with`, the lease is None.

        If a run fails, or its host crashes, another may run in the same period: at once, if it was
        waiting.

        Args:

        - `name`: of the lock that is held while it runs. The time of the last run is kept in the
          cell `once:name`.
        - `every`: the length of a period, in seconds. Periods are those of the calendar in UTC:
          `every=3600` begins with each hour.
        - `timeout`: how long to wait, in seconds, while another client runs it, in case that run
          fails. Default: 0.
        - `ttl`, `max_hold`, `retry`, `label`: as for `lock`.
        """
        lock = self.lock(
            name, ttl=ttl, timeout=timeout, max_hold=max_hold, retry=retry, label=label
        )
        cell = self.cell(f"once:{name}")
        return Once(self._driver, name, lock.acquire, cell, check_positive("every", every))

    def election(
        self,
        name: str,
        *,
        value: str = "",
        ttl: float | None = None,
        max_hold: float | None = None,
        retry: float | None = None,
        label: str | None = None,
    ) -> Election:
        """Describe an election: of all candidates, one leads. Observers need no value.

        Args:

        - `name`: of the lock that the leader holds. What it publishes is kept in the cell
          `election:name`.
        - `value`: what the leader publishes, such as its address. An engine without cells
          (`redlock://`) has elections without values: there it is `Unsupported`. Default: nothing.
        - `ttl`: as for `lock`. If the leader crashes, there is no leader for up to that long.
        - `max_hold`: the longest term, in seconds. Default: no limit.
        - `retry`: how often an observer asks, in seconds; and also a candidate, where the engine
          does not wake it. Default: the client's.
        - `label`: as for `lock`.
        """
        lock = self.lock(name, ttl=ttl, max_hold=max_hold, retry=retry, label=label)
        return Election(lock, self._election_cell(name, value), value)

    def latch(self, name: str, count: int, *, retry: float | None = None) -> Latch:
        """Describe a latch: it opens when `count` participants have counted down, and stays open.

        Args:

        - `name`: of the latch. Its participants are kept in the cell `latch:name`. It is used once:
          give the next one another name.
        - `count`: how many participants open it.
        - `retry`: how often a waiter asks, in seconds. Default: the client's.
        """
        return Latch(
            self.cell(f"latch:{name}"),
            check_count("count", count),
            self._participant(),
            self._retry(retry),
            self._ttl,
        )

    def cell(self, name: str) -> Cell:
        """The cell of this `name`: a value that can be set only by giving its latest version. No
        I/O yet. A cell and a lock of the same name have nothing to do with each other."""
        return Cell(self, self._driver, self._options.prefix, self._cell_name(name))

    def inspect(self, name: str) -> LeaseInfo | None:
        """The lease on the lock of this `name`; None if it is free."""
        return self._driver.run(self._inspect(name))

    def leases(self, prefix: str = "") -> Iterator[LeaseInfo]:
        """Every held lock whose name begins with `prefix`, by name."""
        return self._pages(check_text("prefix", prefix))

    def _pages(self, start: str) -> Iterator[LeaseInfo]:
        after = ""
        while found := self._driver.run(
            page(self._driver.runtime, self._options.prefix, start, after)
        ):
            yield from found
            after = found[-1].name

    def break_lock(self, name: str, holder: str = "") -> bool:
        """Take the lock of this `name` away from its holders; False if it is free. For operators.

        The old holder is not stopped: until its next renewal it does not know of the loss. Fences
        still order what is written.

        Args:

        - `name`: of the lock.
        - `holder`: take it from this holder only; any others keep it. Default: from all.
        """
        return self._driver.run(self._break(name, holder))

    def diagnose(self) -> list[Finding]:
        """Examine the servers, and try locks on them; the worst findings first. For operators:
        `holdfast doctor` prints them.

        It opens connections of its own, and takes some seconds. The lock and the cell that it tries
        are called `holdfast-doctor`.

        >>> import holdfast
        >>> with holdfast.Client("memory://") as client:
        ...     [finding.severity for finding in client.diagnose()]
        ['note']
        """
        from holdfast.diagnosis import diagnose

        return diagnose(self._engine, self._ttl, self._sibling, self.url)

    def nodes(self) -> list[NodeInfo]:
        """The servers that the URL names, as they are now: whether each answers, and how quickly,
        its clock, and how many more of them may fail. For operators: `holdfast ui` shows them.

        It opens its own connection to each, all at once, and each has 3 s for each answer.
        `memory://` and SQLite have no servers.

        >>> import holdfast
        >>> with holdfast.Client("memory://") as client:
        ...     client.nodes()
        []
        """
        return self._look_at_nodes()

    def close(self) -> None:
        """End all waits, release all leases, and close all connections. A lease that is still held
        is lost (`LockLost`). Every further use raises `ClientClosed`."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClient(BaseClient[AsyncDriver]):
    """Locks and cells of one engine, for asyncio: as `Client`, with methods to await. It belongs to
    one event loop.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-client-example") as client:
    ...         async with client.lock("invoice:42") as lease:
    ...             print([info.name async for info in client.leases()])
    >>> asyncio.run(main())
    ['invoice:42']
    """

    _awaits = True

    def _make_driver(self) -> AsyncDriver:
        from holdfast.drivers.aio import AsyncDriver

        return AsyncDriver(self._engine, self._hooks)

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        reentrant: bool = False,
        max_hold: float | None = None,
        min_hold: float = 0.0,
        retry: float | None = None,
        label: str | None = None,
        cancel_on_loss: bool = False,
    ) -> AsyncLock:
        """Describe a lock: as `Client.lock`, with tasks in place of threads.

        Args:

        - `cancel_on_loss`: whether the body of an `async with` is cancelled at the moment of loss;
          the `async with` then raises `LockLost`. Default: no.
        """
        spec = self._spec(name, ttl, renew, max_hold, retry, label, min_hold)
        return AsyncLock(
            self._driver,
            spec,
            check_timeout(timeout),
            check_bool("reentrant", reentrant),
            self,
            check_bool("cancel_on_loss", cancel_on_loss),
        )

    def rwlock(self, name: str, **options: Unpack[AsyncLockOptions]) -> ReadWriteLock[AsyncLock]:
        """Describe a read/write lock: as `Client.rwlock`, with the `options` of `lock`."""
        write = self.lock(name, **options)
        return ReadWriteLock(write._with_shares(self._shares(0)), write)

    def semaphore(self, name: str, slots: int, **options: Unpack[AsyncLockOptions]) -> AsyncLock:
        """Describe a semaphore with this many `slots`: as `Client.semaphore`, with the `options` of
        `lock`."""
        slots = self._shares(check_count("slots", slots))
        return self.lock(name, **options)._with_shares(slots)

    def lock_all(
        self,
        names: Iterable[str],
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        retry: float | None = None,
        label: str | None = None,
        cancel_on_loss: bool = False,
    ) -> AsyncLockAll:
        """Describe several locks that are taken together: as `Client.lock_all`, with
        `cancel_on_loss` as for `lock`."""
        specs = [
            self._spec(name, ttl, renew, max_hold, retry, label) for name in check_names(names)
        ]
        return AsyncLockAll(
            self._driver,
            specs,
            check_timeout(timeout),
            self,
            check_bool("cancel_on_loss", cancel_on_loss),
        )

    def once(
        self,
        name: str,
        *,
        every: float,
        ttl: float | None = None,
        timeout: float = 0.0,
        max_hold: float | None = None,
        retry: float | None = None,
        label: str | None = None,
        cancel_on_loss: bool = False,
    ) -> AsyncOnce:
        """Describe work that is done at most once in each period: as `Client.once`, with
        `cancel_on_loss` as for `lock`."""
        lock = self.lock(
            name,
            ttl=ttl,
            timeout=timeout,
            max_hold=max_hold,
            retry=retry,
            label=label,
            cancel_on_loss=cancel_on_loss,
        )
        cell = self.cell(f"once:{name}")
        return AsyncOnce(self._driver, name, lock.acquire, cell, check_positive("every", every))

    def election(
        self,
        name: str,
        *,
        value: str = "",
        ttl: float | None = None,
        max_hold: float | None = None,
        retry: float | None = None,
        label: str | None = None,
    ) -> AsyncElection:
        """Describe an election: as `Client.election`."""
        lock = self.lock(name, ttl=ttl, max_hold=max_hold, retry=retry, label=label)
        return AsyncElection(lock, self._election_cell(name, value), value)

    def latch(self, name: str, count: int, *, retry: float | None = None) -> AsyncLatch:
        """Describe a latch: as `Client.latch`."""
        return AsyncLatch(
            self.cell(f"latch:{name}"),
            check_count("count", count),
            self._participant(),
            self._retry(retry),
            self._ttl,
        )

    def cell(self, name: str) -> AsyncCell:
        """A value that can be set only by giving its latest version: as `Client.cell`."""
        return AsyncCell(self, self._driver, self._options.prefix, self._cell_name(name))

    async def inspect(self, name: str) -> LeaseInfo | None:
        """The lease on the lock of this `name`; None if it is free."""
        return await self._driver.run(self._inspect(name))

    def leases(self, prefix: str = "") -> AsyncIterator[LeaseInfo]:
        """Every held lock whose name begins with `prefix`, by name."""
        return self._pages(check_text("prefix", prefix))

    async def _pages(self, start: str) -> AsyncIterator[LeaseInfo]:
        after = ""
        while found := await self._driver.run(
            page(self._driver.runtime, self._options.prefix, start, after)
        ):
            for info in found:
                yield info
            after = found[-1].name

    async def break_lock(self, name: str, holder: str = "") -> bool:
        """Take the lock away from its holders, or from this `holder`: as `Client.break_lock`. For
        operators."""
        return await self._driver.run(self._break(name, holder))

    async def diagnose(self) -> list[Finding]:
        """Examine the servers, and try locks on them: as `Client.diagnose`, in another thread."""
        import asyncio  # not above: it takes time that threads do not need

        from holdfast.diagnosis import diagnose

        return await asyncio.to_thread(diagnose, self._engine, self._ttl, self._sibling, self.url)

    async def nodes(self) -> list[NodeInfo]:
        """The servers, as they are now: as `Client.nodes`, in another thread."""
        import asyncio  # not above: it takes time that threads do not need

        return await asyncio.to_thread(self._look_at_nodes)

    async def aclose(self) -> None:
        """End all waits, release all leases, and close all connections. A lease that is still held
        is lost (`LockLost`). Every further use raises `ClientClosed`."""
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
