"""Three members, and what can happen to them."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import holdfast
from holdfast.core.messages import Held
from holdfast.engines.etcd import locks
from tests.engines.contest import Contest
from tests.equipment.servers.etcd import EtcdCluster, EtcdServer
from tests.equipment.servers.proxy import Proxy

from .conftest import LINES, LINES_BY_TURNS, give_back, in_the_end, make_whole

pytestmark = pytest.mark.slow

CLIENTS = 4


@pytest.fixture(scope="module", params=LINES_BY_TURNS)
def members(request: pytest.FixtureRequest) -> Iterator[EtcdCluster]:
    with EtcdCluster(program=LINES[request.param]()) as cluster:
        yield cluster


@pytest.fixture
def cluster(members: EtcdCluster) -> Iterator[EtcdCluster]:
    make_whole(members)
    yield members
    make_whole(members)


def nothing_is_left(cluster: EtcdCluster) -> None:
    """The queue is empty, and there is no lease."""
    in_the_end(lambda: not cluster.leader().keys())
    in_the_end(lambda: not cluster.leader().leases())


def test_the_leader_is_killed(cluster: EtcdCluster) -> None:
    with Contest([cluster.url] * CLIENTS) as contest:
        leader = cluster.leader()
        leader.kill()
        contest.goes_on()
        leader.start()
        contest.goes_on()
    nothing_is_left(cluster)


def test_a_follower_is_killed(cluster: EtcdCluster) -> None:
    with Contest([cluster.url] * CLIENTS) as contest:
        follower = cluster.followers()[0]
        follower.kill()
        contest.goes_on()
        follower.start()
        contest.goes_on()
    nothing_is_left(cluster)


def test_the_leader_is_stopped_and_goes_on(cluster: EtcdCluster) -> None:
    """It may revoke leases that were renewed since, so two may hold the lock; the fence decides."""
    with Contest([cluster.url] * CLIENTS, may_overlap=True) as contest:
        leader = cluster.leader()
        leader.freeze()
        contest.goes_on()
        leader.thaw()
        contest.goes_on()
    nothing_is_left(cluster)


def test_connections_are_reset_all_the_time(cluster: EtcdCluster) -> None:
    dice = random.Random(7)
    proxies = [Proxy(server.port).start() for server in cluster.servers]
    url = "etcd://" + ",".join(proxy.address for proxy in proxies)
    try:
        with Contest([url] * CLIENTS) as contest:
            for _ in range(100):
                for proxy in proxies:
                    if dice.random() < 0.2:
                        proxy.reset()
                time.sleep(0.05)  # the pace of the faults, not a wait for anything
            contest.goes_on()
    finally:
        for proxy in proxies:
            proxy.close()
    nothing_is_left(cluster)


def test_who_waits_at_a_member_that_stops_answering(
    cluster: EtcdCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is woken by another one, long before it would look by itself."""
    monkeypatch.setattr(locks, "HELD", Held(60.0, wakes=True))
    follower = cluster.followers()[0]
    others = [server for server in cluster.servers if server is not follower]
    to_others = ",".join(server.address for server in others)

    def watches(*servers: EtcdServer) -> int:
        return sum(server.calls("Watch") for server in servers)

    with holdfast.Client(f"etcd://{to_others}") as ann, ThreadPoolExecutor(1) as pool:
        lease = ann.lock("door").acquire()
        assert lease
        here, there = watches(follower), watches(*others)
        waiting = pool.submit(_waits, f"etcd://{follower.address},{to_others}")
        in_the_end(lambda: watches(follower) > here)
        follower.freeze()
        in_the_end(lambda: watches(*others) > there)
        assert not waiting.done()
        lease.release()
        in_the_end(waiting.done)
        assert waiting.result() > lease.fence


def _waits(url: str) -> int:
    with holdfast.Client(url) as client, client.lock("door") as lease:
        return lease.fence


def asked_in_vain(act: Callable[[], object]) -> dict[str, str]:
    """Which members could not answer one request: none, if it was answered."""
    try:
        act()
    except holdfast.EngineUnavailable as error:
        return error.nodes
    return {}


@pytest.mark.parametrize("down", [0, 1, 2])
def test_one_member_is_down_from_the_beginning(cluster: EtcdCluster, down: int) -> None:
    cluster.servers[down].kill()
    cluster.leader()
    with holdfast.Client(cluster.url) as client:
        vain = asked_in_vain(lambda: client.inspect("door"))
        assert len(vain) != 1, "asked once, the others answer, or an election is on"
        with suppress(holdfast.EngineUnavailable), client.lock("door") as lease:
            assert lease.held


def test_a_member_that_does_not_answer_costs_one_try(cluster: EtcdCluster) -> None:
    follower, *others = cluster.followers()
    addresses = [server.address for server in (follower, *others, cluster.leader())]
    with holdfast.Client(f"etcd://{','.join(addresses)}") as client:
        lease = client.lock("door").acquire()
        assert lease
        follower.freeze()
        assert len(asked_in_vain(lease.extend)) != 1
        give_back(lease)
        follower.thaw()


def test_how_many_members_may_fail(cluster: EtcdCluster) -> None:
    def nodes(url: str) -> list[holdfast.NodeInfo]:
        with holdfast.Client(url) as client:
            return client.nodes()

    first, second, _ = cluster.servers
    found = nodes(cluster.url)
    assert [(node.answers, node.margin) for node in found] == [(True, 1)] * 3
    assert all(node.round_trip and node.offset is None for node in found)
    [one] = nodes(first.url)
    assert (one.answers, one.margin) == (True, None), "the URL does not name them all"
    twice = nodes(f"{first.url},{second.address},{second.address}")
    assert [node.margin for node in twice] == [0] * 3, "a member has one vote"
    first.kill()
    in_the_end(lambda: [node.margin for node in nodes(cluster.url)] == [0] * 3)
    assert [node.answers for node in nodes(cluster.url)] == [False, True, True]
    second.kill()
    in_the_end(lambda: [node.margin for node in nodes(cluster.url)] == [-2] * 3)
