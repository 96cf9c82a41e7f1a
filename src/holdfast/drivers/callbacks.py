"""Threads that call users' functions, so that a slow one delays nothing else."""

import threading
from collections import deque
from collections.abc import Callable

MOST_THREADS = 32


class CallbackThreads:
    """Runs each piece of work in a daemon thread: one that is there and idle, or a new one. A
    thread ends when there is nothing more to do."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._started = 0
        """How many threads there are, with those that are about to run."""
        self._running: set[int] = set()

    def submit(self, work: Callable[[], None]) -> None:
        """Run this, soon. It must not raise."""
        with self._changed:
            self._work.append(work)
            if self._started == MOST_THREADS:
                return
            self._started += 1
        try:
            threading.Thread(target=self._run, name="holdfast-callbacks", daemon=True).start()
        except RuntimeError:  # no more threads can be had
            self._run()

    def _run(self) -> None:
        me = threading.get_ident()
        with self._changed:
            self._running.add(me)
        while True:
            with self._changed:
                if not self._work:
                    self._running.discard(me)
                    self._started -= 1
                    self._changed.notify_all()
                    return
                work = self._work.popleft()
            work()

    def wait(self, timeout: float) -> None:
        """Wait until all work is done, unless this is part of it."""
        with self._changed:
            if threading.get_ident() not in self._running:
                self._changed.wait_for(lambda: not self._started, timeout)
