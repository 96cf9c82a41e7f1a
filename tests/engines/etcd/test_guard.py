"""A user's own transaction, tied to a lease."""

import asyncio
import base64
import re
from pathlib import Path

import pytest

import holdfast
from holdfast.core import ports
from holdfast.engines.etcd.commands import Comparison
from holdfast.engines.etcd.protocol import Compare
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "etcd.md"


def put(server: EtcdServer, condition: ports.Comparison, value: str) -> bool:
    key, text = (base64.b64encode(each).decode() for each in (b"stock", value.encode()))
    request = {
        "compare": [condition.as_json()],
        "success": [{"request_put": {"key": key, "value": text}}],
    }
    return bool(server.command("kv/txn", **request).get("succeeded"))


def test_a_write_is_done_while_the_lock_is_held_and_never_after(server: EtcdServer) -> None:
    with holdfast.Client(server.url) as client:
        first = client.lock("door").acquire()
        assert first
        condition = first.guard()
        assert (condition.create_revision, condition.key) == (first.fence, server.keys()[0])
        assert put(server, condition, "1")
        first.extend(60)
        assert put(server, condition, "2"), "a lease that was extended is still the same"
        first.release()
        assert not put(server, condition, "3")
        second = client.lock("door").acquire()
        assert second
        assert not put(server, condition, "4")
        assert put(server, second.guard(), "5")
        second.release()


def test_a_holder_that_was_broken_writes_nothing(server: EtcdServer) -> None:
    with holdfast.Client(server.url, ttl=2) as client:
        lease = client.lock("door").acquire()
        assert lease
        condition = lease.guard()
        client.break_lock("door")
        assert not put(server, condition, "1")
        wait_for(lambda: lease.lost)
        with pytest.raises(holdfast.LockLost):
            lease.guard()


def test_under_asyncio(server: EtcdServer) -> None:
    async def story() -> None:
        async with holdfast.AsyncClient(server.url) as client:
            async with client.lock("door") as lease:
                condition = await lease.guard()
                assert put(server, condition, "1")
            assert not put(server, condition, "2")
            with pytest.raises(holdfast.NotHeld):
                await lease.guard()

    asyncio.run(story())


def test_the_connection_of_another_database_is_refused(server: EtcdServer) -> None:
    with (
        holdfast.Client(server.url) as client,
        client.lock("door") as lease,
        pytest.raises(ValueError, match=r"call holdfast\.fence\.check\(connection"),
    ):
        lease.guard(object())


def test_it_can_be_sent_by_any_client() -> None:
    message = Compare.FromString(Comparison(b"key", 7).as_bytes())
    assert (message.key, message.create_revision) == (b"key", 7)


def test_the_example_of_the_documentation(server: EtcdServer) -> None:
    [example] = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    with holdfast.Client(server.url) as client:
        exec(example, {"client": client, "gateway": f"http://{server.address}"})
    assert server.keys() == [b"stock"]
