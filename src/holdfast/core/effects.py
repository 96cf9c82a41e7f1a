"""What an algorithm may ask of the driver that runs it. Only what may wait is an effect.

`until` is always an instant of the runtime's clock. The driver sends the result back into the
generator. An interruption (cancellation, Ctrl-C, a closing client) is thrown in, and the generator
ends with it: it may clean up its own state, and yields nothing more. What the engine may still have
of an interrupted caller goes to the pending releases, which the renewer sends.
"""

from collections.abc import Generator
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
    """Wait until that instant."""

    until: float


Effect: TypeAlias = Ask | Wait | Sleep

T = TypeVar("T")
Steps: TypeAlias = Generator[Effect, Any, T]


def ask(request: Request, until: float) -> Ask:
    """Ask one thing: `[answer] = yield ask(...)`."""
    return Ask((request,), until)
