"""A cell: a small value that is set only with its latest version, by compare-and-set. `Cell` for
threads, `AsyncCell` for asyncio."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeVar

from holdfast.core.cells import get, put, update
from holdfast.core.records import Versioned
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.options import check_timeout, check_value, check_version

D = TypeVar("D", bound=Driver)
V = TypeVar("V", bound=bytes | str)

UPDATE_TIMEOUT = 10.0


class BaseCell(Generic[D]):
    """What is the same for threads and asyncio: which cell it is."""

    def __init__(self, client: object, driver: D, prefix: str, name: str) -> None:
        self._client = client  # which thereby lives as long as its cells
        self._driver = driver
        self._place = driver.runtime, prefix + name, name

    @property
    def name(self) -> str:
        """The name of the cell."""
        return self._place[2]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Cell(BaseCell[ThreadDriver]):
    """A named value, for threads. Cheap, reusable, and shareable between threads.

    >>> import holdfast
    >>> client = holdfast.Client("memory://cell-example")
    >>> stock = client.cell("stock")
    >>> stock.set("10", expect=0)  # it was never set: create it
    True
    >>> stock.update(lambda value: str(int(value) - 1))
    '9'
    >>> value, version = stock.get()
    >>> stock.set("8", expect=version), stock.set("7", expect=version)
    (True, False)
    >>> client.close()
    """

    def get(self) -> Versioned:
        """Its value and its version: `None` and 0 if it was never set."""
        return self._driver.run(get(*self._place))

    def set(self, value: bytes | str, *, expect: int) -> bool:
        """Set it if its version is still `expect`. False: another client has set it since, and
        nothing was done.

        There is no way to set it without a version: that is how updates get lost. If the engine's
        reply is lost, it raises `EngineUnavailable`: the outcome is unknown.

        Args:

        - `value`: bytes or text.
        - `expect`: the version that `get()` returned; 0 creates the cell.
        """
        value, expect = check_value("value", value), check_version(expect)
        return self._driver.run(put(*self._place, value, expect))

    def update(
        self,
        fn: Callable[[Any], V],
        timeout: float | None = UPDATE_TIMEOUT,
    ) -> V:
        """Set it to `fn(value)`, and return that. What `fn` raises is raised, and nothing is set.

        Args:

        - `fn`: gets the value (None if it was never set), and returns the new one. It is called
          once a try. Another client may be faster, so it may be called several times: it should
          only compute a value.
        - `timeout`: how long to go on trying, in seconds, before `UpdateTimeout`. 0 tries once,
          None tries forever. Default: 10.
        """
        timeout = check_timeout(timeout)
        return self._driver.run(update(*self._place, check_function(fn), timeout))


class AsyncCell(BaseCell[AsyncDriver]):
    """A named value, for asyncio: as `Cell`, with methods to await.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-cell-example") as client:
    ...         hits = client.cell("hits")
    ...         await hits.update(lambda value: str(int(value or 0) + 1))
    ...         print(await hits.get())
    >>> asyncio.run(main())
    Versioned(value='1', version=1)
    """

    async def get(self) -> Versioned:
        """Its value and its version: `None` and 0 if it was never set."""
        return await self._driver.run(get(*self._place))

    async def set(self, value: bytes | str, *, expect: int) -> bool:
        """Set it if its version is still `expect`: as `Cell.set`. One that is cancelled may have
        been set or not."""
        value, expect = check_value("value", value), check_version(expect)
        return await self._driver.run(put(*self._place, value, expect))

    async def update(
        self,
        fn: Callable[[Any], V],
        timeout: float | None = UPDATE_TIMEOUT,
    ) -> V:
        """Set it to `fn(value)`, and return that: as `Cell.update`. `fn` is a plain function, which
        the event loop waits for."""
        timeout = check_timeout(timeout)
        return await self._driver.run(update(*self._place, check_function(fn), timeout))


def check_function(fn: Callable[[Any], V]) -> Callable[[Any], V]:
    """A plain function: it may be called several times, so it should not wait for anything."""
    if not callable(fn):
        raise TypeError(f"fn: must be callable, got {fn!r}")
    if iscoroutinefunction(fn):
        raise TypeError(f"fn: {fn!r} is async, but it should only compute a value")
    return fn
