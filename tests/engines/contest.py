"""Threads that want one lock while servers fail, and what they are to have seen."""

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import holdfast
from holdfast.lab.checkers import disorder, overlaps
from holdfast.lab.history import Event, History, Kind

NAME = "contest"
A_TURN = 0.02


@dataclass
class Contest:
    """Clients in threads, each of which takes the lock, stays for a while, and gives it back."""

    urls: Sequence[str]
    """One for each client."""
    ttl: float = 4.0
    may_overlap: bool = False
    """Whether the servers are known to end leases that are valid."""
    events: list[Event] = field(default_factory=list)
    turns: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _broken: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._contend, args=(url,)) for url in self.urls]
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

    def goes_on(self, turns: int = 6, within: float = 60.0) -> None:
        """Wait until the lock has been taken so many times more."""
        enough, give_up_at = self.turns + turns, time.monotonic() + within
        while self.turns < enough:
            assert not self._broken, self._broken
            assert time.monotonic() < give_up_at, "nobody gets the lock any more"
            time.sleep(0.005)

    def judge(self) -> None:
        """No two at once, and ever greater fences."""
        assert not self._broken
        history = History(self.events)
        assert not disorder(history)
        assert self.may_overlap or not list(overlaps(history))

    def _contend(self, url: str) -> None:
        try:
            with holdfast.Client(url) as client:
                while not self._over.is_set():
                    self._take_turn(client)
        except BaseException as error:
            self._broken.append(error)

    def _take_turn(self, client: holdfast.Client) -> None:
        hold = f"{threading.get_ident()} at {time.monotonic()}"
        self._tell(Kind.ASKED, hold, time.monotonic())
        try:
            lease = client.lock(NAME, ttl=self.ttl).acquire(timeout=10)
        except holdfast.EngineUnavailable:
            lease = None
        # If it is held when we look, it was so a moment before.
        now = time.monotonic()
        if lease is None or not lease.held:
            self._tell(Kind.REFUSED, hold, now)
        else:
            self._tell(Kind.GRANTED, hold, now, lease.fence)
            self._tell(Kind.RELEASING, hold, _stay(lease, now), lease.fence)
            self.turns += 1
        if lease is not None:
            with contextlib.suppress(holdfast.LockError):  # lost meanwhile, or nobody answered
                lease.release()

    def _tell(self, kind: Kind, hold: str, at: float, fence: int | None = None) -> None:
        self.events.append(Event(at, f"{threading.get_ident()}", kind, NAME, hold, fence))


def _stay(lease: holdfast.Lease, began: float) -> float:
    """Hold the lock for a while; until when that was surely so."""
    last_held = began
    while last_held < began + A_TURN:
        now = time.monotonic()
        if not lease.held:
            break
        last_held = now
        time.sleep(0.002)
    return last_held
