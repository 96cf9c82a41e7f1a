"""A user's own transaction, tied to a lease."""

import base64

import pytest

import holdfast
from holdfast.engines.etcd.guard import Guard, guard
from holdfast.engines.etcd.protocol import Compare
from holdfast.lab.servers.etcd import EtcdServer

pytestmark = pytest.mark.slow


def put(server: EtcdServer, condition: Guard, value: str) -> bool:
    key, text = (base64.b64encode(each).decode() for each in (b"stock", value.encode()))
    request = {
        "compare": [condition.as_json()],
        "success": [{"request_put": {"key": key, "value": text}}],
    }
    return bool(server.command("kv/txn", **request).get("succeeded"))


def of(lease: holdfast.Lease) -> Guard:
    return guard("holdfast:" + lease.name, lease.holder, lease.fence)


def test_a_write_is_done_while_the_lock_is_held_and_never_after(server: EtcdServer) -> None:
    with holdfast.Client(server.url) as client:
        first = client.lock("door").acquire()
        assert first
        assert put(server, of(first), "1")
        first.extend(60)
        assert put(server, of(first), "2"), "a lease that was extended is still the same"
        first.release()
        assert not put(server, of(first), "3")
        second = client.lock("door").acquire()
        assert second
        assert not put(server, of(first), "4")
        assert put(server, of(second), "5")


def test_a_holder_that_was_broken_writes_nothing(server: EtcdServer) -> None:
    with holdfast.Client(server.url) as client:
        lease = client.lock("door").acquire()
        assert lease
        client.break_lock("door")
        assert not put(server, of(lease), "1")


def test_it_can_be_sent_by_any_client() -> None:
    message = Compare.FromString(Guard(b"key", 7).as_bytes())
    assert (message.key, message.create_revision) == (b"key", 7)
