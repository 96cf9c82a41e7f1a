"""What several kinds of lock share: a `with` block, and decorating a function.

Several threads or tasks may use one object at once: each block is left with what it was entered
with. A function is checked when it is decorated, not when it runs.

A Ctrl-C may come between any two lines, and whenever a function of Python begins or ends. So where
a method for threads (here, and of locks and leases) acquires or releases, all that it does stands
in one `try`, and what it has come to know in variables before it; its `except` leaves the rest to
the renewer. To call a helper that has the `try` would be one more place for a Ctrl-C.
"""

import functools
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from inspect import (
    Parameter,
    isasyncgenfunction,
    iscoroutine,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from holdfast.core.ownership import Block, Blocks, place_of
from holdfast.drivers import AsyncDriver
from holdfast.drivers.threads import ThreadDriver
from holdfast.errors import LockError, NotHeld

R = TypeVar("R")

Kind: TypeAlias = type[BaseException] | None
Error: TypeAlias = BaseException | None
Trace: TypeAlias = TracebackType | None
"""What a block is left with, as `__exit__` gets it."""


class WithBlocks:
    """For threads. What a block is entered with has `_depth`, `_leave(error)`, and, for a Ctrl-C on
    the way, `_interrupted(depth)`, which has the renewer release it."""

    _driver: ThreadDriver
    _blocks: Blocks[Any]

    def _lease_of(self, block: Block[Any]) -> Any:
        """What leaving this block means."""
        return block.lease

    def __exit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        block = lease = None
        depth = 0
        try:
            block = self._blocks.find(self._driver.current(), place_of(sys._getframe(1)))
            lease = self._lease_of(block)
            depth = lease._depth
            self._blocks.leave(block)
            lease._leave(error)
        except LockError:
            raise
        except BaseException:
            place = place_of(sys._getframe(1))
            with suppress(NotHeld):
                block = block or self._blocks.find(self._driver.current(), place)
                lease = lease or self._lease_of(block)
                self._blocks.leave(block)
                lease._interrupted(depth or lease._depth)
            raise


class AsyncWithBlocks:
    """For asyncio. What a block is entered with has an `__aexit__`."""

    _driver: AsyncDriver
    _blocks: Blocks[Any]

    def _lease_of(self, block: Block[Any]) -> Any:
        """What leaving this block means."""
        return block.lease

    async def __aexit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        block = self._blocks.find(self._driver.current(), place_of(sys._getframe(1)))
        self._blocks.leave(block)
        await self._lease_of(block).__aexit__(kind, error, trace)


def check_plain_function(function: Callable[..., object]) -> None:
    """A function that a lock for threads can decorate."""
    _refuse_generators(function)
    if iscoroutinefunction(function):
        raise TypeError(f"function: {function!r} is async; use the lock of an AsyncClient")


def check_async_function(function: Callable[..., object]) -> None:
    """A function that a lock for asyncio can decorate."""
    _refuse_generators(function)
    if not iscoroutinefunction(function):
        raise TypeError(f"function: {function!r} is not async; use the lock of a Client")


def inside(
    block: AbstractContextManager[Any], function: Callable[..., Any], *, with_lease: bool = False
) -> Callable[..., Any]:
    """The function, run inside of a block of its own at each call; it returns None if the block has
    no lease. `with_lease`: the lease is its first argument."""
    check_plain_function(function)

    @functools.wraps(function)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with block as lease:
            if lease is None:
                return None
            first = (lease,) if with_lease else ()
            return _not_a_coroutine(function, function(*first, *args, **kwargs))

    if with_lease:
        _hide_first_parameter(locked, function)
    return locked


def async_inside(
    block: AbstractAsyncContextManager[Any],
    function: Callable[..., Any],
    *,
    with_lease: bool = False,
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The same for coroutine functions."""
    check_async_function(function)

    @functools.wraps(function)
    async def locked(*args: Any, **kwargs: Any) -> Any:
        async with block as lease:
            if lease is None:
                return None
            first = (lease,) if with_lease else ()
            return await function(*first, *args, **kwargs)

    if with_lease:
        _hide_first_parameter(locked, function)
    return locked


def _not_a_coroutine(function: Callable[..., object], result: R) -> R:
    """What a plain function returned, unless it is a coroutine: that would run without the lock."""
    if iscoroutine(result):
        result.close()
        raise TypeError(f"function: {function!r} is async; use an AsyncClient's lock")
    return result


def _hide_first_parameter(wrapper: Callable[..., Any], function: Callable[..., object]) -> None:
    """The caller of `wrapper` does not give the first argument of `function`, so frameworks that
    look at its signature must not see it."""
    seen = signature(function)
    parameters = list(seen.parameters.values())
    kind = parameters[0].kind if parameters else Parameter.KEYWORD_ONLY
    if kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
        raise TypeError(f"function: {function!r} takes no lease as its first argument")
    others = parameters if kind is Parameter.VAR_POSITIONAL else parameters[1:]
    wrapper.__signature__ = seen.replace(parameters=others)  # type: ignore[attr-defined]


def _refuse_generators(function: Callable[..., object]) -> None:
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        kind = "an async generator" if isasyncgenfunction(function) else "a generator"
        raise TypeError(
            f"function: {function!r} is {kind}, whose body would run after the lock was released; "
            "take the lock inside of it"
        )
