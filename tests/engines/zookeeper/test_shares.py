"""Semaphores and read locks: what every engine with a queue does, and what is found again."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

import holdfast
from holdfast.core.messages import Held
from holdfast.engines.zookeeper import locks
from tests.engines.queue_shares import Clients, QueueShares, get, race
from tests.engines.zookeeper.glimpse import LOCKS, outsider, places
from tests.equipment.servers.proxy import Proxy
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

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
    monkeypatch.setattr(locks, "HELD", Held(600.0, wakes=True))
    with ExitStack() as stack:
        yield tuple(stack.enter_context(holdfast.Client(server.url, ttl=20)) for _ in range(3))


@pytest.fixture
def eye(server: ZooKeeperServer) -> Iterator[KazooClient]:
    with outsider(server) as eye:
        yield eye


class ZooKeeperQueue:
    """The queue for the lock `door`, from outside."""

    def __init__(self, eye: KazooClient) -> None:
        self._eye = eye

    def places(self) -> Sequence[object]:
        return places(self._eye, "door")

    def join(self) -> OldClient:
        return OldClient(self._eye)


@pytest.fixture
def queue(eye: KazooClient) -> ZooKeeperQueue:
    return ZooKeeperQueue(eye)


class TestShares(QueueShares):
    """What is true on every engine with a queue; and here:"""

    def test_many_who_try_at_once_get_all_slots_and_no_more(
        self, server: ZooKeeperServer, pool: ThreadPoolExecutor
    ) -> None:
        with ExitStack() as stack:
            crowd = [stack.enter_context(holdfast.Client(server.url, ttl=20)) for _ in range(6)]
            race(crowd, pool, rounds=3)

    def test_a_try_of_another_kind_refuses_no_reader(
        self,
        clients: Clients,
        eye: KazooClient,
        pool: ThreadPoolExecutor,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A writer that tries once has a place for a moment: a reader looks again then."""
        monkeypatch.setattr(locks, "OLD_ENOUGH", 600.0)
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

    def test_a_share_whose_reply_was_lost_is_found_again(
        self, server: ZooKeeperServer, eye: KazooClient, pool: ThreadPoolExecutor
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
