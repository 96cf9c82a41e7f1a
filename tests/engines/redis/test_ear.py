"""How threads hear the wake-ups of a single server, and what becomes of those that are lost."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from holdfast import Client, Lease, LockError
from holdfast.core.messages import Acquire, Release
from holdfast.drivers.surroundings import clock
from holdfast.engines.redis.blocking import RedisStore
from holdfast.engines.redis.phrases import command
from holdfast.lab.servers.redis import RedisServer
from tests.children import in_child
from tests.engines.redis.party import HANGS_AFTER, Bare
from tests.patience import wait_for

OTHER = "host/1/program/other"


@pytest.fixture
def client(server: RedisServer) -> Iterator[Client]:
    with Client(server.url, prefix="", ttl=60) as made:
        yield made


@pytest.fixture
def other(server: RedisServer) -> Iterator[Bare]:
    """Holds the lock `job` for so long that nobody gets it by waiting for its end."""
    connection = Bare(server, quorum=False)
    connection.ask(Acquire("job", OTHER, 600.0))
    yield connection
    connection.close()


def begin(client: Client, name: str = "job") -> "Future[Lease | None]":
    """Wait for a lock in another thread."""
    outcome: Future[Lease | None] = Future()

    def run() -> None:
        try:
            outcome.set_result(client.lock(name).acquire(timeout=HANGS_AFTER))
        except LockError as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="waiter", daemon=True).start()
    return outcome


def wait_for_waiters(client: Client, count: int, name: str = "job") -> None:
    wait_for(lambda: (info := client.inspect(name)) and info.waiters == count)


def take_turns(waiting: "list[Future[Lease | None]]") -> None:
    """Each gets the lock, and gives it back."""
    left = list(waiting)
    while left:
        wait_for(lambda: any(each.done() for each in left))
        [done] = [each for each in left if each.done()]
        lease = done.result()
        assert lease
        lease.release()
        left.remove(done)


def store_of(client: Client) -> RedisStore:
    store = client._driver._store
    assert isinstance(store, RedisStore)
    return store


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-")]


def test_a_wake_up_that_was_lost_with_the_connection_is_made_up_for(
    client: Client, other: Bare
) -> None:
    """Those who wait are cut off, and before they are back, the lock is given back to nobody."""
    waiting = [begin(client) for _ in range(3)]
    wait_for_waiters(client, 3)
    [release] = other.speech.phrase((Release("job", OTHER),)).commands
    other._socket.sendall(command(b"CLIENT", b"KILL", b"TYPE", b"pubsub") + release)
    assert [other.reply(), other.reply()] == [1, 1]
    take_turns(waiting)


def test_one_who_is_yet_to_be_answered_counts_as_one_who_waits(
    server: RedisServer, client: Client, other: Bare
) -> None:
    """The connection may be lost, and be back, between its answer and its wait."""
    client.inspect("job")  # connects
    store = store_of(client)
    server.freeze()
    asking = threading.Thread(
        target=store.ask, args=((Acquire("job", "me", 60.0, queue=True),), clock() + HANGS_AFTER)
    )
    asking.start()
    wait_for(lambda: "me" in store._fleet.waiting)
    server.thaw()
    asking.join()
    assert "me" in store._fleet.waiting
    store.ask((Release("job", "me"),), clock() + HANGS_AFTER)
    assert store._fleet.waiting == set()


def test_a_server_that_takes_no_subscription_is_asked_again(
    server: RedisServer, client: Client, other: Bare
) -> None:
    server.command("ACL", "LOG", "RESET")
    server.command("ACL", "SETUSER", "default", "-subscribe")
    try:
        waiting = begin(client)
        wait_for(lambda: server.command("ACL", "LOG"))
    finally:
        server.command("ACL", "SETUSER", "default", "+subscribe")
    wait_for_waiters(client, 1)
    other.ask(Release("job", OTHER))
    lease = waiting.result(HANGS_AFTER)
    assert lease
    lease.release()


def test_closing_reaches_all_who_wait_and_leaves_nothing(server: RedisServer, other: Bare) -> None:
    with Client(server.url, prefix="") as watcher:
        before, connected = threads_of_ours(), connections(server)
        client = Client(server.url, prefix="", ttl=60)
        waiting = [begin(client) for _ in range(3)]
        wait_for_waiters(watcher, 3)
        client.close()
        for each in waiting:
            with pytest.raises(LockError, match="closed"):
                each.result(HANGS_AFTER)
        assert threads_of_ours() == before
        wait_for(lambda: connections(server) <= connected + 1)  # the watcher's
        wait_for_waiters(watcher, 0)


def connections(server: RedisServer) -> int:
    return int(server.info("clients")["connected_clients"])


def test_a_child_may_be_forked_after_a_client_was_closed(server: RedisServer, other: Bare) -> None:
    client = Client(server.url, prefix="", ttl=60)
    waiting = begin(client)
    wait_for_waiters(client, 1)
    client.close()
    with pytest.raises(LockError, match="closed"):
        waiting.result(HANGS_AFTER)
    in_child(lambda: client._driver._store.forget())


def test_a_forked_child_hears_for_itself(client: Client, other: Bare) -> None:
    other.ask(Acquire("another", OTHER, 600.0))
    waiting = begin(client)
    wait_for_waiters(client, 1)
    [ear] = store_of(client)._ears
    parents = os.readlink(f"/proc/self/fd/{ear._sock.fileno()}")

    def child() -> None:
        lease = client.lock("another").acquire(timeout=HANGS_AFTER)
        assert lease
        lease.release()
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        assert parents not in [os.readlink(link) for link in links if os.path.lexists(link)]
        client.close()

    def give_back() -> None:
        wait_for_waiters(client, 1, "another")
        other.ask(Release("another", OTHER))

    giving = threading.Thread(target=give_back)
    giving.start()
    in_child(child)
    giving.join()
    assert not waiting.done()
    other.ask(Release("job", OTHER))
    lease = waiting.result(HANGS_AFTER)
    assert lease
    lease.release()
