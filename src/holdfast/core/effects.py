"""What an algorithm may ask of the driver that runs it. Only what may wait is an effect.

`until` is always an instant of the runtime's clock. The driver sends the result back into the
generator. An interruption (cancellation, Ctrl-C, a closing client) is thrown in, and the generator
ends with it: it may clean up its own state, and yields nothing more. What the engine may still have
of an interrupted caller goes to the pending releases, which the renewer sends.

The exchanges of the engines are such generators as well. Each engine has its own effects for what
it sends, and sleeps by `Sleep`; its stores run them with `perform`.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, final

from holdfast.core.messages import Request


@final
@dataclass(slots=True)
class Ask:
    """Send these requests to the engine, in one go; gives an answer for each, in order.

    What could not be sent, or was not answered by `until`, answers `Failed`.
    """

    requests: tuple[Request, ...]
    until: float


@dataclass(slots=True)
class Wait:
    """Wait for a notification for this waiter id, which must be subscribed; gives False if `until`
    passed without one."""

    waiter_id: str
    until: float


@dataclass(slots=True)
class Sleep:
    """Do nothing until that instant; or less, where a test moves the clock."""

    until: float


Effect: TypeAlias = Ask | Wait | Sleep

E = TypeVar("E")
T = TypeVar("T")
Uniform: TypeAlias = Callable[[float, float], float]
"""A random number between two."""
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]
Steps: TypeAlias = Generator[Effect, Any, T]


def ask(request: Request, until: float) -> Ask:
    """Ask one thing: `[answer] = yield ask(...)`."""
    return Ask((request,), until)


FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


def pause_after(
    tries: int, uniform: Uniform, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE
) -> float:
    """How long to wait before trying again, after `tries` earlier pauses: at random, so that it is
    never in step with others, from a range that doubles each time, up to `longest`."""
    ceiling = min(first * 2 ** min(tries, 10), longest)
    return uniform(ceiling / 2, ceiling)


def spread(pause: float, uniform: Uniform) -> float:
    """About that long, so that clients which poll at one interval drift apart."""
    return uniform(0.5 * pause, pause)


def perform(steps: Generator[E, Any, T], do: Callable[[E], object], throws: Errors = ()) -> T:
    """Do what these steps yield, and send each result back in; errors of these kinds are thrown in.
    After any other the steps are closed. (The drivers, where each microsecond counts, have loops of
    their own.)"""
    try:
        effect = next(steps)
        while True:
            try:
                result = do(effect)
            except throws as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is a T
    finally:
        steps.close()


async def perform_async(
    steps: Generator[E, Any, T], do: Callable[[E], Awaitable[object]], throws: Errors = ()
) -> T:
    """The same by awaiting."""
    try:
        effect = next(steps)
        while True:
            try:
                result = await do(effect)
            except throws as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is a T
    finally:
        steps.close()
