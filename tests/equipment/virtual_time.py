"""Virtual time for the real drivers: a late timer can be told from a busy machine.

`VirtualTime` is for threads: they wait on it instead of on the system, and it does not move until
the test moves it. `VirtualLoop` is an event loop whose time jumps to the next timer whenever
nothing else is to be done.
"""

import asyncio
import selectors
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from holdfast.drivers import common
from tests.patience import wait_for

BEGINNING = 1_000_000.0
"""Far from the system's clocks: who reads one of those gives itself away."""


class VirtualTime:
    """A clock that the test moves, and all waits on it."""

    def __init__(self) -> None:
        self.now = BEGINNING
        self.changed = threading.Condition(threading.RLock())
        self.timers: dict[int, float] = {}
        """Until when each waiting thread waits."""

    def clock(self) -> float:
        return self.now

    def advance_to(self, instant: float) -> None:
        with self.changed:
            self.now = max(self.now, instant)
            self.changed.notify_all()

    def wait(self, done: Callable[[], object], until: float) -> bool:
        """Block until something is so, or until that instant; whether it is so."""
        me = threading.get_ident()
        with self.changed:
            self.timers[me] = until
            try:
                self.changed.wait_for(lambda: done() or self.now >= until)
            finally:
                del self.timers[me]
            return bool(done())

    def next_timer(self, after: float) -> float:
        """Wait for a thread that waits for an instant after this one; the first such instant."""

        def found() -> list[float]:
            with self.changed:
                return [until for until in self.timers.values() if until > after]

        wait_for(found)
        return min(found())

    def advance_until(self, condition: Callable[[], object], latest: float) -> None:
        """Go from timer to timer until something is so, which must be by `latest`."""

        def timers() -> list[float]:
            with self.changed:
                return [until for until in self.timers.values() if until > self.now]

        while True:
            wait_for(lambda: condition() or timers())
            if condition():
                return
            if self.now >= latest:
                wait_for(condition)  # the last chance of threads that run
                return
            self.advance_to(min(*timers(), latest))

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the thread driver run on it."""
        time = self

        class Queue(VirtualQueue):
            def __init__(self) -> None:
                super().__init__(time)

        replace_globals(monkeypatch, {common.clock: self.clock, SimpleQueue: Queue})


class VirtualQueue:
    """A `SimpleQueue` on virtual time."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        with self._time.changed:
            self._items.append(item)
            self._time.changed.notify_all()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        until = float("inf") if timeout is None else self._time.now + timeout
        if not self._time.wait(lambda: self._items, until if block else -1.0):
            raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs the tasks; when all of them wait, it is the time of the next timer."""

    def __init__(self) -> None:
        self.now = BEGINNING
        super().__init__(_JumpingSelector(self))
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.now

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the asyncio driver run on it."""
        replace_globals(monkeypatch, {common.clock: self.time})


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self._loop.now += timeout
        return ready


def replace_globals(monkeypatch: pytest.MonkeyPatch, instead: dict[Any, Any]) -> None:
    """In all modules of the drivers, put one thing in another's place, whatever its name there."""
    replaced = set()
    for module in [m for name, m in sys.modules.items() if name.startswith("holdfast.drivers")]:
        for name, value in list(vars(module).items()):
            for old, new in instead.items():
                if value is old:
                    monkeypatch.setattr(module, name, new)
                    replaced.add(old)
    assert replaced == set(instead), "the drivers no longer use what this replaces"
