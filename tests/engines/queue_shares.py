"""Semaphores and read locks on the engines with a queue of places: who is woken, and clients of the
first release. `test_shares` of each engine has the fixtures."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import pytest

import holdfast
from tests.patience import wait_for

Clients = tuple[holdfast.Client, ...]


class OldClient(Protocol):
    """Does what a client of the first release does for a waiter, which knows of no shares."""

    fence: int

    def holds(self) -> bool: ...
    def leave(self) -> None: ...


class Queue(Protocol):
    """The queue for the lock `door`, from outside."""

    def places(self) -> Sequence[object]: ...
    def join(self) -> OldClient: ...


def get(lock: Any) -> Any:
    lease = lock.acquire(blocking=False)
    assert lease, "there was room"
    return lease


def waits(pool: ThreadPoolExecutor, watcher: holdfast.Client, lock: Any, place: int) -> Future[Any]:
    """One more waiter, which is in that place of the queue now, and will give up in a while."""
    waiting = pool.submit(lock.acquire, timeout=30)
    wait_for(lambda: (info := watcher.inspect("door")) is not None and info.waiters == place)
    return waiting


def race(crowd: list[holdfast.Client], pool: ThreadPoolExecutor, rounds: int) -> None:
    """Many try at once: they get all slots, and no more."""
    for number in range(rounds):
        locks = [client.semaphore(f"door {number}", 3) for client in crowd]
        tries = list(pool.map(lambda lock: lock.acquire(blocking=False), locks))
        leases = [lease for lease in tries if lease is not None]
        assert len(leases) == 3
        for lease in leases:
            lease.release()


class QueueShares:
    """With three `clients`, none of which asks again because time has passed."""

    @pytest.fixture
    def pool(self) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(8) as pool:
            yield pool

    def test_a_client_of_the_first_release_excludes_all_others(
        self, clients: Clients, queue: Queue, pool: ThreadPoolExecutor
    ) -> None:
        ann, ben, cleo = clients
        old = queue.join()
        assert old.holds()
        read, slot = ann.rwlock("door").read, ben.semaphore("door", 2)
        for lock in (read, slot):
            assert lock.acquire(blocking=False) is None
        reading = waits(pool, cleo, read, 1)
        info = cleo.inspect("door")
        assert info
        assert (info.holder, info.shares, info.fence) == ("host/1/old", 1, old.fence)
        old.leave()
        lease = reading.result(30)
        assert lease.fence > old.fence
        lease.release()

    def test_a_client_of_the_first_release_waits_for_all_readers(
        self, clients: Clients, queue: Queue, pool: ThreadPoolExecutor
    ) -> None:
        ann, ben, cleo = clients
        one, two = get(ann.rwlock("door").read), get(ben.rwlock("door").read)
        old = queue.join()
        assert cleo.rwlock("door").read.acquire(blocking=False) is None, "the old one came before"
        info = cleo.inspect("door")
        assert info
        assert [member.holder for member in info.members] == [one.holder, two.holder]
        assert info.waiters == 1
        three = waits(pool, ben, cleo.rwlock("door").read, 2)
        two.release()  # the one that it watches
        assert not old.holds()
        one.release()
        assert old.holds()
        assert not three.done()
        old.leave()
        last = three.result(30)
        assert last.fence > old.fence > two.fence > one.fence
        last.release()

    @pytest.mark.parametrize("first_to_go", [0, 1])
    def test_a_slot_goes_to_the_next_whoever_leaves(
        self, clients: Clients, pool: ThreadPoolExecutor, first_to_go: int
    ) -> None:
        leases = [get(client.semaphore("door", 2)) for client in clients[:2]]
        waiting = waits(pool, clients[0], clients[2].semaphore("door", 2), 1)
        leases.pop(first_to_go).release()
        leases.append(waiting.result(30))
        for lease in leases:
            lease.release()

    def test_all_slots_that_become_free_are_used(
        self, clients: Clients, queue: Queue, pool: ThreadPoolExecutor
    ) -> None:
        ann, ben, cleo = clients
        held = [get(ann.semaphore("door", 3)) for _ in range(3)]
        waiting = [waits(pool, cleo, ben.semaphore("door", 3), place) for place in (1, 2, 3, 4)]
        held[1].release()
        first = waiting[0].result(30)
        held[2].release()
        second = waiting[1].result(30)
        assert not any(each.done() for each in waiting[2:])
        for lease in (held[0], first, second):
            lease.release()
        for each in waiting[2:]:
            each.result(30).release()
        assert not queue.places()

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
    def test_a_writer_waits_for_all_readers(
        self, clients: Clients, pool: ThreadPoolExecutor, order: tuple[int, ...]
    ) -> None:
        reads = [get(client.rwlock("door").read) for client in clients]
        writing = waits(pool, clients[0], clients[1].rwlock("door").write, 1)
        for number in order:
            assert not writing.done()
            reads[number].release()
        writing.result(30).release()

    def test_a_share_of_a_held_lock_is_refused_without_a_trace(
        self, clients: Clients, queue: Queue
    ) -> None:
        ann, ben, _ = clients
        lease = get(ann.semaphore("door", 2))
        there = queue.places()
        for lock in (ben.rwlock("door").read, ben.semaphore("door", 3), ben.lock("door")):
            assert lock.acquire(blocking=False) is None
            assert queue.places() == there
        get(ben.semaphore("door", 2)).release()
        lease.release()
