"""A latch: opens when enough participants have counted down. `Latch` for threads, `AsyncLatch` for
asyncio."""

from typing import Generic, TypeVar

from holdfast.cell import BaseCell
from holdfast.core.effects import Steps
from holdfast.core.latch import arrived, count_down, wait
from holdfast.drivers import AsyncDriver, Driver
from holdfast.drivers.threads import ThreadDriver
from holdfast.options import check_name, check_timeout

D = TypeVar("D", bound=Driver)

COUNT_TIMEOUT = 10.0


class BaseLatch(Generic[D]):
    """What is the same for threads and asyncio: the cell, the count, and the participant."""

    def __init__(
        self, cell: BaseCell[D], count: int, participant: str, retry: float, failing_for: float
    ) -> None:
        self._cell, self._driver, self._place = cell, cell._driver, cell._place
        self._count, self._participant = count, participant
        self._retry, self._failing_for = retry, failing_for

    @property
    def name(self) -> str:
        """The name of the latch."""
        return self._cell.name.partition(":")[2]

    @property
    def count(self) -> int:
        """How many participants open it."""
        return self._count

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} count={self.count}>"

    def _count_down(self, participant: str | None) -> Steps[frozenset[str]]:
        if participant is None:
            participant = self._participant
        checked = check_name(participant, "participant")
        return count_down(*self._place, checked, COUNT_TIMEOUT)

    def _missing(self, found: frozenset[str]) -> int:
        return max(0, self._count - len(found))

    def _wait(self, timeout: float | None) -> Steps[bool]:
        return wait(
            *self._place, self._count, self._retry, self._failing_for, check_timeout(timeout)
        )


class Latch(BaseLatch[ThreadDriver]):
    """Opens when `count` participants have counted down, and stays open, for threads: see
    `Client.latch`.

    >>> import holdfast
    >>> client = holdfast.Client("memory://latch-example")
    >>> warm = client.latch("warm:release-42", 2)
    >>> warm.count_down("web-1"), warm.count_down("web-1"), warm.wait(timeout=0)
    (1, 1, False)
    >>> warm.count_down("web-2"), warm.wait(), warm.arrived()
    (0, True, ['web-1', 'web-2'])
    >>> client.close()
    """

    def count_down(self, participant: str | None = None) -> int:
        """Count this participant, once: if it has counted before, also in an earlier process,
        nothing changes. Gives how many are missing; 0: it is open.

        If the engine's reply is lost, it raises `EngineUnavailable`; to call it again is harmless.

        Args:

        - `participant`: who counts down: any text of 1 to 512 bytes that is the same after a
          restart. Default: the client's `label`, else the name of the host.
        """
        return self._missing(self._driver.run(self._count_down(participant)))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is open; False if it is not until the timeout.

        Args:

        - `timeout`: how long to wait, in seconds. 0 looks once, None or -1 waits forever. Default:
          forever.
        """
        return self._driver.run(self._wait(timeout))

    def arrived(self) -> list[str]:
        """The participants that have counted down, in order."""
        return sorted(self._driver.run(arrived(*self._place)))


class AsyncLatch(BaseLatch[AsyncDriver]):
    """Opens when `count` participants have counted down, and stays open, for asyncio: as `Latch`,
    with methods to await.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.AsyncClient("memory://async-latch-example") as client:
    ...         warm = client.latch("warm:release-42", 1)
    ...         print(await warm.count_down("web-1"), await warm.wait(timeout=5))
    >>> asyncio.run(main())
    0 True
    """

    async def count_down(self, participant: str | None = None) -> int:
        """Count this `participant`, once: as `Latch.count_down`."""
        return self._missing(await self._driver.run(self._count_down(participant)))

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is open, for up to `timeout` seconds: as `Latch.wait`."""
        return await self._driver.run(self._wait(timeout))

    async def arrived(self) -> list[str]:
        """The participants that have counted down, in order."""
        return sorted(await self._driver.run(arrived(*self._place)))
