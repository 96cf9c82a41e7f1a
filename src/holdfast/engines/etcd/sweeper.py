"""A thread that revokes the spares which nobody wanted. It ends when it finds none."""

import threading
from collections.abc import Callable

from holdfast.engines.etcd.spares import LINGER, Spares


class Sweeper:
    """Looks after the spares of a client for threads."""

    def __init__(self, spares: Spares, revoke: Callable[[list[int]], object]) -> None:
        self._spares, self._revoke = spares, revoke
        self._mutex = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def rouse(self) -> None:
        """There may be a spare to look after."""
        with self._mutex:
            if self._thread is not None or self._spares.due_in() is None:
                return
            thread = threading.Thread(target=self._sweep, name="holdfast-etcd-spares", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread can be had, as when the interpreter is shutting down
                self._revoke(self._spares.take_all())
            else:
                self._thread = thread

    def stop(self) -> None:
        """End, and wait until it is done."""
        self._over.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _sweep(self) -> None:
        seconds: float | None = LINGER  # in a loop, somebody has the spare by now, and then another
        try:
            while seconds is not None and not self._over.wait(seconds):
                self._revoke(self._spares.take_useless())
                seconds = self._due_in()
        except BaseException:
            with self._mutex:
                self._thread = None  # so that another one can be roused
            raise

    def _due_in(self) -> float | None:
        """Until the next look; None if there is nothing to look after, and so the thread ends."""
        with self._mutex:
            seconds = self._spares.due_in()
            if seconds is None:
                self._thread = None
            return seconds
