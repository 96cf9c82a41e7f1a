"""Semaphores and read locks: what every engine with a queue does, and how much is sent."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import holdfast
from holdfast.core.messages import Held
from holdfast.engines.etcd import locks
from tests.engines.queue_shares import Clients, QueueShares, get, race
from tests.equipment.servers.etcd import EtcdServer

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
def clients(server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """Three, none of which asks again because time has passed."""
    monkeypatch.setattr(locks, "HELD", Held(600.0, wakes=True))
    with ExitStack() as stack:
        yield tuple(stack.enter_context(holdfast.Client(server.url)) for _ in range(3))


class EtcdQueue:
    """The queue for the lock `door`, from outside."""

    def __init__(self, server: EtcdServer) -> None:
        self._server = server

    def places(self) -> Sequence[object]:
        return self._server.keys()

    def join(self) -> OldClient:
        return OldClient(self._server)


@pytest.fixture
def queue(server: EtcdServer) -> EtcdQueue:
    return EtcdQueue(server)


class TestShares(QueueShares):
    """What is true on every engine with a queue; and here:"""

    def test_many_who_try_at_once_get_all_slots_and_no_more(
        self, server: EtcdServer, pool: ThreadPoolExecutor
    ) -> None:
        with ExitStack() as stack:
            crowd = [stack.enter_context(holdfast.Client(server.url)) for _ in range(6)]
            race(crowd, pool, rounds=5)


def test_a_read_lock_is_one_transaction_whoever_reads(server: EtcdServer, clients: Clients) -> None:
    """And so is one slot of a free semaphore: no more than an exclusive lock."""
    ann, ben, _ = clients
    with ann.rwlock("door").read, ben.rwlock("door").read:  # and sessions are open
        before = server.calls("Txn")
        read, slot = get(ben.rwlock("door").read), get(ben.semaphore("gate", 2))
        assert server.calls("Txn") == before + 2
        for lease in (read, slot):
            lease.release()
