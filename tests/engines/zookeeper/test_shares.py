"""Semaphores and read locks: who is woken, what is found again, and first-release clients."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

import holdfast
from holdfast.engines.zookeeper import locks
from tests.engines.zookeeper.glimpse import LOCKS, outsider, places
from tests.equipment.servers.proxy import Proxy
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

Clients = tuple[holdfast.Client, ...]

QUEUE = f"{LOCKS}door"


class OldClient:
    """Does what a client of the first release does for a waiter, which knows of no shares."""

    def __init__(self, eye: KazooClient) -> None:
        self._eye = eye
        self._place, stat = eye.create(
            f"{QUEUE}/1f_old_w",
            b"20 0 host/1/old",
            ephemeral=True,
            sequence=True,
            makepath=True,
            include_data=True,
        )
        self.fence = stat.czxid

    def holds(self) -> bool:
        """Whether its place is the first of those whose names it can read."""
        queue = {}
        for name in places(self._eye, "door"):
            session, _, rest = name.partition("_")
            secret, _, number = rest.rpartition("_")
            assert int(session, 16)
            assert secret
            queue[int(number.removeprefix("w"))] = f"{QUEUE}/{name}"
        return bool(queue[min(queue)] == self._place)

    def leave(self) -> None:
        self._eye.delete(self._place)


@pytest.fixture
def clients(server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """Three, none of which asks again because time has passed."""
    monkeypatch.setattr(locks, "BACKSTOP", 600.0)
    with ExitStack() as stack:
        yield tuple(stack.enter_context(holdfast.Client(server.url, ttl=20)) for _ in range(3))


@pytest.fixture
def eye(server: ZooKeeperServer) -> Iterator[KazooClient]:
    with outsider(server) as eye:
        yield eye


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def get(lock: Any) -> Any:
    lease = lock.acquire(blocking=False)
    assert lease, "there was room"
    return lease


def waits(pool: ThreadPoolExecutor, watcher: holdfast.Client, lock: Any, place: int) -> Future[Any]:
    """One more waiter, which is in that place of the queue now, and will give up in a while."""
    waiting = pool.submit(lock.acquire, timeout=30)
    wait_for(lambda: (info := watcher.inspect("door")) is not None and info.waiters == place)
    return waiting


def test_a_client_of_the_first_release_excludes_all_others(
    clients: Clients, eye: KazooClient, pool: ThreadPoolExecutor
) -> None:
    ann, ben, cleo = clients
    old = OldClient(eye)
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
    clients: Clients, eye: KazooClient, pool: ThreadPoolExecutor
) -> None:
    ann, ben, cleo = clients
    one, two = get(ann.rwlock("door").read), get(ben.rwlock("door").read)
    old = OldClient(eye)
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
    clients: Clients, pool: ThreadPoolExecutor, first_to_go: int
) -> None:
    leases = [get(client.semaphore("door", 2)) for client in clients[:2]]
    waiting = waits(pool, clients[0], clients[2].semaphore("door", 2), 1)
    leases.pop(first_to_go).release()
    leases.append(waiting.result(30))
    for lease in leases:
        lease.release()


def test_all_slots_that_become_free_are_used(
    clients: Clients, eye: KazooClient, pool: ThreadPoolExecutor
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
    assert places(eye, "door") == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_writer_waits_for_all_readers(
    clients: Clients, pool: ThreadPoolExecutor, order: tuple[int, ...]
) -> None:
    reads = [get(client.rwlock("door").read) for client in clients]
    writing = waits(pool, clients[0], clients[1].rwlock("door").write, 1)
    for number in order:
        assert not writing.done()
        reads[number].release()
    writing.result(30).release()


def test_a_share_of_a_held_lock_is_refused_without_a_trace(
    clients: Clients, eye: KazooClient
) -> None:
    ann, ben, _ = clients
    lease = get(ann.semaphore("door", 2))
    there = places(eye, "door")
    for lock in (ben.rwlock("door").read, ben.semaphore("door", 3), ben.lock("door")):
        assert lock.acquire(blocking=False) is None
        assert places(eye, "door") == there
    get(ben.semaphore("door", 2)).release()
    lease.release()


def test_a_try_of_another_kind_refuses_no_reader(
    clients: Clients, eye: KazooClient, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that tries once has a place for a moment: a reader looks again until it is gone."""
    monkeypatch.setattr(locks, "SETTLED", 600.0)
    made = {"ephemeral": True, "sequence": True}
    reader = eye.create(f"{QUEUE}/1f_reader=0_w", b"20 0 reader", makepath=True, **made)
    writer = eye.create(f"{QUEUE}/1f_writer_", b"20 0 writer", **made)
    trying = pool.submit(clients[0].rwlock("door").read.acquire, blocking=False)
    wait_for(lambda: len(places(eye, "door")) == 3)
    eye.delete(writer)
    lease = trying.result(30)
    assert lease
    assert clients[1].lock("door").acquire(blocking=False) is None
    lease.release()
    eye.delete(reader)


def test_many_who_try_at_once_get_all_slots_and_no_more(
    server: ZooKeeperServer, pool: ThreadPoolExecutor
) -> None:
    with ExitStack() as stack:
        crowd = [stack.enter_context(holdfast.Client(server.url, ttl=20)) for _ in range(6)]
        for number in range(3):
            each_lock = [client.semaphore(f"door {number}", 3) for client in crowd]
            tries = list(pool.map(lambda lock: lock.acquire(blocking=False), each_lock))
            leases = [lease for lease in tries if lease is not None]
            assert len(leases) == 3
            for lease in leases:
                lease.release()


def test_a_share_that_moves_to_a_longer_session_is_still_a_share(clients: Clients) -> None:
    ann, ben, _ = clients
    lease = get(ann.rwlock("door", ttl=10, renew=False).read)
    lease.extend(ttl=30)
    info = ben.inspect("door")
    assert info
    assert (info.holder, info.shares, info.fence) == (lease.holder, 0, lease.fence)
    assert ben.lock("door").acquire(blocking=False) is None
    get(ben.rwlock("door").read).release()
    lease.release()


def test_a_share_whose_reply_was_lost_is_found_again(
    server: ZooKeeperServer, eye: KazooClient, pool: ThreadPoolExecutor
) -> None:
    with Proxy(server.port) as proxy:
        url = f"zookeeper://{proxy.address}?tick=2&max_ttl=120"
        with holdfast.Client(url, ttl=20) as client:
            slot = client.semaphore("door", 2)
            kept = get(slot)  # connected from here on
            proxy.lose_replies()
            asking = pool.submit(slot.acquire)
            wait_for(lambda: len(places(eye, "door")) == 2)
            proxy.heal()
            lease = asking.result(20)
            assert lease
            assert len(places(eye, "door")) == 2
            assert slot.acquire(blocking=False) is None
            assert lease.fence > kept.fence
            lease.release()
            kept.release()
            assert not places(eye, "door")
