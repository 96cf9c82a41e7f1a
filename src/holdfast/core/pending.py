"""Releases that the engine has not confirmed yet.

1. Every release is in here from before it is sent until the engine has confirmed it. So an
   interruption of the caller does not lose it.
2. The caller sends it first. At `not_before`, or at once when the caller failed or was interrupted,
   the renewer sends it, and again, less and less often, until it is confirmed or the lease has
   expired on the engine.
3. A release of what is not there is harmless: it touches only what this holder has.

All of it needs the runtime's mutex.
"""

from dataclasses import dataclass
from math import inf

from holdfast.core.effects import Uniform, pause_after
from holdfast.core.messages import Release

MOST = 10_000
"""At most this many are kept; the oldest are dropped first."""


@dataclass(slots=True)
class PendingRelease:
    """One release that is not confirmed."""

    release: Release
    expires_at: float
    """When the lease has ended on the engine in any case."""
    not_before: float
    """When to send it, unless it is confirmed by then."""
    was_held: bool = False
    """Whether there was a lease, which others may have to wait for; else the engine may know
    nothing of this holder."""
    failures: int = 0


class PendingReleases:
    """The releases of one client that are not confirmed, by holder."""

    def __init__(self) -> None:
        self._entries: dict[str, PendingRelease] = {}

    def add(
        self, release: Release, expires_at: float, not_before: float, *, was_held: bool
    ) -> None:
        """Remember a release that is about to be sent, or is to be sent by the renewer."""
        if len(self._entries) >= MOST:
            del self._entries[next(iter(self._entries))]
        self._entries[release.holder] = PendingRelease(release, expires_at, not_before, was_held)

    def hasten(self, holder: str, now: float) -> None:
        """The caller failed to send it: the renewer sends it now."""
        entry = self._entries.get(holder)
        if entry is not None:
            entry.not_before = min(entry.not_before, now)

    def confirm(self, holder: str) -> None:
        """The engine has confirmed it."""
        self._entries.pop(holder, None)

    def find(self, holder: str) -> Release | None:
        """The release of this holder, if it is not confirmed yet."""
        entry = self._entries.get(holder)
        return None if entry is None else entry.release

    def due(self, now: float, limit: int) -> list[Release]:
        """What is to be sent now; what has ended by itself is forgotten."""
        if not self._entries:
            return []
        for holder, entry in list(self._entries.items()):
            if entry.expires_at <= now:
                del self._entries[holder]
        found = [each.release for each in self._entries.values() if each.not_before <= now]
        return found[:limit]

    def failed(self, holder: str, now: float, uniform: Uniform) -> None:
        """It was not confirmed: later again, and behind the others."""
        entry = self._entries.pop(holder, None)
        if entry is not None:
            entry.not_before = now + pause_after(entry.failures, uniform)
            entry.failures += 1
            self._entries[holder] = entry

    def next_due(self) -> float:
        """When the next one is to be sent, or infinity."""
        return min((entry.not_before for entry in self._entries.values()), default=inf)

    def hasten_all(self, now: float) -> None:
        """Send all of them now: the client is closing, or the engine answers again."""
        for entry in self._entries.values():
            entry.not_before = min(entry.not_before, now)

    def keys(self) -> tuple[str, ...]:
        """The keys of leases that are not released yet."""
        return tuple(each.release.key for each in self._entries.values() if each.was_held)

    def __len__(self) -> int:
        return len(self._entries)
