"""The lab's etcd servers: one, and a cluster of three."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.lab.servers.process import ServerFailed
from tests.equipment.servers.etcd import EtcdCluster, EtcdServer, find_etcd, find_etcd_wheel
from tests.patience import wait_for

pytestmark = pytest.mark.full

BOTH = pytest.mark.parametrize("program", [find_etcd, find_etcd_wheel], ids=["3.4", "3.5"])


def write(server: EtcdServer) -> None:
    server.command("kv/put", key="a2V5", value="dmFsdWU=")


@BOTH
def test_one_server(program: Callable[[], str]) -> None:
    with EtcdServer(program=program()) as server:
        assert server.is_leader()
        calls = server.calls()
        write(server)
        server.command("lease/grant", TTL="60", ID="7")
        assert (server.keys(), server.keys(b"k"), server.keys(b"x")) == ([b"key"], [b"key"], [])
        assert server.leases() == [7]
        assert server.calls() > calls
        server.compact()
        with pytest.raises(ServerFailed, match="compacted"):
            server.command("kv/range", key="a2V5", revision=1)
        server.clear()
        assert (server.keys(), server.leases()) == ([], [])
        folder = server.folder
    assert not server.alive
    assert not folder.exists()


def test_a_lease_that_ends_while_all_is_cleared_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EtcdServer() as server:
        listed = iter([[7], []])
        monkeypatch.setattr(server, "leases", lambda: next(listed))
        server.clear()
        assert next(listed, None) is None, "it was looked for once more"


def test_what_it_was_told_outlives_a_restart_and_a_crash(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as server:
        write(server)
        server.restart()
        assert server.keys() == [b"key"]
        server.kill()
        server.start()
        assert server.keys() == [b"key"]


def test_a_frozen_server_does_not_answer_until_it_is_thawed() -> None:
    with EtcdServer() as server:
        server.freeze()
        with pytest.raises(OSError, match="timed out"):
            server.keys()
        server.thaw()
        assert server.keys() == []


@BOTH
def test_a_cluster_elects_another_leader(program: Callable[[], str]) -> None:
    with EtcdCluster(program=program()) as cluster:
        write(cluster.servers[0])
        first = cluster.leader()
        assert len(cluster.followers()) == 2
        first.kill()
        second = cluster.leader()
        assert second is not first
        wait_for(lambda: second.keys() == [b"key"])
        first.start()
        wait_for(lambda: first.keys() == [b"key"])
        second.freeze()
        assert cluster.leader() is not second
        second.thaw()
        cluster.leader()
