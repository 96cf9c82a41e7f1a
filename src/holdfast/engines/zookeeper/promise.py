"""Results to come: what kazoo calls an `AsyncResult`.

kazoo's own calls back from another thread, which takes twice as long; and it has a lock that is
Python code: an exception that a signal handler raises in there may leave it locked, and kazoo's
thread with it. This one has a deque, and locks that are the interpreter's own.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any


class Promise:
    """A result, or an error, to come. `handler` is kazoo's."""

    __slots__ = ("_done", "_handler", "_links", "exception", "value")

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._done = False
        self._links: deque[Callable[[], object]] = deque()
        self.value: Any = None
        self.exception: BaseException | None = None

    def ready(self) -> bool:
        """Whether there is a result or an error."""
        return self._done

    def successful(self) -> bool:
        """Whether there is a result."""
        return self._done and self.exception is None

    def set(self, value: Any = None) -> None:
        """Set the result."""
        self.value, self.exception = value, None
        self._finish()

    def set_exception(self, exception: BaseException) -> None:
        """Set the error."""
        self.exception = exception
        self._finish()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `timeout` seconds, or forever; whether it is there."""
        if not self._done:
            waiter = threading.Lock()
            waiter.acquire()
            self._link(waiter.release)
            waiter.acquire(timeout=-1 if timeout is None else timeout)
        return self._done

    def get(self, timeout: float | None = None) -> Any:
        """The result; or raise the error, or kazoo's own after the timeout."""
        if not self.wait(timeout):
            raise self._handler.timeout_exception
        if self.exception is not None:
            raise self.exception
        return self.value

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Call this when it is there, from the thread that kazoo has for that."""
        self._link(partial(self._deliver, callback))

    def _link(self, link: Callable[[], object]) -> None:
        self._links.append(link)
        if self._done:
            self._call_links()

    def _finish(self) -> None:
        self._done = True
        self._call_links()

    def _call_links(self) -> None:
        """Call each once, whichever of two threads comes first."""
        while self._links:
            try:
                link = self._links.popleft()
            except IndexError:
                return
            link()

    def _deliver(self, callback: Callable[[Any], object]) -> None:
        if self._handler.running:
            self._handler.completion_queue.put(partial(callback, self))
        else:
            callback(self)
