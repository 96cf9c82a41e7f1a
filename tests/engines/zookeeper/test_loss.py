"""A session that ends takes all its leases with it, and their holders hear of it at once."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

import holdfast
from holdfast.engines.offload import Offloaded
from tests.equipment.servers.proxy import Proxy
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for

TTL = 100
"""Its renewals are so far apart that none of them tells of the loss."""


def end_session(client: Any, server: ZooKeeperServer) -> None:
    """What an operator does, or a leader whose clock has jumped: nobody has asked the holders."""
    store = client._driver._store
    threads: Any = store._store if isinstance(store, Offloaded) else store
    sessions = threads._exchanges.sessions
    [wire] = [each._connection for each in sessions if each.ttl == TTL]
    thief = KazooClient(server.address, client_id=wire.client_id)
    thief.start(30)
    thief.stop()
    thief.close()


def test_a_session_that_was_ended_is_lost_at_once(server: ZooKeeperServer) -> None:
    with holdfast.Client(server.url) as client, holdfast.Client(server.url) as other:
        leases = [client.lock(name, ttl=TTL).acquire() for name in ("one", "two", "three")]
        unrenewed = client.lock("four", ttl=TTL, renew=False).acquire()
        longer = client.lock("of another ttl", ttl=120).acquire()
        told: list[holdfast.Lease] = []
        for lease in (*leases, unrenewed, longer):
            assert lease
            lease.on_lost(told.append)
        end_session(client, server)
        wait_for(lambda: len(told) == 4)
        assert longer
        assert set(told) == {*leases, unrenewed}
        assert all(lease.lost for lease in told)
        longer.ensure_held()
        again = other.lock("one", ttl=TTL).acquire(timeout=20)
        assert again
        assert again.fence > max(lease.fence for lease in told)
        again.release()
        longer.release()


def test_the_same_for_tasks(server: ZooKeeperServer) -> None:
    async def story() -> None:
        async with holdfast.AsyncClient(server.url) as client:
            lease = await client.lock("one", ttl=TTL).acquire()
            assert lease
            told = asyncio.Event()
            lease.on_lost(lambda lease: told.set())
            await asyncio.to_thread(end_session, client, server)
            await asyncio.wait_for(told.wait(), 20)
            assert lease.lost

    asyncio.run(story())


def test_all_leases_of_a_session_are_lost_with_it(server: ZooKeeperServer) -> None:
    names = ("one", "two", "three")
    with (
        Proxy(server.port) as proxy,
        holdfast.Client(f"zookeeper://{proxy.address}?{server.terms}") as client,
        holdfast.Client(server.url) as other,
    ):
        leases = [client.lock(name, ttl=2).acquire() for name in names]
        longer = client.lock("of another ttl", ttl=60).acquire()
        proxy.cut()
        later = [other.lock(name, ttl=8).acquire(timeout=20) for name in names]
        for lease, theirs in zip(leases, later, strict=True):
            assert lease
            assert theirs
            assert lease.lost
            assert theirs.fence > lease.fence
        assert longer
        assert longer.held
        proxy.heal()
        again = client.lock("four", ttl=2).acquire(timeout=20)
        assert again, "the next session is as good"
        longer.ensure_held()


def test_a_connection_that_is_lost_is_no_session_that_is(server: ZooKeeperServer) -> None:
    with Proxy(server.port) as proxy:
        url = f"zookeeper://{proxy.address}?{server.terms}"
        with holdfast.Client(url) as client, client.lock("one", ttl=TTL) as lease:
            for _ in range(5):
                proxy.reset()
                lease.extend()


@pytest.mark.slow
def test_servers_that_were_set_up_anew(tmp_path: Path) -> None:
    """They know neither the session nor what the client has seen. It begins again with them."""
    with (
        ZooKeeperServer(tmp_path) as server,
        holdfast.Client(server.url, ttl=4) as client,
    ):
        with client.lock("one"):
            client.cell("seen").set("1", expect=0)
        server.kill()
        shutil.rmtree(tmp_path / "data")
        server.start()
        with client.lock("one", timeout=60):
            assert client.cell("seen").get().version == 0
