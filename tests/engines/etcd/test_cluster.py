"""Three members, and what can happen to them."""

import asyncio
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from holdfast.engines.etcd import taking
from holdfast.lab.faults.proxy import Proxy
from holdfast.lab.servers.etcd import EtcdCluster, EtcdServer
from tests.patience import wait_for

from .conftest import LINES
from .contest import TTL, Contest, make_whole

pytestmark = pytest.mark.slow

CLIENTS = 4


@pytest.fixture(scope="module", params=LINES)
def members(request: pytest.FixtureRequest) -> Iterator[EtcdCluster]:
    with EtcdCluster(program=LINES[request.param]()) as cluster:
        yield cluster


@pytest.fixture
def cluster(members: EtcdCluster) -> Iterator[EtcdCluster]:
    make_whole(members)
    yield members
    make_whole(members)


@pytest.fixture
def contest(cluster: EtcdCluster) -> Contest:
    return Contest([cluster.url] * CLIENTS)


def check(contest: Contest, cluster: EtcdCluster) -> None:
    """No two at once, fences in order, and nothing left behind."""
    assert not contest.overlaps()
    assert not contest.unordered()
    leader = cluster.leader()
    wait_for(lambda: not leader.keys())
    wait_for(lambda: not leader.leases())


def test_the_leader_is_killed(cluster: EtcdCluster, contest: Contest) -> None:
    with contest.running():
        leader = cluster.leader()
        leader.kill()
        contest.goes_on()
        leader.start()
        contest.goes_on()
    check(contest, cluster)


def test_a_follower_is_killed(cluster: EtcdCluster, contest: Contest) -> None:
    with contest.running():
        follower = cluster.followers()[0]
        follower.kill()
        contest.goes_on()
        follower.start()
        contest.goes_on()
    check(contest, cluster)


def test_the_leader_is_stopped_and_goes_on(cluster: EtcdCluster, contest: Contest) -> None:
    """It may revoke leases that were renewed since, so two may hold the lock; the fence decides."""
    with contest.running():
        leader = cluster.leader()
        leader.freeze()
        contest.goes_on()
        leader.thaw()
        contest.goes_on()
    assert not contest.unordered()
    leader = cluster.leader()
    wait_for(lambda: not leader.keys())


def test_connections_are_reset_all_the_time(cluster: EtcdCluster) -> None:
    dice = random.Random(7)
    proxies = [Proxy(server.port).start() for server in cluster.servers]
    contest = Contest(["etcd://" + ",".join(proxy.address for proxy in proxies)] * CLIENTS)
    try:
        with contest.running():
            for _ in range(100):
                for proxy in proxies:
                    if dice.random() < 0.2:
                        proxy.reset()
                time.sleep(0.05)  # the pace of the faults, not a wait for anything
            contest.goes_on()
    finally:
        for proxy in proxies:
            proxy.close()
    check(contest, cluster)


def test_a_client_whose_member_is_in_the_minority(cluster: EtcdCluster) -> None:
    """It loses its lease by its own clock, before the majority gives the lock to another one."""
    minority, *majority = cluster.servers
    rest = "etcd://" + ",".join(server.address for server in majority)
    with holdfast.Client(minority.url, ttl=TTL) as ann, holdfast.Client(rest, ttl=TTL) as ben:
        lease = ann.lock("door").acquire()
        assert lease
        for server in majority:
            server.freeze()
        wait_for(lambda: lease.lost)
        minority.freeze()
        for server in majority:
            server.thaw()
        theirs = ben.lock("door").acquire(timeout=30)
        assert theirs
        assert theirs.fence > lease.fence
        minority.thaw()
        with pytest.raises(holdfast.LockLost):
            lease.release()
        assert theirs.held
        theirs.release()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_who_waits_at_a_member_that_stops_answering(
    cluster: EtcdCluster, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """It is woken by another one, long before it would look by itself."""
    monkeypatch.setattr(taking, "BACKSTOP", 60.0)
    follower = cluster.followers()[0]
    others = [server for server in cluster.servers if server is not follower]
    to_others = ",".join(server.address for server in others)
    waits = _waits_in_a_thread if colour == "sync" else _waits_in_a_task

    def watches(*servers: EtcdServer) -> int:
        return sum(server.calls("Watch") for server in servers)

    with holdfast.Client(f"etcd://{to_others}") as ann, ThreadPoolExecutor(1) as pool:
        lease = ann.lock("door").acquire()
        assert lease
        here, there = watches(follower), watches(*others)
        waiting = pool.submit(waits, f"etcd://{follower.address},{to_others}")
        wait_for(lambda: watches(follower) > here)
        follower.freeze()
        wait_for(lambda: watches(*others) > there)
        assert not waiting.done()
        lease.release()
        wait_for(waiting.done)
        assert waiting.result() > lease.fence


def _waits_in_a_thread(url: str) -> int:
    with holdfast.Client(url) as client, client.lock("door") as lease:
        return lease.fence


def _waits_in_a_task(url: str) -> int:
    async def wait() -> int:
        async with holdfast.AsyncClient(url) as client, client.lock("door") as lease:
            return lease.fence

    return asyncio.run(wait())


@pytest.mark.parametrize("down", [0, 1, 2])
def test_one_member_is_down_from_the_beginning(cluster: EtcdCluster, down: int) -> None:
    cluster.servers[down].kill()
    cluster.leader()
    with holdfast.Client(cluster.url) as client:
        lease = client.lock("door").acquire(blocking=False)
        assert lease, "asked once, the others answer"
        lease.release()


def test_a_member_that_does_not_answer_costs_one_try(cluster: EtcdCluster) -> None:
    with holdfast.Client(cluster.url, ttl=6) as client:
        lease = client.lock("door").acquire()
        assert lease
        frozen = cluster.servers[0]  # the one that was asked
        frozen.freeze()
        cluster.leader()
        lease.extend()
        lease.release()
        frozen.thaw()
