"""The queue of those who wait: its order, its watches, its session."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from holdfast.core.messages import Acquire, Answer, Granted, Held, Release
from holdfast.drivers.surroundings import clock
from holdfast.lab.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import store_on

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


def test_waiters_are_served_in_the_order_of_their_arrival(client: holdfast.Client) -> None:
    served: list[int] = []
    with client.lock("door"):
        threads = queue_up(client, 8, served)
    for thread in threads:
        thread.join()
    assert served == list(range(8))


def test_a_newcomer_does_not_overtake_a_waiter(client: holdfast.Client) -> None:
    served: list[int] = []
    with client.lock("door"):
        [thread] = queue_up(client, 1, served)
        with holdfast.Client(client.url) as other:
            assert other.lock("door").acquire(blocking=False) is None
    thread.join()


@pytest.mark.parametrize("crowd", [2, 20])
def test_a_hand_over_takes_as_many_calls_however_many_wait(server: EtcdServer, crowd: int) -> None:
    with holdfast.Client(server.url) as holder, holdfast.Client(server.url) as others:
        lease = holder.lock("door").acquire()
        assert lease
        taken = threading.Event()
        go_on = threading.Event()

        def wait() -> None:
            with others.lock("door"):
                taken.set()
                go_on.wait()

        with ThreadPoolExecutor(crowd) as pool:
            waiting = [pool.submit(wait) for _ in range(crowd)]
            wait_for(lambda: waiters(holder, "door") == crowd)
            before = server.calls()
            lease.release()
            assert taken.wait(10)
            # Revoke, grant and confirm; and at the most two keep-alives of the session, one look
            # at the leases there are, and one at these very numbers.
            assert server.calls() - before <= 6
            go_on.set()
            for each in waiting:
                each.result()


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
    """The one before it is gone, but so is its own key; and somebody else was faster."""
    with store_on(server) as store:

        def ask(request: Acquire | Release) -> Answer:
            return store.ask((request,), clock() + 10)[0]

        ask(Acquire("door", "ann", 30))
        assert isinstance(ask(Acquire("door", "ben", 30, queue=True)), Held)
        session = store._books.session
        assert session is not None
        server.command("lease/revoke", ID=str(session.lease))
        ask(Release("door", "ann"))
        wait_for(lambda: store._books.stakes["ben"].called)
        cleo = ask(Acquire("door", "cleo", 30))
        assert isinstance(cleo, Granted)

        assert isinstance(ask(Acquire("door", "ben", 30, queue=True)), Held)
        ask(Release("door", "cleo"))
        wait_for(lambda: store._books.stakes["ben"].called)
        ben = ask(Acquire("door", "ben", 30, queue=True))
        assert isinstance(ben, Granted)
        assert ben.fence > cleo.fence


def test_the_session_ends_when_nobody_waits(server: EtcdServer, client: holdfast.Client) -> None:
    with client.lock("door"):
        assert client.lock("door").acquire(timeout=0.2) is None
        assert len(server.leases()) == 2
    wait_for(lambda: not server.leases())


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
