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
   with, on whichever thread that happens. (Where an `__enter__` of a user's own enters it, that
   frame ends, and its memory is used again: so its code is compared as well, and of two blocks
   that fit, the caller's own is meant.)
6. Where the frames differ (`ExitStack`, `Condition`), leaving means the caller's innermost block,
   else the only open one, else it is refused.
7. If a block released its lease and took the lock again (`Condition.wait`), leaving it means the
   latest lease of its owner.

`Ownership` needs the runtime's mutex.
"""

from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import ref

from holdfast.core.lease_state import HELD, LOST, LeaseState
from holdfast.core.messages import holder_of
from holdfast.errors import NotHeld

L = TypeVar("L")

MANY_OWNERS = 64

Place: TypeAlias = tuple[int, CodeType] | None
"""The frame that a `with` stands in; None for a lease that was taken without one."""


def place_of(frame: FrameType) -> Place:
    """A frame, without keeping it alive."""
    return id(frame), frame.f_code


class Block(Generic[L]):
    """An open `with`: who entered it, where, and with what."""

    __slots__ = ("lease", "owner", "place")

    def __init__(self, owner: "ref[Any] | None", lease: L, place: Place) -> None:
        self.owner = owner
        self.lease = lease
        self.place = place

    def belongs_to(self, owner: object) -> bool:
        """Whether this thread or task took it."""
        return owner is not None and self.owner is not None and self.owner() is owner


B = TypeVar("B", bound=Block[Any])


def block_of(blocks: Sequence[B], owner: object, place: Place) -> B | None:
    """Which of these open blocks, the innermost first, is left at this place (rules 5 and 6); None
    if that is not clear."""
    here = [block for block in blocks if block.place == place]
    mine = next((block for block in here or blocks if block.belongs_to(owner)), None)
    if mine or here:
        return mine or here[0]
    return blocks[0] if len(blocks) == 1 else None


class Blocks(Generic[L]):
    """The open `with` blocks of something that several threads or tasks may use at once. It needs
    no mutex: each change is one operation of a list."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: list[Block[L]] = []

    def enter(self, owner: object, lease: L, place: Place) -> None:
        """The `with` at this place was entered with that."""
        self._open.insert(0, Block(None if owner is None else ref(owner), lease, place))

    def find(self, owner: object, place: Place) -> L:
        """What the `with` that is left at this place was entered with."""
        block = block_of(list(self._open), owner, place)
        if block is None:
            raise NotHeld(
                "this thread or task has entered no block here, so it is unknown which one is "
                "left; nothing was released. Use `with lock.acquire() as lease:` for blocks that "
                "end on another thread"
            )
        return block.lease

    def forget(self, lease: L) -> None:
        """The block that was entered with that is over."""
        for block in list(self._open):
            if block.lease is lease:
                self._open.remove(block)


class Taken(Block[L]):
    """One lease that was taken, by an `acquire()` (no place) or by the `with` at a place."""

    __slots__ = ("state",)

    def __init__(self, owner: "ref[Any] | None", state: LeaseState, lease: L, place: Place) -> None:
        self.owner = owner
        self.state = state
        self.lease = lease
        self.place = place

    def is_orphaned(self) -> bool:
        """Whether its owner has ended."""
        owner = None if self.owner is None else self.owner()
        return owner is None or bool(getattr(owner, "done", bool)())

    def is_open(self) -> bool:
        """Whether it is held, or lost and not released."""
        return self.state.state in (HELD, LOST)


class Ownership(Generic[L]):
    """What was taken through one lock, in order."""

    __slots__ = ("_known", "_many", "_taken")

    def __init__(self) -> None:
        self._taken: list[Taken[L]] = []
        self._known: set[ref[Any]] = set()
        """The owners that ever took a lease; those that have ended mean nothing."""
        self._many = MANY_OWNERS
        """When there are as many of them, those that have ended are dropped."""

    def add(self, owner: object, state: LeaseState, lease: L, place: Place = None) -> Taken[L]:
        """A lease was taken, or once more, by the `with` at this place if there is one."""
        needed = self._taken and [each for each in self._taken if self._is_needed(each, owner)]
        reference = None if owner is None else ref(owner)
        if reference is not None and reference not in self._known:
            if len(self._known) >= self._many:
                self._known = {each for each in self._known if each() is not None}
                self._many = MANY_OWNERS + 2 * len(self._known)
            self._known.add(reference)
        taken = Taken(reference, state, lease, place)
        self._taken = [*needed, taken]  # and no call after that, which a Ctrl-C may come in
        return taken

    @staticmethod
    def _is_needed(taken: Taken[L], owner: object) -> bool:
        """Whether its block is open, or it is held, or its loss is still to be reported to its
        owner."""
        if taken.place or taken.state.state is HELD:
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
                if taken.state.is_lost(now) and not taken.place:
                    self._taken.remove(taken)  # its loss is reported once, by this release
                return taken.lease
        is_known = owner is not None and ref(owner) in self._known
        held = {
            id(each.state): each.lease
            for each in self._taken
            if each.state.is_held(now) and (each.is_orphaned() or not is_known)
        }
        return next(iter(held.values())) if len(held) == 1 else None

    def to_leave(self, owner: object, place: Place) -> Taken[L] | None:
        """The block that is left at this place, with what leaving it means; None if that is not
        clear. It is open until `end`, so a caller that is interrupted may ask again."""
        taken = self._taken
        if len(taken) == 1 and taken[0].place == place:
            block: Taken[L] | None = taken[0]  # as a rule
        else:
            block = block_of([each for each in reversed(taken) if each.place], owner, place)
        if block is not None and not block.is_open():
            for each in reversed(taken):
                if each.owner is block.owner and not each.place and each.is_open():
                    block.state, block.lease = each.state, each.lease
                    break
        return block

    def end(self, block: Taken[L]) -> None:
        """That block is left."""
        block.place = None
        if block.state.depth == 1 or any(
            each.state is block.state for each in self._taken if each is not block
        ):
            self._taken.remove(block)  # else the block took the lock again, by `acquire()`
