"""Functions that users decorate: checked when they are decorated, not when they run."""

from collections.abc import Callable
from inspect import (
    Parameter,
    isasyncgenfunction,
    iscoroutine,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from typing import Any, TypeVar

R = TypeVar("R")


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


def not_a_coroutine(function: Callable[..., object], result: R) -> R:
    """What a plain function returned, unless it is a coroutine: that would run without the lock."""
    if iscoroutine(result):
        result.close()
        raise TypeError(f"function: {function!r} is async; use an AsyncClient's lock")
    return result


def hide_first_parameter(wrapper: Callable[..., Any], function: Callable[..., object]) -> None:
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
