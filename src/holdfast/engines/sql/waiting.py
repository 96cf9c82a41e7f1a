"""Who waits, and how they are woken."""

from concurrent.futures import Future
from typing import Protocol

from holdfast.core.messages import Acquire, Answer, Extend, Held, Release, Request
from holdfast.core.ports import Notify


class Waiting:
    """The holder ids of those of this client who wait to be woken, or are about to."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._who: set[str] = set()

    @property
    def anybody(self) -> bool:
        """Whether anybody waits, or is about to."""
        return bool(self._who)

    def expect(self, holder: str) -> None:
        """This one will wait if the lock is held."""
        self._who.add(holder)

    def note(self, request: Request, answer: Answer) -> None:
        """Keep in mind who waits."""
        if isinstance(request, Acquire) and isinstance(answer, Held) and answer.wakes:
            self._who.add(request.holder)
        elif self._who and isinstance(request, (Acquire, Extend, Release)):
            self._who.discard(request.holder)

    def wake(self, holder: str) -> None:
        """This one is to ask again."""
        self._notify(holder)

    def wake_all(self) -> None:
        """Some wake-ups may have been missed, so all are to ask again."""
        for holder in list(self._who):
            self._notify(holder)

    def forget(self) -> None:
        """In a forked child: nobody waits."""
        self._who.clear()


class Listener(Protocol):
    """What hears wake-ups for all waiters of a client."""

    settled: "Future[None]"
    """Done when it hears for the first time, or knows that it cannot."""

    has_left: bool
    """Whether it has ended, since nobody waited; whoever waits now needs another."""

    def settles(self, seconds: float) -> None:
        """Wait for that, but not for longer."""
        ...

    def stop(self) -> None:
        """Stop, soon."""
        ...

    def close(self) -> None:
        """Stop, and wait for the end."""
        ...

    def forget(self) -> None:
        """In a forked child: the connection is the parent's."""
        ...
