"""Queues are made when they are needed, and the server removes those that are empty."""

import pytest
from kazoo.security import READ_ACL_UNSAFE

import holdfast
from tests.engines.zookeeper.glimpse import LOCKS, outsider
from tests.equipment.servers.zookeeper import ZooKeeperServer
from tests.patience import wait_for


def test_empty_queues_are_removed_by_the_server(server: ZooKeeperServer) -> None:
    with holdfast.Client(server.url) as client, outsider(server) as eye:
        with client.lock("passing", ttl=20):
            assert eye.exists(f"{LOCKS}passing")
        wait_for(lambda: not eye.exists(f"{LOCKS}passing"))
        with client.lock("passing", ttl=20):
            pass


@pytest.mark.parametrize("guarded", ["/a", "/a/b/holdfast/locks"])
def test_what_is_there_need_not_be_ours(server: ZooKeeperServer, guarded: str) -> None:
    """Somebody else has made the chroot, or even the queue."""
    with outsider(server) as eye:
        root = f"/guarded{len(guarded)}"
        eye.ensure_path(f"{root}/a/b" if guarded == "/a" else f"{root}{guarded}/holdfast:door")
        eye.set_acls(f"{root}{guarded}", READ_ACL_UNSAFE)
    with holdfast.Client(f"zookeeper://{server.address}{root}/a/b?{server.terms}") as client:
        with client.lock("door", ttl=20):
            assert client.cell("stock").set("1", expect=0)
        with client.lock("door", ttl=20):
            pass


def test_who_may_not_make_a_queue_is_told(server: ZooKeeperServer) -> None:
    with outsider(server) as eye:
        eye.ensure_path("/forbidden")
        eye.set_acls("/forbidden", READ_ACL_UNSAFE)
    for chroot in ("/forbidden", "/forbidden/deep"):
        url = f"zookeeper://{server.address}{chroot}?{server.terms}"
        with (
            holdfast.Client(url) as client,
            pytest.raises(holdfast.EngineUnavailable, match="NoAuth"),
        ):
            client.lock("door", ttl=20).acquire(blocking=False)
