"""Who took what through one `Lock`: what `release()`, re-entering and leaving a `with` mean.

1. A lease belongs to its *owner*: the thread or task that took it.
2. `release()` means the latest lease of its caller that is not released yet. If that one is lost,
   `release()` raises that, once; the next acquire of the caller drops it.
3. A caller that never took anything through this lock may release the only lease that is held
   through it, also that of another owner. (A lost lease is not held; one taken twice is one.)
4. A caller that did take something, and has nothing left, may only release what an owner that has
   ended left behind, as `asyncio.wait_for` does; else a `release()` too many would end the valid
   lease of another thread.
5. A `with` is known by the frame that it stands in: leaving it means the lease that it was entered
   with, on whichever thread that happens. (A framework may enter generators on one thread and
   leave them on another: of two that hold a semaphore, each releases its own slot.) Where an
   `__enter__` of a user's own enters it, that frame ends, and its memory is used again: so its code
   is compared as well, and of two blocks that fit, the caller's own is meant.
6. Where the frames differ (`ExitStack`, `Condition`), leaving means the caller's innermost block,
   else the only open one, else it is refused.
7. If a block released its lease and took the lock again (`Condition.wait`), leaving it means the
   latest lease of its owner.

`Ownership` needs the runtime's mutex. `Blocks` needs none: each change is one operation of a list.
"""

from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakSet, ref

from holdfast.core.lease_state import HELD, LOST, LeaseState
from holdfast.core.messages import holder_of
from holdfast.errors import NotHeld

L = TypeVar("L")

Place: TypeAlias = tuple[int, CodeType]
"""The frame that a `with` stands in."""


def place_of(frame: FrameType) -> Place:
    """A frame, without keeping it alive: it may refer to the lock, and a lock that is dropped must
    not have to wait for the garbage collector."""
    return id(frame), frame.f_code


class Owned(Generic[L]):
    """A lease, and who took it."""

    __slots__ = ("lease", "owner")

    def __init__(self, owner: object, lease: L) -> None:
        self.owner = None if owner is None else ref(owner)
        self.lease = lease

    def belongs_to(self, owner: object) -> bool:
        """Whether this thread or task took it."""
        return owner is not None and self.owner is not None and self.owner() is owner


class Block(Owned[L]):
    """An open `with`: who entered it, where, and with what."""

    __slots__ = ("place",)

    def __init__(self, owner: object, lease: L, place: Place) -> None:
        super().__init__(owner, lease)
        self.place = place


class Blocks(Generic[L]):
    """The open `with` blocks of something that several threads or tasks may use at once."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: list[Block[L]] = []

    def enter(self, block: Block[L]) -> None:
        """It is open."""
        self._open.insert(0, block)

    def find(self, owner: object, place: Place) -> Block[L]:
        """The block that is left at this place."""
        block = self._choose(list(self._open), owner, place)
        if block is None:
            raise NotHeld(
                "this thread or task has entered no block here, so it is unknown which one is "
                "left; nothing was released. Use `with lock.acquire() as lease:` for blocks that "
                "end on another thread"
            )
        return block

    @staticmethod
    def _choose(blocks: Sequence[Block[L]], owner: object, place: Place) -> Block[L] | None:
        here = [block for block in blocks if block.place == place]
        mine = next((block for block in here or blocks if block.belongs_to(owner)), None)
        if mine or here:
            return mine or here[0]
        return blocks[0] if len(blocks) == 1 else None

    def leave(self, block: Block[L]) -> None:
        """It is over."""
        if block in self._open:
            self._open.remove(block)

    def forget(self, lease: object) -> None:
        """The block that was entered with that is over."""
        for block in list(self._open):
            if block.lease is lease:
                self._open.remove(block)


class Taken(Owned[L]):
    """One lease that was taken, in a `with` or not."""

    __slots__ = ("state",)

    def __init__(self, owner: object, state: LeaseState, lease: L) -> None:
        super().__init__(owner, lease)
        self.state = state

    def is_orphaned(self) -> bool:
        """Whether its owner has ended."""
        owner = None if self.owner is None else self.owner()
        return owner is None or bool(getattr(owner, "done", bool)())

    def is_open(self) -> bool:
        """Whether it is held, or lost and not released."""
        return self.state.state in (HELD, LOST)


class Ownership(Generic[L]):
    """What was taken through one lock, in order."""

    __slots__ = ("_known", "_taken")

    def __init__(self) -> None:
        self._taken: list[Taken[L]] = []
        self._known: WeakSet[Any] = WeakSet()
        """The owners that ever took a lease."""

    def add(self, owner: object, state: LeaseState, lease: L) -> None:
        """A lease was taken."""
        needed = [each for each in self._taken if self._is_needed(each, owner)]
        if owner is not None:
            self._known.add(owner)
        self._taken = [*needed, Taken(owner, state, lease)]

    @staticmethod
    def _is_needed(taken: Taken[L], owner: object) -> bool:
        """Whether it is held, or its loss is still to be reported to its owner."""
        if taken.state.state is HELD:
            return True
        return taken.is_open() and not (taken.belongs_to(owner) or taken.is_orphaned())

    def forget(self, holder: str) -> None:
        """The caller was interrupted, and has nothing of this holder's, or of its attempts."""
        self._taken = [each for each in self._taken if holder_of(each.state.holder) != holder]

    def held_by(self, owner: object, now: float) -> L | None:
        """What this owner holds already."""
        for taken in reversed(self._taken):
            if taken.belongs_to(owner) and taken.state.is_held(now):
                return taken.lease
        return None

    def to_release(self, owner: object, now: float) -> L | None:
        """The lease that `release()` means; None if there is none, or it is not clear."""
        for taken in reversed(self._taken):
            if taken.belongs_to(owner) and taken.is_open():
                if taken.state.is_lost(now):
                    self._taken.remove(taken)  # its loss is reported once, by this release
                return taken.lease
        is_known = owner is not None and owner in self._known
        held = [
            each.lease
            for each in self._taken
            if each.state.is_held(now) and (each.is_orphaned() or not is_known)
        ]
        return held[0] if len(held) == 1 else None

    def to_leave(self, block: Block[L], state: LeaseState) -> L:
        """The lease that leaving this block means; `state`: that of the one that it was entered
        with."""
        if state.state not in (HELD, LOST):
            for taken in reversed(self._taken):
                if taken.owner == block.owner and taken.is_open():
                    return taken.lease
        return block.lease
