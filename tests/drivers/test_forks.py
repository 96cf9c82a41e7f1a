"""A forked child has no part in what its parent holds, and starts anew."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Client, NotHeld
from holdfast.core.messages import Extend
from tests.children import in_child
from tests.drivers.line import Line, Stop


@pytest.fixture
def client(line: Line, tmp_path: Path) -> Iterator[Client]:
    with Client(f"sqlite://{tmp_path}/locks.db") as made:
        yield made


def test_the_childs_copy_of_a_lease_is_neither_held_nor_lost(client: Client) -> None:
    lock = client.lock("job")
    with lock as lease:

        def child() -> None:
            assert (lease.held, lease.lost, lease.remaining()) == (False, False, 0.0)
            for call in (lease.release, lease.extend, lease.ensure_held):
                with pytest.raises(NotHeld, match="forked"):
                    call()
            with pytest.raises(NotHeld):
                lock.release()
            assert threading.active_count() == 1

        in_child(child)
        assert lease.held
        assert client.inspect("job") is not None
    assert client.inspect("job") is None


def test_also_while_the_renewer_has_it_in_hand(line: Line, client: Client) -> None:
    line.before = stop = Stop(Extend)
    with client.lock("job", ttl=6.0) as lease:
        assert stop.reached.wait(60)

        def child() -> None:
            with pytest.raises(NotHeld, match="forked"):
                lease.release()
            assert not lease.held

        in_child(child)
        stop.go_on.set()
        lease.extend()


def test_also_while_another_thread_has_the_mutex(client: Client) -> None:
    with client.lock("job") as lease:
        taken, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            with client._driver.runtime.mutex:
                taken.set()
                go_on.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        taken.wait(60)

        def child() -> None:
            with pytest.raises(NotHeld, match="forked"):
                lease.release()
            with client.lock("child", timeout=0):
                pass

        in_child(child)
        go_on.set()
        thread.join()


def test_a_child_can_use_the_client_for_itself(client: Client) -> None:
    with client.lock("parent"):

        def child() -> None:
            assert client.lock("parent").acquire(timeout=0) is None
            lease = client.lock("child").acquire(timeout=0)
            assert lease is not None
            assert f"/{os.getpid()}/" in lease.holder
            client.close()

        in_child(child)
        assert client.inspect("child") is None
        assert client.inspect("parent") is not None
    assert client.inspect("parent") is None


def test_a_child_that_leaves_the_block_or_closes_does_not_release(client: Client) -> None:
    lock = client.lock("job")
    with lock as lease:
        in_child(lambda: lock.__exit__(None, None, None))
        in_child(client.close)
        assert lease.held
        assert client.inspect("job") is not None


def test_a_closed_client_is_closed_in_the_child_too(client: Client) -> None:
    client.close()

    def child() -> None:
        client.close()
        assert client.closed

    in_child(child)


def test_no_connection_is_carried_into_a_child(client: Client, tmp_path: Path) -> None:
    """SQLite would believe that the child has the file locks that only its parent has."""
    with client.lock("job"):

        def child() -> None:
            links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
            opened = [os.readlink(link) for link in links if os.path.exists(link)]
            assert not [name for name in opened if name.startswith(f"{tmp_path}/locks.db")]

        in_child(child)
