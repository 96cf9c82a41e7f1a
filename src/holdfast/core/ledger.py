"""Who took what through one `Lock`: what `release()`, re-entering and leaving a `with` mean.

1. Whoever takes a lease is known by an *owner*: the running thread or task.
2. `release()` means the latest lease that its caller took; else the only one there is.
3. Leaving a `with` means the lease that it was entered with; if the block released that one and
   took the lock again (as `threading.Condition.wait` does), the latest one that it took.
4. What its holder has let go of is forgotten; so is a lost lease once its owner has moved on.

The caller has the world's mutex, except for `add` and `forget`, which need none.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.core.lease_state import HELD, LOST, RELEASED, LeaseState

L = TypeVar("L")

PRUNE_ABOVE = 8


@dataclass(slots=True, eq=False)
class Entry(Generic[L]):
    """One lease that was taken."""

    owner: object
    tenure: LeaseState
    lease: L
    entered: bool
    """Whether a `with` took it."""


class Ledger(Generic[L]):
    """The leases taken through one lock, in order."""

    def __init__(self) -> None:
        self._entries: list[Entry[L]] = []
        self._prune_above = PRUNE_ABOVE

    def add(self, owner: object, tenure: LeaseState, lease: L, entered: bool) -> bool:
        """A lease was taken; True if it is time to prune.

        The one before is mostly over, and forgotten at once: of a thousand locks, each with a few
        of these, the garbage collector would have much to look through, a tenth of all the time.
        """
        entries = self._entries
        for first in entries[:1]:
            if first.tenure.state is RELEASED and not first.entered:
                self._forget(first)
        entries.append(Entry(owner, tenure, lease, entered))
        return len(entries) > self._prune_above

    def prune(self, owner: object, now: float) -> None:
        """Forget what is over. Other threads may add meanwhile."""
        for entry in self._entries[:]:
            if not (
                entry.entered
                or entry.tenure.is_held(now)
                or (entry.tenure.state is HELD and entry.owner != owner)
            ):
                self._forget(entry)
        self._prune_above = max(PRUNE_ABOVE, 2 * len(self._entries))

    def forget(self, tenure: LeaseState) -> None:
        """It has not got to whom it was for."""
        for entry in self._entries[:]:
            if entry.tenure is tenure:
                self._forget(entry)

    def _forget(self, entry: Entry[L]) -> None:
        try:
            self._entries.remove(entry)
        except ValueError:
            return  # another thread was faster

    def held_by(self, owner: object, now: float) -> Entry[L] | None:
        """What this owner holds already, to be taken again."""
        held = [entry for entry in list(self._entries) if entry.tenure.is_held(now)]
        return _last_of(owner, held)

    def latest(self, owner: object) -> L | None:
        """The lease that `release()` means; None if that is none, or not clear."""
        others: list[Entry[L]] = []
        for entry in reversed(self._entries[:]):
            state = entry.tenure.state
            if state is HELD or state is LOST:
                if owner is not None and entry.owner == owner:
                    break
                others.append(entry)
        else:
            if len(others) != 1:
                return None
            entry = others[0]
        if entry.tenure.state is LOST and not entry.entered:
            self._forget(entry)  # told once, by this release
        return entry.lease

    def leave(self, owner: object) -> L | None:
        """The lease that leaving a `with` means; None if no `with` was entered."""
        entered = [entry for entry in list(self._entries) if entry.entered]
        entry = _last_of(owner, entered)
        if entry is None and len(entered) == 1:
            entry = entered[0]
        if entry is None:
            return None
        self._entries.remove(entry)
        if not entry.tenure.unsettled:
            others = [
                each for each in list(self._entries) if not each.entered and each.tenure.unsettled
            ]
            entry = _last_of(owner, others) or entry
        return entry.lease


def _last_of(owner: object, entries: list[Entry[L]]) -> Entry[L] | None:
    """The last of these that is the owner's."""
    for entry in reversed(entries):
        if owner is not None and entry.owner == owner:
            return entry
    return None
