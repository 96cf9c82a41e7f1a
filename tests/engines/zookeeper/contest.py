"""Threads that want one lock while servers fail, and what they are to have seen."""

import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Self

import holdfast

NAME = "contest"


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when somebody believed to hold the lock."""

    fence: int
    began: float
    ended: float


@dataclass
class Contest:
    """Clients in threads, each of which takes the lock, stays for a while, and gives it back."""

    url: str
    count: int = 3
    ttl: float = 2.0
    windows: list[Window] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _broken: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._contend) for _ in range(self.count)]
        for thread in self._threads:
            thread.start()
        self.goes_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if error is None:
            self.judge()

    def goes_on(self, turns: int = 6, within: float = 40.0) -> None:
        """Wait until the lock has been taken so many times more."""
        enough, give_up_at = len(self.windows) + turns, time.monotonic() + within
        while len(self.windows) < enough:
            assert not self._broken, self._broken
            assert time.monotonic() < give_up_at, "nobody gets the lock any more"
            time.sleep(0.01)

    def judge(self) -> None:
        """No two at once, and ever greater fences."""
        assert not self._broken
        windows = sorted(self.windows, key=lambda window: window.began)
        for earlier, later in pairwise(windows):
            assert earlier.ended <= later.began, f"two at once: {earlier}, {later}"
            assert earlier.fence < later.fence

    def _contend(self) -> None:
        try:
            with holdfast.Client(self.url) as client:
                while not self._over.is_set():
                    self._take_turn(client)
        except BaseException as error:
            self._broken.append(error)

    def _take_turn(self, client: holdfast.Client) -> None:
        try:
            lease = client.lock(NAME, ttl=self.ttl).acquire(timeout=5)
        except holdfast.EngineUnavailable:
            return
        if not lease:
            return
        began = last_held = time.monotonic()
        while time.monotonic() < began + 0.05:
            if not lease.held:
                break
            last_held = time.monotonic()
            time.sleep(0.002)
        self.windows.append(Window(lease.fence, began, last_held))
        try:
            lease.release()
        except holdfast.LockError:
            return  # lost meanwhile, or nobody answered
