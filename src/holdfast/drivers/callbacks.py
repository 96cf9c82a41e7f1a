"""Threads that call users' functions, so that a slow one delays nothing else."""

import threading
import time
from collections import deque
from collections.abc import Callable

MOST_THREADS = 32
"""How many callbacks of one client run at once."""

LINGER = 0.1
"""How long a thread waits for more work before it ends. Many leases may be lost at once, and they
are reported under the mutex that renewals need: not each of them must start a thread."""


class CallbackThreads:
    """Runs each piece of work in a daemon thread: one that is there and idle, or a new one. A
    thread ends when there is nothing more to do.

    Args:

    - `most`: the most threads at once. With one, the work is done in order.
    - `must`: whether the caller does the work if no thread can be started. Otherwise the work waits
      for a thread that is started for later work.
    - `gather`: for how many seconds an idle thread lets work gather, so that it is not woken for
      each piece.
    """

    def __init__(
        self,
        most: int = MOST_THREADS,
        name: str = "holdfast-callbacks",
        *,
        must: bool = True,
        gather: float = 0.0,
    ) -> None:
        self._most, self._name, self._must, self._gather = most, name, must, gather
        self._work: deque[Callable[[], None]] = deque()
        mutex = threading.RLock()
        self._changed = threading.Condition(mutex)
        self._ended = threading.Condition(mutex)
        self._started = 0
        """How many threads there are, with those that are about to run."""
        self._idle = 0
        self._ending = False
        """Whether idle threads are to end at once."""
        self._running: set[int] = set()

    def waiting(self) -> int:
        """How many pieces of work have not begun yet."""
        return len(self._work)

    def is_busy(self) -> bool:
        """Whether any work is under way, or has not begun yet."""
        return bool(self._work) or self._started > self._idle

    def submit(self, work: Callable[[], None]) -> None:
        """Run this, soon. It must not raise."""
        with self._changed:
            self._work.append(work)
            self._changed.notify()
            if self._idle >= len(self._work) or self._started == self._most:
                return
            self._started += 1
        try:
            threading.Thread(target=self._run, args=(LINGER,), name=self._name, daemon=True).start()
        except RuntimeError:  # no more threads can be started
            if self._must:
                self._run(0.0)
            else:
                self._end()

    def _run(self, linger: float) -> None:
        me = threading.get_ident()
        with self._changed:
            self._running.add(me)
        while True:
            if self._gather and not self._work:
                time.sleep(self._gather)
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._work or self._ending, linger)
                self._idle -= 1
                if not self._work:
                    self._running.discard(me)
                    self._end()
                    return
                work = self._work.popleft()
            work()
            del work  # or it would live until the next one

    def _end(self) -> None:
        with self._changed:
            self._started -= 1
            self._ended.notify_all()

    def wait(self, timeout: float) -> None:
        """Wait until all work is done, unless this is part of it. What no thread could be had for
        is done here: at the end of a program there are none to be had."""
        with self._changed:
            if threading.get_ident() in self._running:
                return
            self._ending = True
            self._changed.notify_all()
            self._ended.wait_for(lambda: not self._started, timeout)
            self._ending = False
            if self._started or not self._work:
                return
            self._started += 1
        self._run(0.0)
