"""`with` on something that several threads or tasks may use at once: each block is left with what
it was entered with."""

import sys
from types import TracebackType
from typing import Any

from holdfast.core.ownership import Blocks
from holdfast.drivers import AsyncDriver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import LockError


class WithBlocks:
    """For threads. `__enter__` puts something into `_blocks` that has an `__exit__`, and, for a
    Ctrl-C on the way, `_interrupted`, which has the renewer release it."""

    _driver: ThreadDriver
    _blocks: Blocks[Any]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        frame = id(sys._getframe(1))
        entered = None
        try:
            entered = self._blocks.find(self._driver.current(), frame)
            entered.__exit__(kind, error, trace)
        except LockError:
            raise
        except BaseException:
            entered = entered or self._blocks.find(self._driver.current(), frame)
            entered._interrupted()
            raise
        finally:
            if entered is not None:
                self._blocks.forget(entered)


class AsyncWithBlocks:
    """For asyncio. `__aenter__` enters into `_blocks` what has an `__aexit__`."""

    _driver: AsyncDriver
    _blocks: Blocks[Any]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entered = self._blocks.find(self._driver.current(), id(sys._getframe(1)))
        self._blocks.forget(entered)
        await entered.__aexit__(kind, error, trace)
