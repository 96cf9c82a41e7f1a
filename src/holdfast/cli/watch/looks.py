"""What the view shows: one look at the engine, taken in a thread, and never changed afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast import Client, LeaseInfo, Member
from holdfast.cli.output import duration, printable
from holdfast.monitor import Change, Monitor, Seen, Watched, kind_of

WAITS = 8
"""How many of the last looks a sparkline shows."""

HOT = 5
"""How many locks are named as those that most wait for."""


@dataclass(frozen=True, slots=True)
class Row:
    """One holder of one lock."""

    info: LeaseInfo
    member: Member
    name: str
    """The name of the lock, for people."""
    holder: str
    """The holder, for a narrow column: what is needed to find the process comes first."""
    seen: Seen
    """Since when this holder has it, as far as that is known."""
    seen_at: float
    waits: tuple[int, ...]
    """How many waited, at the last looks."""
    wait: Seen | None = None
    """Since when it has been waited for."""

    @property
    def key(self) -> tuple[str, str]:
        """What the row is about: the name and the holder."""
        return self.info.name, self.member.holder

    @property
    def kind(self) -> str:
        """A lock, a semaphore with its slots, or a read lock."""
        return kind_of(self.info)

    def has(self, text: str) -> bool:
        """Whether this (of lower case) is a part of the name or of the holder."""
        return text in self.info.name.casefold() or text in self.holder.casefold()

    def left(self, now: float) -> float:
        """Seconds until the lease ends, if it was not renewed since the look."""
        return max(0.0, self.member.remaining - (now - self.seen_at))

    def age(self, now: float) -> str:
        """For how long this holder has been seen, for people."""
        return f"{self.seen.mark}{duration(self.seen.lasts(now))}"


@dataclass(frozen=True, slots=True)
class Look:
    """All rows, the hot locks, and the history of the lock that is open."""

    at: float
    locks: int = 0
    """How many are held, by one holder or several."""
    rows: tuple[Row, ...] = ()
    hot: tuple[tuple[str, float], ...] = ()
    history: tuple[Change, ...] = ()


class Looks:
    """Takes one look after the other. Its monitor belongs to the thread that looks."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._monitor = Monitor()
        self.opened = ""
        """The name of the lock whose history is wanted."""

    def take(self) -> Look:
        """Ask the engine. It may take long, and raises `LockError`."""
        leases = list(self._client.leases(self._prefix))
        now = time.time()
        self._monitor.look(leases, now)
        rows = tuple(row for lock in self._monitor.held() for row in self._rows(lock, now))
        hot = tuple((lock.name, lock.contention) for lock in self._monitor.hot(HOT))
        opened = self._monitor.find(self.opened)
        return Look(now, len(leases), rows, hot, tuple(opened.changes) if opened else ())

    def _rows(self, lock: Watched, now: float) -> Iterator[Row]:
        info = lock.info
        if info is None:
            return
        name, waits = printable(info.name), tuple(lock.waiters)[-WAITS:]
        for member in info.members:
            seen = lock.holders[member.holder]
            yield Row(info, member, name, _short(member), seen, now, waits, lock.wait)


def _short(member: Member) -> str:
    label = member.label
    if label is None:
        return printable(member.holder)
    text = f" ({label.text})" if label.text else ""
    return printable(f"{label.host}/{label.pid} {label.program}{text}")
