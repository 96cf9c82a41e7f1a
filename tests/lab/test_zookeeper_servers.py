"""Real ZooKeeper servers: one alone, and an ensemble that loses members."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.equipment.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer
from tests.patience import wait_for

pytestmark = pytest.mark.full


@contextmanager
def connected(server: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(server.address, timeout=30)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_what_it_knows_survives_a_restart(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        with connected(server) as client:
            client.create("/kept", b"1")
        server.restart()
        with connected(server) as client:
            assert client.get("/kept")[0] == b"1"
        server.kill()
        assert not server.alive
        server.start()
        with connected(server) as client:
            assert client.get("/kept")[0] == b"1"


def test_a_frozen_server_answers_nothing_until_it_is_thawed() -> None:
    with ZooKeeperServer() as server, connected(server) as client:
        server.freeze()
        answer = client.exists_async("/")
        assert not answer.wait(0.2)
        server.thaw()
        assert answer.get(timeout=10)


def test_figures_are_measured() -> None:
    with ZooKeeperServer() as server, connected(server) as client:
        before = server.figure("znode_count")
        client.create("/one")
        assert server.figure("znode_count") == before + 1


def test_another_leader_is_elected() -> None:
    with ZooKeeperEnsemble() as ensemble:
        former = ensemble.leader()
        assert former not in ensemble.followers()
        former.kill()
        leader = ensemble.leader()
        assert leader is not former
        former.start()
        assert ensemble.leader() is leader


def test_a_member_that_is_cut_off_still_answers_its_clients() -> None:
    settings = {"syncLimit": "1000"}  # so that it takes its time to notice
    with ZooKeeperEnsemble(partable=True, settings=settings) as ensemble:
        follower, other = ensemble.followers()
        with connected(follower) as writer, connected(follower) as reader:
            writer.create("/seen", b"")
            ensemble.cut_off(follower)
            doubtful = writer.create_async("/unseen", b"")
            with connected(other) as lucky:
                lucky.create("/written", b"")
            assert reader.exists("/seen"), "a read needs no other server"
            assert not reader.exists("/written")
            assert not doubtful.ready(), "a write needs a majority"
            ensemble.heal()
            # Its link to the leader is broken: it has to join anew, and drops its clients first.
            wait_for(lambda: reader.connected and reader.retry(reader.exists, "/written"))
