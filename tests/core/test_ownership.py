"""Who took what through one `Lock`: each of the rules, and the faults that they are for."""

import gc
from dataclasses import dataclass
from weakref import ref

import pytest

from holdfast.core.lease_state import TAKEN, LeaseState
from holdfast.core.messages import attempt_id
from holdfast.core.ownership import Block, Blocks, Ownership, Place
from holdfast.errors import NotHeld
from tests.core.hand import NOW, TTL, spec


def place(frame: int) -> Place:
    return frame, place.__code__


class Owner:
    """A thread. It ends with its last reference."""


class Task:
    """A task, which says itself that it has ended."""

    def __init__(self) -> None:
        self.ended = False

    def done(self) -> bool:
        return self.ended


@dataclass(eq=False)
class Lease:
    """What a `Lock` gives to its user."""

    state: LeaseState


class Lock:
    """A lock, as far as ownership goes."""

    def __init__(self) -> None:
        self.ownership: Ownership[Lease] = Ownership()
        self.blocks: Blocks[Lease] = Blocks()
        self.now = NOW
        self._count = 0

    def take(self, owner: object) -> Lease:
        self._count += 1
        state = LeaseState(spec(), f"holder {self._count}", 7, NOW + TTL)
        lease = Lease(state)
        self.ownership.add(owner, state, lease)
        return lease

    def enter(self, owner: object, frame: int) -> Lease:
        """By a `with` in this frame."""
        lease = self.take(owner)
        self.blocks.enter(Block(owner, lease, place(frame)))
        return lease

    def release(self, owner: object) -> Lease | None:
        """What this caller's `release()` means; if it was held, it is released."""
        return self._end(self.ownership.to_release(owner, self.now))

    def leave(self, owner: object, frame: int) -> Lease | None:
        """What leaving a `with` in this frame means."""
        try:
            block = self.blocks.find(owner, place(frame))
        except NotHeld:
            return None
        self.blocks.leave(block)
        return self._end(self.ownership.to_leave(block, block.lease.state))

    def _end(self, lease: Lease | None) -> Lease | None:
        if lease is not None and lease.state.is_held(self.now):
            lease.state.mark_released()
        return lease


@pytest.fixture
def lock() -> Lock:
    return Lock()


@pytest.fixture
def a() -> Owner:
    return Owner()


@pytest.fixture
def b() -> Owner:
    return Owner()


@pytest.fixture
def stranger() -> Owner:
    """A caller that never took anything through this lock."""
    return Owner()


class TestReleasing:
    def test_it_means_the_callers_latest_lease(self, lock: Lock, a: Owner, b: Owner) -> None:
        first, second, other = lock.take(a), lock.take(a), lock.take(b)
        assert lock.release(a) is second
        assert lock.release(a) is first
        assert lock.release(a) is None, "what b holds is b's"
        assert lock.release(b) is other

    def test_a_loss_is_told_once_by_the_owners_release(
        self, lock: Lock, a: Owner, b: Owner
    ) -> None:
        lost = lock.take(a)
        lost.state.mark_lost(TAKEN)
        other = lock.take(b)
        assert lock.release(a) is lost
        assert lock.release(a) is None
        assert other.state.is_held(NOW)

    def test_also_one_that_no_timer_has_noticed_yet(self, lock: Lock, a: Owner) -> None:
        lost = lock.take(a)
        lock.now = NOW + TTL
        assert lock.release(a) is lost
        assert lock.release(a) is None

    def test_however_often_others_take_it_meanwhile(self, lock: Lock, a: Owner, b: Owner) -> None:
        """The fault: the entry was dropped, and the release ended the valid lease of another."""
        lost = lock.take(a)
        lost.state.mark_lost(TAKEN)
        for _ in range(20):
            lock.take(b)
            lock.release(b)
        other = lock.take(b)
        assert lock.release(a) is lost
        assert lock.release(a) is None
        assert other.state.is_held(NOW)

    def test_the_owners_next_acquire_forgets_the_loss(self, lock: Lock, a: Owner) -> None:
        lock.take(a).state.mark_lost(TAKEN)
        lease = lock.take(a)
        assert lock.release(a) is lease
        assert lock.release(a) is None


class TestAnotherThreadReleases:
    def test_a_stranger_may_release_the_only_lease(
        self, lock: Lock, a: Owner, stranger: Owner
    ) -> None:
        lease = lock.take(a)
        assert lock.release(stranger) is lease

    def test_but_not_one_of_several(self, lock: Lock, a: Owner, b: Owner, stranger: Owner) -> None:
        leases = [lock.take(a), lock.take(b)]
        assert lock.release(stranger) is None
        assert all(lease.state.is_held(NOW) for lease in leases)

    def test_lost_leases_do_not_count(
        self, lock: Lock, a: Owner, b: Owner, stranger: Owner
    ) -> None:
        """The fault: a stale entry made it unclear which one is meant."""
        lock.take(a).state.mark_lost(TAKEN)
        lease = lock.take(b)
        assert lock.release(stranger) is lease
        assert lock.release(stranger) is None, "a loss is told to its owner alone"

    def test_one_that_was_taken_twice_is_one(self, lock: Lock, a: Owner, stranger: Owner) -> None:
        """The fault: a reentrant lease could not be released elsewhere."""
        lease = lock.take(a)
        assert lock.ownership.held_by(a, NOW) is lease
        lease.state.depth += 1
        assert lock.ownership.to_release(stranger, NOW) is lease

    def test_a_release_too_many_does_not_end_the_lease_of_another(
        self, lock: Lock, a: Owner, b: Owner
    ) -> None:
        lock.take(a)
        assert lock.release(a) is not None
        other = lock.take(b)
        assert lock.release(a) is None
        assert other.state.is_held(NOW)

    def test_unless_that_one_has_ended(self, lock: Lock, a: Owner) -> None:
        """`asyncio.wait_for` takes it in a task of its own."""
        lock.take(a)
        lock.release(a)
        task = Task()
        left_behind = lock.take(task)
        assert lock.release(a) is None
        task.ended = True
        assert lock.release(a) is left_behind
        thread = Owner()
        left_behind = lock.take(thread)
        del thread
        assert lock.release(a) is left_behind

    def test_a_caller_without_a_task_is_a_stranger(self, lock: Lock, a: Owner) -> None:
        lease = lock.take(a)
        assert lock.release(None) is lease


