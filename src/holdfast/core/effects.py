"""What an algorithm may ask of the driver that runs it. Only what may wait is an effect.

`until` is always an instant of the world's clock. A driver sends the result back into the
generator; an interruption (cancellation, Ctrl-C, a closing client) is thrown in, and whatever the
generator yields after that is its cleanup, which the driver shields from further interruptions. A
generator that is closed (`GeneratorExit`) ends without cleanup: its driver is gone.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, final

from holdfast.core.messages import Request


@final
@dataclass(slots=True)
class Ask:
    """Send these requests to the engine, in one go; gives an answer for each, in order.

    What could not be asked, or did not answer by `until`, answers `Failed`.
    """

    requests: tuple[Request, ...]
    until: float


@dataclass(slots=True)
class Subscribe:
    """From now on, and until `World.unlisten`, remember wake-ups for this ticket."""

    waiter_id: str


@dataclass(slots=True)
class Wait:
    """Wait for a wake-up for this ticket; gives False if `until` passed without one, and
    `HandedOver` if that was said with it."""

    waiter_id: str
    until: float


@dataclass(slots=True)
class Sleep:
    """Wait until that instant."""

    until: float


@dataclass(slots=True)
class NotifyLost:
    """Call those who asked to be told that a lease is lost."""

    watchers: tuple[Any, ...]


Effect: TypeAlias = Ask | Subscribe | Wait | Sleep | NotifyLost

T = TypeVar("T")
Steps: TypeAlias = Generator[Effect, Any, T]


def ask(request: Request, until: float) -> Ask:
    """Ask one thing: `[answer] = yield ask(...)`."""
    return Ask((request,), until)
