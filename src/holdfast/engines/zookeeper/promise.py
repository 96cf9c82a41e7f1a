"""Results that are to come: what kazoo calls an `AsyncResult`, made for threads that are struck.

kazoo's own has a lock that is Python code. If a Ctrl-C strikes the main thread in there, the lock
may stay locked, and kazoo's thread with it; or an error takes the place of the Ctrl-C. Here there
is nothing that could be left half done: a deque, and locks that are the interpreter's own.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any


class Promise:
    """A result, or an error, that is there at some time. `handler` is kazoo's."""

    __slots__ = ("_handler", "_kept", "_links", "exception", "value")

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._kept = False
        self._links: deque[Callable[[], object]] = deque()
        self.value: Any = None
        self.exception: BaseException | None = None

    def ready(self) -> bool:
        """Whether there is a result or an error."""
        return self._kept

    def successful(self) -> bool:
        """Whether there is a result."""
        return self._kept and self.exception is None

    def set(self, value: Any = None) -> None:
        """This is the result."""
        self.value, self.exception = value, None
        self._keep()

    def set_exception(self, exception: BaseException) -> None:
        """This is the error."""
        self.exception = exception
        self._keep()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for so many seconds, or for ever; whether it is there."""
        if not self._kept:
            bell = threading.Lock()
            bell.acquire()
            self._link(bell.release)
            bell.acquire(timeout=-1 if timeout is None else timeout)
        return self._kept

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The result; or raise the error, or kazoo's own for a wait in vain."""
        if not (self.wait(timeout) if block else self._kept):
            raise self._handler.timeout_exception
        if self.exception is not None:
            raise self.exception
        return self.value

    def get_nowait(self) -> Any:
        """The same without waiting."""
        return self.get(block=False)

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Have this called when it is there, by the thread that kazoo has for that."""
        self._link(partial(self._hand_over, callback))

    def tell(self, callback: Callable[[Any], object]) -> None:
        """The same, by the thread that has read the result; so the callback must be quick."""
        self._link(partial(callback, self))

    def _link(self, link: Callable[[], object]) -> None:
        self._links.append(link)
        if self._kept:
            self._call_links()

    def _keep(self) -> None:
        self._kept = True
        self._call_links()

    def _call_links(self) -> None:
        """Call each once, whichever of two threads comes first."""
        while self._links:
            try:
                link = self._links.popleft()
            except IndexError:
                return
            link()

    def _hand_over(self, callback: Callable[[Any], object]) -> None:
        if self._handler.running:
            self._handler.completion_queue.put(partial(callback, self))
        else:
            callback(self)
