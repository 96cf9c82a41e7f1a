"""Servers that work together: sentinels that promote a replica, a cluster whose slots move."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.cluster import ClusterNode as Address
from redis.cluster import RedisCluster as ClusterClient
from redis.sentinel import Sentinel as SentinelClient

from holdfast.lab.servers.process import HOST, Refused
from tests.equipment.servers.cluster import SLOTS, RedisCluster
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.sentinel import SentinelSet

pytestmark = pytest.mark.full


@pytest.fixture
def watched(program: str, tmp_path: Path) -> Iterator[SentinelSet]:
    with SentinelSet(tmp_path, 2, program=program, password="secret") as watched:
        yield watched


@pytest.fixture
def cluster(program: str, tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path, program=program) as cluster:
        yield cluster


def discovered(watched: SentinelSet) -> object:
    """The port of the master, as a client finds it."""
    client = SentinelClient([(HOST, sentinel.port) for sentinel in watched.sentinels])
    try:
        return client.discover_master(watched.service)[1]
    finally:
        for connection in client.sentinels:
            connection.close()


def test_a_forced_fail_over(watched: SentinelSet) -> None:
    former = watched.master
    assert former is watched.servers[0]
    assert discovered(watched) == former.port
    former.command("SET", "key", "1")
    former.command("WAIT", 2, 5000)

    master = watched.fail_over()

    assert master is watched.master is not former
    assert discovered(watched) == master.port
    assert master.command("GET", "key") == "1"
    assert former.info("replication")["master_port"] == str(master.port)
    with pytest.raises(Refused, match=r"^READONLY"):
        former.command("SET", "key", "2")


def test_a_killed_master_is_replaced_and_comes_back_as_a_replica(watched: SentinelSet) -> None:
    victim = watched.kill_master()
    master = watched.wait_for_master(other_than=victim)
    assert master is not victim
    assert discovered(watched) == master.port

    victim.start()
    watched.settle()
    assert watched.master is master
    assert victim.info("replication")["role"] == "slave"


def test_a_sentinel_that_was_restarted_still_knows_its_master(watched: SentinelSet) -> None:
    sentinel = watched.sentinels[0]
    sentinel.restart(keep_data=True)
    watched.settle()
    assert sentinel.master_port(watched.service) == watched.master.port
    sentinel.restart(keep_data=False)
    assert sentinel.master_port(watched.service) is None


def test_a_sentinel_set_tells_its_url_and_ends(tmp_path: Path) -> None:
    with SentinelSet(tmp_path) as watched:
        a, b, c = (sentinel.address for sentinel in watched.sentinels)
        assert watched.url == f"redis+sentinel://{a},{b},{c}/holdfast"
    assert not any(server.alive for server in watched.members())


def test_a_replica_has_what_its_master_has_until_it_is_promoted(
    program: str, tmp_path: Path
) -> None:
    with RedisMasters(tmp_path, 2, program=program) as pair:
        master, replica = pair.servers
        master.command("SET", "key", "1")
        replica.follow(master)
        assert replica.command("GET", "key") == "1"
        with pytest.raises(Refused, match=r"^READONLY"):
            replica.command("SET", "key", "2")
        replica.promote()
        replica.command("SET", "key", "2")
        assert master.command("GET", "key") == "1"


def test_a_cluster_shares_the_slots(cluster: RedisCluster) -> None:
    a, b, c = (node.address for node in cluster.nodes)
    assert cluster.url == f"redis+cluster://{a},{b},{c}"
    assert {cluster.owner_of(slot) for slot in (0, SLOTS // 2, SLOTS - 1)} == set(cluster.nodes)
    assert all(node.state()["cluster_slots_ok"] == str(SLOTS) for node in cluster.nodes)


def test_a_cluster_routes(cluster: RedisCluster) -> None:
    keys = [f"key-{i}" for i in range(30)]
    addresses = [Address(HOST, node.port) for node in cluster.nodes]
    client = ClusterClient(startup_nodes=addresses, decode_responses=True)
    with client:
        for key in keys:
            client.set(key, key)
        assert [client.get(key) for key in keys] == keys
        assert all(int(str(node.command("DBSIZE"))) > 0 for node in cluster.nodes)

        slot = cluster.slot_of(keys[0])
        owner = cluster.owner_of(slot)
        cluster.move_slot(slot, next(node for node in cluster.nodes if node is not owner))
        assert client.get(keys[0]) == keys[0]


def test_a_slot_moves_with_its_keys(cluster: RedisCluster) -> None:
    slot = cluster.slot_of("{tag}")
    former = cluster.owner_of(slot)
    target = next(node for node in cluster.nodes if node is not former)
    former.command("SET", "{tag}here", "1")

    with cluster.moving_slot(slot, target):
        assert former.command("GET", "{tag}here") == "1"
        with pytest.raises(Refused, match=f"^ASK {slot} {target.address}$"):
            former.command("GET", "{tag}elsewhere")

    assert cluster.owner_of(slot) is target
    assert target.command("GET", "{tag}here") == "1"
    with pytest.raises(Refused, match=f"^MOVED {slot} {target.address}$"):
        former.command("GET", "{tag}here")
    with pytest.raises(ValueError, match="already"):
        cluster.move_slot(slot, target)


def test_a_node_that_was_restarted_finds_its_cluster_again(cluster: RedisCluster) -> None:
    node = cluster.owner_of(cluster.slot_of("key"))
    node.command("SET", "key", "1")
    node.restart(keep_data=True)
    cluster.settle()
    assert node.command("GET", "key") == "1"
