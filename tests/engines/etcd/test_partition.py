"""A member that is cut off from the others, with a client on its side: the links between members
are cut, and the client's own is not."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from holdfast.drivers.common import clock
from holdfast.engines.etcd import commands
from holdfast.engines.etcd.connection import NoAnswer
from holdfast.engines.etcd.threads import EtcdStore
from holdfast.lab.servers.process import ServerFailed
from tests.engines.contest import Contest
from tests.equipment.servers.etcd import EtcdCluster, EtcdServer

from .conftest import LINES, LINES_BY_TURNS, give_back, in_the_end, make_whole

pytestmark = pytest.mark.slow

TTL = 2.0
ON_ONE_LINE = pytest.mark.parametrize("members", ["3.5"], indirect=True)
WHO = pytest.mark.parametrize("who", ["leader", "follower"])


@pytest.fixture(scope="module", params=LINES_BY_TURNS)
def members(request: pytest.FixtureRequest) -> Iterator[EtcdCluster]:
    with EtcdCluster(program=LINES[request.param](), partable=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(members: EtcdCluster) -> Iterator[EtcdCluster]:
    make_whole(members)
    yield members
    members.heal()
    make_whole(members)


def parties(cluster: EtcdCluster, who: str) -> tuple[EtcdServer, str]:
    """The one that is to be cut off, and the URL of the others."""
    alone = cluster.leader() if who == "leader" else cluster.followers()[0]
    others = [server.address for server in cluster.servers if server is not alone]
    return alone, f"etcd://{','.join(others)}"


@WHO
def test_a_holder_on_the_side_of_the_minority(cluster: EtcdCluster, who: str) -> None:
    """It loses its lease by its own clock, before the majority gives the lock to another one: also
    on the side of a leader, who goes on answering keep-alives before it sees that it is alone."""
    alone, rest = parties(cluster, who)
    with (
        holdfast.Client(alone.url, ttl=TTL) as ann,
        holdfast.Client(rest, ttl=TTL) as ben,
        ThreadPoolExecutor(1) as pool,
    ):
        lease = ann.lock("door").acquire()
        assert lease

        def wait() -> tuple[holdfast.Lease | None, bool]:
            return ben.lock("door").acquire(timeout=60), lease.lost

        waiting = pool.submit(wait)
        in_the_end(lambda: len(alone.keys()) == 2 or waiting.done())
        cluster.cut_off(alone)
        theirs, first_was_lost = waiting.result()
        assert theirs
        assert first_was_lost, "two held the lock"
        assert theirs.fence > lease.fence
        with pytest.raises(holdfast.LockLost):
            lease.release()
        with pytest.raises(holdfast.EngineUnavailable):
            ann.lock("door").acquire(blocking=False)
        cluster.heal()
        give_back(theirs)


@WHO
def test_a_waiter_on_the_side_of_the_minority(cluster: EtcdCluster, who: str) -> None:
    """It goes on when all is healed, and never gets the lock before."""
    alone, rest = parties(cluster, who)
    with (
        holdfast.Client(alone.url, ttl=TTL) as ann,
        holdfast.Client(rest, ttl=10) as ben,
        ThreadPoolExecutor(1) as pool,
    ):
        lease = ben.lock("door").acquire()
        assert lease
        waiting = pool.submit(ann.lock("door", timeout=60).acquire)
        in_the_end(lambda: len(alone.keys()) == 2)
        cluster.cut_off(alone)
        in_the_end(lambda: cluster.leader() is not alone)
        give_back(lease)
        assert not waiting.done()
        cluster.heal()
        theirs = waiting.result()
        assert theirs
        assert theirs.fence > lease.fence
        give_back(theirs)


@ON_ONE_LINE
def test_a_member_without_a_leader_says_so(cluster: EtcdCluster) -> None:
    """And that it is worth asking again in a moment."""
    alone, _ = parties(cluster, "follower")
    cluster.cut_off(alone)
    with holdfast.Client(alone.url) as client:
        store = client._driver._store
        assert isinstance(store, EtcdStore)

        def says_so() -> bool:
            try:
                store._send([commands.find(b"door")], store._connections.current, clock() + TTL)
            except NoAnswer as error:
                return error.electing
            return False

        in_the_end(says_so)


def test_a_cluster_without_a_network_of_its_own_cannot_be_parted() -> None:
    cluster = EtcdCluster()
    with pytest.raises(ServerFailed, match="partable"):
        cluster.cut_off(cluster.servers[0])


@ON_ONE_LINE
def test_clients_on_both_sides(cluster: EtcdCluster) -> None:
    with Contest([*[server.url for server in cluster.servers], cluster.url]) as contest:
        cluster.cut_off(cluster.leader())
        contest.goes_on()
        cluster.heal()
        contest.goes_on()
    in_the_end(lambda: not cluster.leader().keys())
    in_the_end(lambda: not cluster.leader().leases())
