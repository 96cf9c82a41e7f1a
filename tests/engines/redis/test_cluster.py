"""A Redis Cluster: locks on all its masters, while slots move and masters fail."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast import EngineUnavailable
from holdfast.core.messages import DONE, Acquire, Granted, Release
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines import open_engine
from holdfast.engines.redis.keys import keys_of
from holdfast.lab.servers.process import HOST, Refused
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Party
from tests.equipment.servers.cluster import ClusterNode, RedisCluster
from tests.patience import wait_for

pytestmark = pytest.mark.slow

PREFIX = "holdfast:"


@pytest.fixture(scope="module")
def _cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: RedisCluster) -> Iterator[RedisCluster]:
    for node in _cluster.nodes:
        # Frozen for a while, a node is not to be given up by the others.
        node.command("CONFIG", "SET", "cluster-node-timeout", 60_000)
        node.command("FLUSHALL")
    yield _cluster
    for node in _cluster.nodes:
        node.thaw()


def slot_of(cluster: RedisCluster, name: str) -> int:
    return cluster.slot_of(keys_of(PREFIX + name).lock.decode())


def owner_of(cluster: RedisCluster, name: str) -> ClusterNode:
    return cluster.owner_of(slot_of(cluster, name))


def another(cluster: RedisCluster, node: ClusterNode) -> ClusterNode:
    return next(each for each in cluster.nodes if each is not node)


def names_on(cluster: RedisCluster, node: ClusterNode, count: int) -> list[str]:
    found = (name for number in range(10_000) if owner_of(cluster, name := f"job {number}") is node)
    return [next(found) for _ in range(count)]


def test_the_nodes_are_those_of_the_url(cluster: RedisCluster, invite: Invite) -> None:
    ann = invite(cluster.url)
    found = [(node.name, node.error, node.margin) for node in ann(ann.client.nodes)]
    assert found == [(node.address, "", None) for node in cluster.nodes]


def test_locks_are_spread_over_all_masters(cluster: RedisCluster, invite: Invite) -> None:
    ann, ben = invite(cluster.url), invite(cluster.url)
    names = [f"job {{{number}}}" for number in range(40)]
    leases = [ann.takes(name) for name in names]
    assert all(int(str(node.command("DBSIZE"))) > 4 for node in cluster.nodes)
    assert [info.name for info in ben(ben.client.leases)] == sorted(names)
    assert [info.name for info in ben(ben.client.leases, prefix="job {3")] == sorted(
        name for name in names if name.startswith("job {3")
    )
    assert ben.tries(names[7]) is None
    assert ben(ben.client.break_lock, names[8])
    for lease in leases[9:]:
        ann(lease.extend, ttl=50)
        ann(lease.release)
    assert [info.name for info in ben(ben.client.leases)] == sorted(names[:8])


def test_leases_on_all_masters_are_renewed_together(cluster: RedisCluster, invite: Invite) -> None:
    ann = invite(cluster.url, ttl=6)
    leases = [ann.takes(f"job {number}") for number in range(60)]
    fences = [lease.fence for lease in leases]
    wait_for(lambda: min(lease.remaining() for lease in leases) < 4.2)
    wait_for(lambda: min(lease.remaining() for lease in leases) > 4.8)
    assert [lease.fence for lease in leases] == fences


def test_one_node_that_answers_is_enough_to_find_the_others(
    cluster: RedisCluster, invite: Invite
) -> None:
    node = cluster.nodes[1]
    ann = invite(f"redis+cluster://{HOST}:1,{node.address}")
    for other in cluster.nodes:
        [name] = names_on(cluster, other, 1)
        assert ann.takes(name)


def test_a_lease_goes_with_its_slot(cluster: RedisCluster, invite: Invite) -> None:
    ann, ben = invite(cluster.url), invite(cluster.url)
    lease = ann.takes("job")
    assert ben.tries("job") is None
    former = owner_of(cluster, "job")
    cluster.move_slot(slot_of(cluster, "job"), another(cluster, former))

    assert ben.tries("job") is None
    ann(lease.extend, ttl=50)
    assert lease.held
    ann(lease.release)
    later = ben.takes("job")
    assert later.fence > lease.fence
    assert former.command("DBSIZE") == 0


def test_a_waiter_is_served_although_the_slot_moves_meanwhile(
    cluster: RedisCluster, invite: Invite
) -> None:
    ann, ben, cleo = (invite(cluster.url) for _ in range(3))
    lease = ann.takes("job")
    waiting = [each.begin(each.client.lock("job").acquire) for each in (ben, cleo)]
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 2)
    cluster.move_slot(slot_of(cluster, "job"), another(cluster, owner_of(cluster, "job")))
    ann(lease.release)
    wait_for(lambda: any(each.done() for each in waiting))
    order = sorted(zip(waiting, (ben, cleo), strict=True), key=lambda pair: not pair[0].done())
    (first, holder), (second, _) = order  # the move may have cost them their places in the queue
    holder(first.result().release)
    later = second.result(10)
    assert later.fence > first.result().fence
    (ben if holder is cleo else cleo)(later.release)


@pytest.mark.parametrize("releases", [False, True])
def test_what_is_not_beside_a_queue_is_not_missed_while_the_slot_moves(
    releases: bool, cluster: RedisCluster, invite: Invite
) -> None:
    """A script that looks for a key that is not there is refused then, wherever it has got to."""
    ann, ben, cleo = (invite(cluster.url, ttl=60) for _ in range(3))
    lease = ann.takes("job")
    waiting = ben.begin(ben.client.lock("job").acquire, timeout=40)
    former = owner_of(cluster, "job")
    queue = keys_of(PREFIX + "job").queue.decode()
    wait_for(lambda: former.command("ZCARD", queue) == 1)
    slot = slot_of(cluster, "job")
    with cluster.moving_slot(slot, another(cluster, former)):
        if releases:
            releasing = ann.begin(lease.release)
            wait_for(lambda: queue not in str(former.command("CLUSTER", "GETKEYSINSLOT", slot, 9)))
        else:
            assert cleo(cleo.client.lock("job").acquire, timeout=0.5) is None
    if not releases:
        releasing = ann.begin(lease.release)
    releasing.result(30)
    later = waiting.result(30)
    assert later.fence > lease.fence
    ben(later.release)


def test_a_release_is_carried_out_once_while_its_slot_moves(
    cluster: RedisCluster, invite: Invite
) -> None:
    """With its last waiter the queue is gone, and to look for what is gone is an error then."""
    ben, key, until = invite(cluster.url, ttl=60), PREFIX + "job", clock() + 60
    ann = open_engine(urlsplit(cluster.url), {}).connect(StoreHost(clock, print, print))
    [granted] = ann.ask((Acquire(key, "ann", 60.0),), until)
    waiting = ben.begin(ben.client.lock("job").acquire)
    former, queue = owner_of(cluster, "job"), keys_of(key).queue.decode()
    wait_for(lambda: former.command("ZCARD", queue) == 1)
    with cluster.moving_slot(slot_of(cluster, "job"), another(cluster, former)):
        assert ann.ask((Release(key, "ann"),), until) == [DONE]
    ann.close()
    later = waiting.result(30)
    assert isinstance(granted, Granted)
    assert later.fence > granted.fence
    ben(later.release)


def test_a_lease_is_extended_while_its_slot_moves(cluster: RedisCluster, invite: Invite) -> None:
    """Its keys go one by one; it is asked for here, then neither here nor there, then there."""
    ann, ben = invite(cluster.url), invite(cluster.url)
    lease = ann.takes("job", ttl=5, renew=False)
    slot, former = slot_of(cluster, "job"), owner_of(cluster, "job")
    target = another(cluster, former)
    with cluster.moving_slot(slot, target):
        ann(lease.extend, ttl=20)
        lock, fence, _ = (key.decode() for key in keys_of(PREFIX + "job"))
        former.command("MIGRATE", HOST, target.port, lock, 0, 5000)
        with pytest.raises(EngineUnavailable, match=r"TRYAGAIN|in time"):
            ann(lease.extend, ttl=30)
        former.command("MIGRATE", HOST, target.port, fence, 0, 5000)
        ann(lease.extend, ttl=40)
        assert lease.remaining() > 30
        waiting = ben.begin(ben.client.lock("job").acquire, timeout=15)
        assert not waiting.done()
    ann(lease.release)
    later = waiting.result(15)
    assert later.fence > lease.fence
    ben(later.release)


def test_a_share_is_kept_while_its_slot_moves(cluster: RedisCluster, invite: Invite) -> None:
    """A script finds no key of another node, so it must not be carried out with some of them."""
    ann, ben, cleo = (invite(cluster.url, ttl=60) for _ in range(3))
    lease, other = (ann(ann.client.semaphore("job", 2).acquire) for _ in range(2))
    waiting = ben.begin(ben.client.semaphore("job", 2).acquire, timeout=40)
    slot, former = slot_of(cluster, "job"), owner_of(cluster, "job")
    keys = keys_of(PREFIX + "job")
    wait_for(lambda: former.command("ZCARD", keys.queue.decode()) == 1)
    target = another(cluster, former)
    with cluster.moving_slot(slot, target):
        for key in (keys.lock, keys.fence, keys.queue):
            former.command("MIGRATE", HOST, target.port, key.decode(), 0, 5000)
        with pytest.raises(EngineUnavailable, match=r"TRYAGAIN|in time"):
            ann(lease.extend, ttl=70)
        with pytest.raises(EngineUnavailable, match=r"TRYAGAIN|in time"):
            cleo(cleo.client.semaphore("job", 2).acquire, timeout=0.5)
        releasing = ann.begin(lease.release)
    releasing.result(30)
    later = waiting.result(30)
    assert cleo(cleo.client.semaphore("job", 2).acquire, timeout=0) is None
    ann(other.extend, ttl=70)
    ann(other.release)
    ben(later.release)


def test_a_silent_master_costs_the_locks_of_the_others_nothing(
    cluster: RedisCluster, invite: Invite
) -> None:
    ann = invite(cluster.url, ttl=6)
    victim = cluster.nodes[2]
    lost = [ann.takes(name) for name in names_on(cluster, victim, 2)]
    kept = [ann.takes(name) for node in cluster.nodes[:2] for name in names_on(cluster, node, 2)]
    told: list[Any] = []
    for lease in lost:
        lease.on_lost(told.append)
    victim.freeze()
    assert victim.address in ann.refused(names_on(cluster, victim, 3)[2])
    wait_for(lambda: len(told) == 2)
    assert all(lease.held for lease in kept)
    victim.thaw()
    assert all(ann(lease.release) is None for lease in kept)
    ann.takes(lost[0].name)


def test_the_time_of_a_dead_waiter_is_not_waited_for(cluster: RedisCluster, invite: Invite) -> None:
    """Whoever waits listens to the master of the lock, which so knows that it is gone."""
    ann, ben, cleo = (invite(cluster.url) for _ in range(3))
    lease = ann.takes("job")
    waiting = ben.begin(ben.client.lock("job").acquire)
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 1)
    waiting_too = cleo.begin(cleo.client.lock("job").acquire)
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 2)
    owner = owner_of(cluster, "job")
    queue = keys_of(PREFIX + "job").queue.decode()
    first = str(owner.command("ZRANGE", queue, 0, 0)[0])  # type: ignore[index]
    score = owner.command("ZSCORE", queue, first)
    owner.command("ZADD", queue, int(float(str(score))) - 5, "holdfast:gone nobody")
    ann(lease.release)
    assert waiting.result(10).held
    ben(waiting.result().release)
    assert waiting_too.result(10).held
    cleo(waiting_too.result().release)


def test_a_promoted_replica_is_followed(cluster: RedisCluster, invite: Invite) -> None:
    former = owner_of(cluster, "job")
    with ClusterNode() as replica:
        replica.command("CLUSTER", "MEET", HOST, former.port, former.bus_port)
        wait_for(lambda: replica.state()["cluster_known_nodes"] == "4")
        replicates(replica, former)
        ann, ben = invite(cluster.url), invite(cluster.url, replicas=1)
        lease = ann.takes("job")
        assert ben.tries("job") is None
        promote(replica, former)
        ann(lease.extend, ttl=40)
        assert ben.tries("job") is None
        ann(lease.release)
        later = ben.takes("job")
        assert later.fence > lease.fence
        ben(later.release)
        promote(former, replica)
        name = replica.id
    for node in cluster.nodes:
        with suppress(Refused):  # another may have told it already
            node.command("CLUSTER", "FORGET", name)
    cluster.settle()


def replicates(replica: ClusterNode, master: ClusterNode) -> None:
    def joined() -> bool:
        if "slave" not in str(replica.command("CLUSTER", "NODES")):
            try:
                replica.command("CLUSTER", "REPLICATE", master.id)
            except Refused:
                return False  # they do not know each other yet
        return replica.info("replication").get("master_link_status") == "up"

    wait_for(joined)


def promote(node: ClusterNode, former: ClusterNode) -> None:
    """At once, without a vote, when it has heard of all that the former master was told."""
    wait_for(lambda: node.info("replication").get("master_link_status") == "up")
    wait_for(lambda: offset(node, "slave_repl_offset") == offset(former, "master_repl_offset"))
    node.command("CLUSTER", "FAILOVER", "TAKEOVER")
    wait_for(lambda: former.info("replication")["role"] == "slave")
    wait_for(lambda: node.state()["cluster_state"] == "ok")


def offset(node: ClusterNode, which: str) -> int:
    return int(node.info("replication")[which])


def test_a_server_that_is_no_cluster_says_so(server: RedisServer, invite: Invite) -> None:
    ann = invite(f"redis+cluster://{server.address}")
    assert "cluster support disabled" in ann.refused()[server.address]


def test_a_node_of_a_cluster_that_is_taken_for_one_server_says_so(
    cluster: RedisCluster, invite: Invite
) -> None:
    node = cluster.nodes[0]
    elsewhere = names_on(cluster, cluster.nodes[1], 1)[0]
    ann = invite(f"redis://{node.address}")
    for name in (elsewhere, "a name in {two} slots"):
        with pytest.raises(EngineUnavailable, match=r"redis\+cluster://"):
            ann.takes(name, timeout=20)
    ben = invite(f"redlock://{','.join(each.address for each in cluster.nodes)}")
    # To connect may take a busy machine too long.
    wait_for(lambda: any("redis+cluster://" in why for why in ben.refused().values()))


def test_nobody_there(invite: Invite) -> None:
    ann = invite(f"redis+cluster://{HOST}:1,{HOST}:2")
    assert set(ann.refused()) == {f"{HOST}:1", f"{HOST}:2"}


def test_what_it_promises() -> None:
    ann = Party("sync", "redis+cluster://nowhere")
    assert ann.client.guarantees.engine == "a Redis Cluster"
    assert any("failover" in way for way in ann.client.guarantees.broken_by)
    ann.close()
