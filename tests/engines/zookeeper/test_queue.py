"""The queue on a real server: who is woken, what is left, what is found again."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import holdfast
from holdfast.lab.faults.proxy import Proxy
from holdfast.lab.servers.zookeeper import ZooKeeperServer
from tests.engines.zookeeper.glimpse import outsider, places
from tests.patience import wait_for

CALM = "tick=2&max_ttl=120"
"""With a tick that is said to be long, little is sent that nobody asked for."""


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


def test_one_release_wakes_one_waiter(server: ZooKeeperServer) -> None:
    with ThreadPoolExecutor(8) as pool, ExitStack() as stack:
        clients = [stack.enter_context(holdfast.Client(server.url)) for _ in range(9)]
        owner, *others = clients
        lease = owner.lock("herd", ttl=20).acquire()
        assert lease
        done = threading.Event()
        stack.callback(done.set)

        def wait(client: holdfast.Client) -> int:
            with client.lock("herd", ttl=20, timeout=30) as mine:
                done.wait(30)
                return mine.fence

        waiting = [pool.submit(wait, client) for client in others]
        wait_for(lambda: (info := owner.inspect("herd")) is not None and info.waiters == 8)
        woken = server.figure("sum_node_deleted_watch_count")
        lease.release()
        wait_for(lambda: (info := owner.inspect("herd")) is not None and info.waiters == 7)
        assert server.figure("sum_node_deleted_watch_count") == woken + 1
        done.set()
        fences = [each.result() for each in waiting]
        assert len(set(fences)) == 8
        assert min(fences) > lease.fence


def test_a_renewal_wakes_nobody(server: ZooKeeperServer) -> None:
    with holdfast.Client(server.url) as ann, holdfast.Client(server.url) as ben:
        lease = ann.lock("calm", ttl=0.8).acquire()
        assert lease
        before = server.figure("sum_node_changed_watch_count")
        assert ben.lock("calm", ttl=20).acquire(timeout=1.5) is None
        lease.ensure_held()
        assert server.figure("sum_node_changed_watch_count") == before


def test_a_waiter_that_leaves_does_not_break_the_line(server: ZooKeeperServer) -> None:
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        ann, ben, cleo = (stack.enter_context(holdfast.Client(server.url)) for _ in range(3))
        lease = ann.lock("line", ttl=20).acquire()
        assert lease
        first = pool.submit(ben.lock("line", ttl=20).acquire, timeout=1.0)
        wait_for(lambda: (info := ann.inspect("line")) is not None and info.waiters == 1)
        second = pool.submit(cleo.lock("line", ttl=20).acquire)
        wait_for(lambda: (info := ann.inspect("line")) is not None and info.waiters == 2)
        assert first.result() is None
        assert not second.done(), "the lock is still held"
        lease.release()
        assert second.result(10)


def test_a_place_whose_reply_was_lost_is_found_again(server: ZooKeeperServer, proxy: Proxy) -> None:
    url = f"zookeeper://{proxy.address}?{CALM}"
    with holdfast.Client(url) as client, outsider(server) as eye, ThreadPoolExecutor(1) as pool:
        with client.lock("lost join", ttl=20):
            pass  # connected from here on
        proxy.lose_replies()
        asking = pool.submit(client.lock("lost join", ttl=20).acquire)
        wait_for(lambda: len(places(eye, "lost join")) == 1)
        proxy.heal()
        lease = asking.result(20)
        assert lease
        [place] = places(eye, "lost join")
        assert lease.fence == eye.exists(f"/holdfast/locks/holdfast:lost join/{place}").czxid
        lease.release()
        assert not places(eye, "lost join")


def test_a_release_whose_reply_was_lost_is_a_release(server: ZooKeeperServer, proxy: Proxy) -> None:
    url = f"zookeeper://{proxy.address}?{CALM}"
    with holdfast.Client(url) as client, outsider(server) as eye, ThreadPoolExecutor(1) as pool:
        lease = client.lock("lost leave", ttl=20).acquire()
        assert lease
        proxy.lose_replies()
        leaving = pool.submit(lease.release)
        wait_for(lambda: not places(eye, "lost leave"))
        proxy.heal()
        leaving.result(20)


def test_what_could_not_be_given_back_is_given_back_later(
    server: ZooKeeperServer, proxy: Proxy
) -> None:
    """The session lives on, so the place would be there for ever."""
    url = f"zookeeper://{proxy.address}?{server.terms}"
    with holdfast.Client(url) as client, outsider(server) as eye:
        kept = client.lock("kept", ttl=20).acquire()
        lease = client.lock("owed", ttl=20).acquire()
        assert lease
        assert kept
        proxy.cut()
        with pytest.raises(holdfast.EngineUnavailable):
            lease.release()
        proxy.heal()
        wait_for(lambda: not places(eye, "owed"))
        assert len(places(eye, "kept")) == 1
        kept.release()


def test_connections_that_are_reset_now_and_then(server: ZooKeeperServer, proxy: Proxy) -> None:
    url = f"zookeeper://{proxy.address}?{server.terms}"
    fences = []
    with holdfast.Client(url) as client, outsider(server) as eye:
        for turn in range(25):
            if turn % 5 == 0:
                proxy.reset()
            with client.lock("rough", ttl=20, timeout=20) as lease:
                fences.append(lease.fence)
        wait_for(lambda: not places(eye, "rough"))
    assert fences == sorted(set(fences))


def test_all_leases_of_a_session_are_lost_with_it(server: ZooKeeperServer, proxy: Proxy) -> None:
    url = f"zookeeper://{proxy.address}?{server.terms}"
    names = ("one", "two", "three")
    with holdfast.Client(url) as client, holdfast.Client(server.url) as other:
        leases = [client.lock(name, ttl=2).acquire() for name in names]
        longer = client.lock("of another ttl", ttl=20).acquire()
        proxy.cut()
        later = [other.lock(name, ttl=2).acquire(timeout=20) for name in names]
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


def test_a_lease_moves_to_a_longer_session_without_losing_its_turn(
    server: ZooKeeperServer,
) -> None:
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        ann, ben = (stack.enter_context(holdfast.Client(server.url)) for _ in range(2))
        eye = stack.enter_context(outsider(server))
        lease = ann.lock("longer", ttl=1, renew=False).acquire()
        assert lease
        waiting = pool.submit(ben.lock("longer", ttl=20).acquire)
        wait_for(lambda: (info := ann.inspect("longer")) is not None and info.waiters == 1)
        lease.extend(ttl=30)
        assert lease.remaining() > 20
        assert len(places(eye, "longer")) == 2
        info = ben.inspect("longer")
        assert info
        assert (info.holder, info.fence) == (lease.holder, lease.fence)
        assert not waiting.done()
        lease.release()
        theirs = waiting.result(10)
        assert theirs
        assert theirs.fence > lease.fence


def test_empty_queues_are_removed_by_the_server(server: ZooKeeperServer) -> None:
    with holdfast.Client(server.url) as client, outsider(server) as eye:
        with client.lock("passing", ttl=20):
            assert eye.exists("/holdfast/locks/holdfast:passing")
        wait_for(lambda: not eye.exists("/holdfast/locks/holdfast:passing"))
        with client.lock("passing", ttl=20):
            pass


def test_a_server_that_grants_less_is_told_of(server: ZooKeeperServer) -> None:
    url = f"zookeeper://{server.address}?tick=0.2&max_ttl=1000"
    with holdfast.Client(url) as client, pytest.raises(holdfast.EngineUnavailable, match="max_ttl"):
        client.lock("door", ttl=500).acquire(blocking=False)


def test_a_chroot_is_made_if_need_be(server: ZooKeeperServer) -> None:
    url = f"zookeeper://{server.address}/team/app?{server.terms}"
    with holdfast.Client(url) as client, outsider(server) as eye:
        with client.lock("door", ttl=20):
            assert len(places(eye, "door", "/team/app/holdfast/locks/holdfast:")) == 1
        assert client.cell("stock").set("1", expect=0)
        assert eye.exists("/team/app/holdfast/cells/holdfast:stock")


def test_a_login_keeps_others_out(server: ZooKeeperServer) -> None:
    place = f"{server.address}/private?{server.terms}"
    with (
        holdfast.Client(f"zookeeper://ann:secret@{place}") as ann,
        holdfast.Client(f"zookeeper://{place}") as nobody,
    ):
        with ann.lock("door", ttl=20):
            pass
        with pytest.raises(holdfast.EngineUnavailable, match="NoAuth"):
            nobody.lock("door", ttl=20).acquire(blocking=False)