def test_what_an_owner_holds_already(lock: Lock, a: Owner, b: Owner) -> None:
    lease = lock.take(a)
    assert lock.ownership.held_by(a, NOW) is lease
    assert lock.ownership.held_by(b, NOW) is None
    assert lock.ownership.held_by(None, NOW) is None
    assert lock.ownership.held_by(a, NOW + TTL) is None
    lease.state.mark_released()
    assert lock.ownership.held_by(a, NOW) is None


class TestLeaving:
    def test_a_with_is_left_with_the_lease_that_it_was_entered_with(
        self, lock: Lock, a: Owner
    ) -> None:
        block, other = lock.enter(a, frame=1), lock.take(a)
        assert lock.leave(a, frame=1) is block
        assert other.state.is_held(NOW)

    def test_on_whichever_thread_that_happens(self, lock: Lock, a: Owner, b: Owner) -> None:
        """The fault: generators that web frameworks finish on another thread."""
        first, second = lock.enter(a, frame=1), lock.enter(b, frame=2)
        assert lock.leave(b, frame=1) is first
        assert lock.leave(a, frame=2) is second

    def test_the_innermost_of_one_frame_first(self, lock: Lock, a: Owner) -> None:
        outer, inner = lock.enter(a, frame=1), lock.enter(a, frame=1)
        assert lock.leave(a, frame=1) is inner
        assert lock.leave(a, frame=1) is outer

    def test_where_the_frames_differ_it_is_the_callers_innermost_block(
        self, lock: Lock, a: Owner, b: Owner
    ) -> None:
        outer, inner = lock.enter(a, frame=1), lock.enter(a, frame=2)
        lock.enter(b, frame=3)
        assert lock.leave(a, frame=9) is inner
        assert lock.leave(a, frame=9) is outer

    def test_else_the_only_open_one(self, lock: Lock, a: Owner, stranger: Owner) -> None:
        block = lock.enter(a, frame=1)
        assert lock.leave(stranger, frame=9) is block

    def test_else_it_is_refused(self, lock: Lock, a: Owner, b: Owner, stranger: Owner) -> None:
        leases = [lock.enter(a, frame=1), lock.enter(b, frame=2)]
        assert lock.leave(stranger, frame=9) is None
        assert all(lease.state.is_held(NOW) for lease in leases)

    def test_without_any_block_it_is_refused(self, lock: Lock, a: Owner) -> None:
        lock.take(a)
        assert lock.leave(a, frame=1) is None

    def test_a_frame_that_has_ended_is_not_taken_for_a_later_one(
        self, lock: Lock, a: Owner, b: Owner
    ) -> None:
        """The fault: where `__enter__` and `__exit__` of a user's own enter and leave it, memory of
        a frame is used again, and the slot of another thread was released."""
        first, second = lock.enter(a, frame=1), lock.enter(b, frame=1)
        assert lock.leave(a, frame=1) is first
        assert lock.leave(b, frame=1) is second
        third = lock.enter(a, frame=1)
        lock.enter(b, frame=2)
        assert lock.blocks.find(a, (2, lock.leave.__code__)).lease is third

    def test_a_block_that_took_the_lock_again_releases_the_latest(
        self, lock: Lock, a: Owner, b: Owner
    ) -> None:
        """`Condition.wait` releases the lock and takes it again."""
        lock.enter(a, frame=1)
        lock.release(a)
        again = lock.take(a)
        lock.take(b)
        assert lock.leave(a, frame=1) is again

    def test_a_block_that_lost_its_lease_is_left_with_that_one(
        self, lock: Lock, a: Owner, b: Owner
    ) -> None:
        block = lock.enter(a, frame=1)
        block.state.mark_lost(TAKEN)
        lock.take(b)
        assert lock.leave(a, frame=1) is block

    @pytest.mark.parametrize("tries", [0, 2])
    def test_a_caller_that_was_interrupted_has_no_lease(
        self, lock: Lock, a: Owner, tries: int
    ) -> None:
        """The fault: it kept that of a later attempt over a quorum."""
        lease = lock.take(a)
        holder = lease.state.holder
        lease.state.holder = attempt_id(holder, tries)
        lock.ownership.forget(holder)
        assert lock.release(a) is None


def test_a_forked_childs_copies_are_neither_held_nor_lost(lock: Lock, a: Owner) -> None:
    block = lock.enter(a, frame=1)
    block.state.mark_inherited()
    assert lock.ownership.held_by(a, NOW) is None
    assert lock.release(a) is None
    assert lock.leave(a, frame=1) is block, "and leaving it does nothing, then"


def test_little_is_kept_of_owners_that_have_ended(lock: Lock) -> None:
    def references() -> int:
        gc.collect()
        return sum(type(each) is ref for each in gc.get_objects())

    before = references()
    for _ in range(1000):
        owner = Owner()
        lock.take(owner)
        assert lock.release(owner)
    assert references() < before + 200
