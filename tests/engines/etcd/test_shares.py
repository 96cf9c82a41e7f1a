"""Semaphores and read locks: who is woken, what is sent, and clients of the first release."""

from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import holdfast
from holdfast.core.messages import Held
from holdfast.engines.etcd import locks
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

pytestmark = pytest.mark.slow

DOOR = b"holdfast:door\0lock\0"


class OldClient:
    """Does what a client of the first release does for a waiter, which knows of no shares."""

    def __init__(self, server: EtcdServer) -> None:
        self._server = server
        lease = server.command("lease/grant", TTL=60)["ID"]
        key, value = encoded(DOOR + b"0123456789abcdef.0"), encoded(b"host/1/old")
        put = server.command("kv/put", key=key, value=value, lease=lease)
        self._lease, self._key, self.fence = lease, key, int(put["header"]["revision"])

    def holds(self) -> bool:
        """Whether its place is the first."""
        queue = {"key": encoded(DOOR), "range_end": encoded(DOOR[:-1] + b"\1")}
        order = {"sort_target": "CREATE", "sort_order": "ASCEND", "limit": 1}
        [first] = self._server.command("kv/range", **queue, **order)["kvs"]
        return bool(first["key"] == self._key)

    def leave(self) -> None:
        self._server.command("lease/revoke", ID=self._lease)


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


@pytest.fixture
def clients(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[holdfast.Client, ...]]:
    """Three, none of which asks again because time has passed."""
    monkeypatch.setattr(locks, "HELD", Held(600.0, wakes=True))
    with ExitStack() as stack:
        yield tuple(stack.enter_context(holdfast.Client(server.url)) for _ in range(3))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def get(lock: Any) -> Any:
    lease = lock.acquire(blocking=False)
    assert lease, "there was room"
    return lease


def waits(pool: ThreadPoolExecutor, eye: holdfast.Client, lock: Any, place: int) -> Future[Any]:
    """One more waiter, which is in that place of the queue now, and will give up in a while."""
    waiting = pool.submit(lock.acquire, timeout=30)
    wait_for(lambda: (info := eye.inspect("door")) is not None and info.waiters == place)
    return waiting


def test_a_client_of_the_first_release_excludes_all_others(
    server: EtcdServer, clients: tuple[holdfast.Client, ...], pool: ThreadPoolExecutor
) -> None:
    ann, ben, cleo = clients
    old = OldClient(server)
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
    server: EtcdServer, clients: tuple[holdfast.Client, ...], pool: ThreadPoolExecutor
) -> None:
    ann, ben, cleo = clients
    one, two = get(ann.rwlock("door").read), get(ben.rwlock("door").read)
    old = OldClient(server)
    assert cleo.rwlock("door").read.acquire(blocking=False) is None, "the old one came before"
    info = cleo.inspect("door")
    assert info
    assert ([member.holder for member in info.members], info.waiters) == (
        [one.holder, two.holder],
        1,
    )
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
    clients: tuple[holdfast.Client, ...], pool: ThreadPoolExecutor, first_to_go: int
) -> None:
    leases = [get(client.semaphore("door", 2)) for client in clients[:2]]
    waiting = waits(pool, clients[0], clients[2].semaphore("door", 2), 1)
    leases.pop(first_to_go).release()
    leases.append(waiting.result(30))
    for lease in leases:
        lease.release()


def test_all_slots_that_become_free_are_used(
    server: EtcdServer, clients: tuple[holdfast.Client, ...], pool: ThreadPoolExecutor
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
    assert server.keys() == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_writer_waits_for_all_readers(
    clients: tuple[holdfast.Client, ...], pool: ThreadPoolExecutor, order: tuple[int, ...]
) -> None:
    reads = [get(client.rwlock("door").read) for client in clients]
    writing = waits(pool, clients[0], clients[1].rwlock("door").write, 1)
    for number in order:
        assert not writing.done()
        reads[number].release()
    writing.result(30).release()


def test_a_share_of_a_held_lock_is_refused_without_a_trace(
    server: EtcdServer, clients: tuple[holdfast.Client, ...]
) -> None:
    ann, ben, _ = clients
    lease = get(ann.semaphore("door", 2))
    keys = server.keys()
    for lock in (ben.rwlock("door").read, ben.semaphore("door", 3), ben.lock("door")):
        assert lock.acquire(blocking=False) is None
        assert server.keys() == keys
    get(ben.semaphore("door", 2)).release()
    lease.release()


def test_a_read_lock_is_one_transaction_whoever_reads(
    server: EtcdServer, clients: tuple[holdfast.Client, ...]
) -> None:
    """And so is one slot of a free semaphore: no more than an exclusive lock."""
    ann, ben, _ = clients
    with ann.rwlock("door").read, ben.rwlock("door").read:  # and sessions are open
        before = server.calls("Txn")
        read, slot = get(ben.rwlock("door").read), get(ben.semaphore("gate", 2))
        assert server.calls("Txn") == before + 2
        for lease in (read, slot):
            lease.release()


def test_many_who_try_at_once_never_exceed_the_slots(
    server: EtcdServer, pool: ThreadPoolExecutor
) -> None:
    with ExitStack() as stack:
        crowd = [stack.enter_context(holdfast.Client(server.url)) for _ in range(6)]
        for number in range(5):
            locks = [client.semaphore(f"door {number}", 3) for client in crowd]
            tries = list(pool.map(lambda lock: lock.acquire(blocking=False), locks))
            leases = [lease for lease in tries if lease is not None]
            assert len(leases) == 3
            for lease in leases:
                lease.release()
