"""An ensemble that loses members, links and clients: never two at once, and it goes on."""

import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.core.messages import Acquire, Failed, Held
from holdfast.core.ports import StoreHost
from holdfast.engines import open_engine
from tests.engines.contest import NAME, Contest
from tests.engines.zookeeper.conftest import make_whole
from tests.engines.zookeeper.glimpse import outsider, places
from tests.equipment.servers.proxy import Proxy
from tests.equipment.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer
from tests.patience import wait_for


def nothing_is_left(ensemble: ZooKeeperEnsemble) -> None:
    with outsider(*ensemble.servers) as eye:
        wait_for(lambda: not places(eye, NAME))


def test_the_leader_is_killed(ensemble: ZooKeeperEnsemble) -> None:
    with Contest([ensemble.url] * 3) as contest:
        leader = ensemble.leader()
        leader.kill()
        contest.goes_on()
        leader.start()
        contest.goes_on()
    nothing_is_left(ensemble)


@pytest.mark.full
def test_the_leader_is_stopped(ensemble: ZooKeeperEnsemble) -> None:
    with Contest([ensemble.url] * 3) as contest:
        leader = ensemble.leader()
        leader.freeze()
        contest.goes_on()
        leader.thaw()
        contest.goes_on()
    nothing_is_left(ensemble)


@pytest.mark.full
def test_a_follower_is_killed(ensemble: ZooKeeperEnsemble) -> None:
    with Contest([ensemble.url] * 3) as contest:
        follower = ensemble.followers()[0]
        follower.kill()
        contest.goes_on()
        follower.start()
        contest.goes_on()
    nothing_is_left(ensemble)


def extends(lease: holdfast.Lease) -> bool:
    try:
        lease.extend()
    except holdfast.EngineUnavailable:
        return False
    return True


@pytest.mark.full
def test_a_lease_outlives_its_server(ensemble: ZooKeeperEnsemble) -> None:
    """One member after the other is stopped for a while; the session goes to another one."""
    with holdfast.Client(ensemble.url) as client:
        lease = client.lock("steady", ttl=30).acquire()
        assert lease
        for member in ensemble.servers:
            member.freeze()
            wait_for(lambda: extends(lease))
            member.thaw()
            make_whole(ensemble)
        lease.release()


def belief(
    lease: holdfast.Lease, others: "Future[holdfast.Lease | None]"
) -> tuple[bool, holdfast.Lease]:
    """Whether the first still believed to hold the lock when the second got it."""
    theirs = others.result(60)
    assert theirs
    return lease.held, theirs


def test_a_server_that_is_cut_off_proves_nothing(parted: ZooKeeperEnsemble) -> None:
    """It answers pings and reads as ever, and the leader lets the session expire."""
    follower, other = parted.followers()
    with (
        holdfast.Client(parted.url_of([follower])) as unlucky,
        holdfast.Client(parted.url_of([other, parted.leader()])) as lucky,
        outsider(follower) as eye,
        ThreadPoolExecutor(1) as pool,
    ):
        lease = unlucky.lock("island", ttl=6).acquire()
        assert lease
        waiting = pool.submit(lucky.lock("island", ttl=6).acquire)
        wait_for(lambda: (info := unlucky.inspect("island")) is not None and info.waiters == 1)
        parted.cut_off(follower)
        still_held, theirs = belief(lease, waiting)
        assert not still_held, "two at once"
        assert theirs.fence > lease.fence
        assert eye.exists("/holdfast/locks/holdfast:island"), "it still answers"
        parted.heal()
        theirs.release()


@pytest.mark.full
def test_a_server_that_is_cut_off_right_after_a_renewal(parted: ZooKeeperEnsemble) -> None:
    """The renewal was acknowledged, but the leader has not been told yet that the session was
    active: it counts from an earlier instant than the holder would like to."""
    follower, other = parted.followers()
    with (
        holdfast.Client(parted.url_of([follower])) as unlucky,
        holdfast.Client(parted.url_of([other, parted.leader()])) as lucky,
        ThreadPoolExecutor(1) as pool,
    ):
        lease = unlucky.lock("edge", ttl=9, renew=False).acquire()
        assert lease
        waiting = pool.submit(lucky.lock("edge", ttl=9).acquire)
        wait_for(lambda: (info := unlucky.inspect("edge")) is not None and info.waiters == 1)
        unlucky._driver._store._stop.set()  # type: ignore[attr-defined]
        began = time.monotonic()
        wait_for(lambda: time.monotonic() > began + 2.5)  # nothing is heard of it for a while
        lease.extend()
        parted.cut_off(follower)
        still_held, theirs = belief(lease, waiting)
        assert not still_held, "two at once"
        parted.heal()
        theirs.release()


def test_one_who_is_first_in_an_old_state_only(parted: ZooKeeperEnsemble) -> None:
    """A waiter is called, but asks only when its session has ended, of a server that has not heard
    of that."""
    follower, other = parted.followers()
    engine = open_engine(urlsplit(f"zookeeper://{follower.address}"), {"tick": f"{follower.tick}"})
    store = engine.connect(StoreHost(time.monotonic, lambda holder: None, lambda event: None))
    waiting = Acquire("holdfast:stale", "host/1/program/5ec2e7", 2.0, queue=True)
    with (
        holdfast.Client(parted.url_of([other, parted.leader()])) as lucky,
        outsider(follower) as eye,
    ):
        try:
            lease = lucky.lock("stale", ttl=8).acquire()
            assert lease
            assert isinstance(store.ask([waiting], time.monotonic() + 30)[0], Held)
            lease.release()
            wait_for(lambda: len(places(eye, "stale")) == 1)
            store._stop.set()  # type: ignore[attr-defined]  # reads would wait behind it
            parted.cut_off(follower)
            theirs = lucky.lock("stale", ttl=8).acquire(timeout=20)
            assert theirs
            assert len(eye.get_children("/holdfast/locks/holdfast:stale")) == 1, "the old state"
            answer = store.ask([waiting], time.monotonic() + 1)[0]
            assert isinstance(answer, Failed), "two at once"
            assert theirs.held
            theirs.release()
        finally:
            parted.heal()
            store.close()


def test_a_client_whose_process_stood_still(server: ZooKeeperServer) -> None:
    """As far as the others can tell, a frozen server is a frozen client."""
    with holdfast.Client(server.url) as client:
        lease = client.lock("still", ttl=1).acquire()
        assert lease
        server.freeze()
        wait_for(lambda: lease.lost)
        server.thaw()
        again = client.lock("still", ttl=1).acquire(timeout=20)
        assert again
        assert again.fence > lease.fence
        again.release()


@pytest.mark.full
def test_a_fifth_of_the_connections_is_reset_again_and_again(server: ZooKeeperServer) -> None:
    dice = random.Random(20)
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server.port)) for _ in range(4)]
        urls = [f"zookeeper://{proxy.address}?{server.terms}" for proxy in proxies]
        with Contest(urls, ttl=8) as contest:
            for _ in range(50):
                for proxy in proxies:
                    if dice.random() < 0.2:
                        proxy.reset()
                contest.goes_on(turns=1)
        with outsider(server) as eye:
            wait_for(lambda: not places(eye, NAME))
