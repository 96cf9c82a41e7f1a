"""The queue of those who wait: its order, its watches, its session."""

import threading
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

import holdfast
from holdfast.core.messages import Acquire, Granted, Held, Release
from holdfast.engines.etcd import locks
from holdfast.lab.servers.process import free_port
from tests.contract.interrupting import Interruption
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import ask, store_on

pytestmark = pytest.mark.slow


@pytest.fixture
def client(server: EtcdServer) -> Iterator[holdfast.Client]:
    with holdfast.Client(server.url) as client:
        yield client


def waiters(client: holdfast.Client, name: str) -> int:
    info = client.inspect(name)
    return 0 if info is None else info.waiters or 0


def queue_up(client: holdfast.Client, count: int, served: list[int]) -> list[threading.Thread]:
    """Threads that wait for the door one after the other."""

    def wait(number: int) -> None:
        with client.lock("door"):
            served.append(number)

    threads = []
    for number in range(count):
        thread = threading.Thread(target=wait, args=(number,))
        thread.start()
        threads.append(thread)
        wait_for(lambda: waiters(client, "door") == len(threads))
    return threads


@pytest.mark.parametrize("line", range(5))
def test_a_waiter_is_woken_although_the_one_before_it_was_interrupted(
    server: EtcdServer, client: holdfast.Client, line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a Ctrl-C while the threads that wake waiters were being started."""
    monkeypatch.setattr(locks, "HELD", Held(600.0, wakes=True))
    interruption = Interruption(line, ("etcd/threads.py",), functions=("_watch", "start"))
    with holdfast.Client(server.url) as other, other.lock("door"):
        with pytest.raises(KeyboardInterrupt), interruption:
            client.lock("door").acquire(timeout=30)
        served: list[int] = []
        threads = queue_up(client, 1, served)
    wait_for(lambda: served)
    for thread in threads:
        thread.join()


def test_a_newcomer_does_not_overtake_a_waiter(client: holdfast.Client) -> None:
    served: list[int] = []
    with client.lock("door"):
        [thread] = queue_up(client, 1, served)
        with holdfast.Client(client.url) as other:
            assert other.lock("door").acquire(blocking=False) is None
    thread.join()


ABOUT_A_QUEUE = ("Txn", "LeaseGrant", "LeaseRevoke", "Watch")
"""Methods that are called because something happens, and not because time passes."""

PER_HAND_OFF = 8
"""It takes two transactions: a place is deleted, and the next one is confirmed. On a machine that
stands still for long, a session may have to be opened anew, and then all waiters join again."""


@pytest.mark.parametrize("crowd", [5, 20])
def test_a_hand_off_takes_as_many_messages_however_many_wait(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch, crowd: int
) -> None:
    monkeypatch.setattr(locks, "HELD", Held(600.0, wakes=True))  # none asks as time has passed

    def messages() -> int:
        return sum(server.messages(method) for method in ABOUT_A_QUEUE)

    with holdfast.Client(server.url) as client, ThreadPoolExecutor(crowd) as pool:
        lease = client.lock("door").acquire()
        assert lease
        watches = server.messages("Watch") + crowd
        waiting = [pool.submit(client.lock("door").acquire) for _ in range(crowd)]
        wait_for(lambda: len(server.keys()) == crowd + 1 and server.messages("Watch") >= watches)
        before = messages()
        lease.release()
        for done in as_completed(waiting):
            turn = done.result()
            assert turn
            turn.release()
        assert (messages() - before) / crowd <= PER_HAND_OFF


def test_a_compaction_harms_nobody(server: EtcdServer, client: holdfast.Client) -> None:
    served: list[int] = []
    with client.lock("door"):
        threads = queue_up(client, 3, served)
        server.command("kv/put", key="eA==", value="eA==")
        server.compact()
    for thread in threads:
        thread.join(20)
    assert served == [0, 1, 2]


def test_a_server_that_restarts_while_somebody_waits(
    server: EtcdServer, client: holdfast.Client
) -> None:
    served: list[int] = []
    lease = client.lock("door", ttl=60).acquire()
    assert lease
    threads = queue_up(client, 3, served)
    server.restart()
    wait_for(lambda: waiters(client, "door") == 3)
    lease.release()
    for thread in threads:
        thread.join(30)
    assert served == [0, 1, 2], "they kept their places"


def test_who_lost_its_place_does_not_hold_the_lock(server: EtcdServer) -> None:
    """The place before is gone, but so is its own; and another client was faster."""
    with store_on(server) as store, store_on(server) as other:
        ask(other, Acquire("door", "ann", 30))
        assert isinstance(ask(store, Acquire("door", "ben", 30, queue=True)), Held)
        [mine] = [lease for lease in server.leases() if lease not in leases_of(server, "ann")]
        server.command("lease/revoke", ID=str(mine))
        ask(other, Release("door", "ann"))
        cleo = ask(other, Acquire("door", "cleo", 30))
        assert isinstance(cleo, Granted)

        assert isinstance(ask(store, Acquire("door", "ben", 30, queue=True)), Held)
        ask(other, Release("door", "cleo"))
        ben = ask(store, Acquire("door", "ben", 30, queue=True))
        assert isinstance(ben, Granted)
        assert ben.fence > cleo.fence


def leases_of(server: EtcdServer, holder: str) -> set[int]:
    """The etcd leases that this holder's keys are attached to."""
    found = server.command("kv/range", key="AA==", range_end="AA==").get("kvs", [])
    wanted = b64encode(holder.encode()).decode()
    return {int(each["lease"]) for each in found if each["value"] == wanted}


def test_a_broken_waiter_queues_again(server: EtcdServer, client: holdfast.Client) -> None:
    served: list[int] = []
    lease = client.lock("door").acquire()
    assert lease
    threads = queue_up(client, 2, served)
    assert client.break_lock("door")
    for thread in threads:
        thread.join(20)
    assert served == [0, 1]
    with pytest.raises(holdfast.LockLost):
        lease.release()


def test_a_lock_is_broken_although_the_first_member_is_down(
    server: EtcdServer, client: holdfast.Client
) -> None:
    lease = client.lock("door").acquire()
    assert lease
    with holdfast.Client(f"etcd://127.0.0.1:{free_port()},{server.address}") as other:
        assert other.break_lock("door")
    with pytest.raises(holdfast.LockLost):
        lease.extend()
