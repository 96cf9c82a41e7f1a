"""Breaking a lock that is still held as the operator saw it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from holdfast import Client, EngineUnavailable, Lease, LeaseInfo, Lock
from holdfast.breaking import Audit, break_held, operator, public, reference
from holdfast.lab.servers.redis import RedisServer
from holdfast.options import printable

KEPT: list[Lease] = []
"""Leases that are lost: one that is dropped before its client is closed would be reported."""


@pytest.fixture
def client() -> Iterator[Client]:
    with Client("memory://") as client:
        yield client
    KEPT.clear()


def take(lock: Lock) -> Lease:
    lease = lock.acquire()
    assert lease
    KEPT.append(lease)
    return lease


def breaks(client: Client, audit: Audit | None = None, **seen: Any) -> tuple[bool, str]:
    audit = audit or Audit()
    return break_held(client, "job", audit=audit, who=operator(), reason="it hangs", **seen)


def test_a_client_that_gets_the_lock_in_this_moment_keeps_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = client.lock("job")
    first, inspect = take(lock), client.inspect

    def inspect_and_change_hands(name: str) -> LeaseInfo | None:
        monkeypatch.undo()
        info = inspect(name)
        first.release()
        take(lock)
        return info

    monkeypatch.setattr(client, "inspect", inspect_and_change_hands)
    assert breaks(client) == (False, "not broken: it was released just now")
    KEPT[-1].extend()


@pytest.mark.parametrize("by", [str, reference], ids=["id", "reference"])
def test_only_these_holders(client: Client, by: Any) -> None:
    slots = client.semaphore("job", 3)
    first, second, third = (take(slots) for _ in range(3))
    wanted = [by(first.holder), by(second.holder)]
    assert breaks(client, holders=wanted) == (True, "broken: its other holders keep it")
    assert not any(breaks(client, holders=wanted)[0] for _ in range(2))
    third.extend()
    assert breaks(client) == (True, "broken: it is free for the next holder")
    assert breaks(client) == (False, "not broken: it is free")


def test_only_with_this_fence(client: Client) -> None:
    with client.lock("job") as lease:
        refused = f"not broken: its fence is {lease.fence}, and not 0"
        assert breaks(client, fence="0") == (False, refused)
        lease.extend()
    assert breaks(client, fence=str(take(client.lock("job")).fence))[0]


def test_an_interrupted_attempt_is_written_down(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: str) -> bool:
        raise KeyboardInterrupt(lease.holder)

    lease = take(client.lock("job"))
    monkeypatch.setattr(client, "break_lock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        breaks(client, Audit(tmp_path / "audit"))
    record = json.loads((tmp_path / "audit").read_text())
    assert record["outcome"] == "KeyboardInterrupt"
    assert [each["id"] for each in record["holders"]] == [reference(lease.holder)]


def test_an_attempt_with_an_unknown_outcome_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    with RedisServer() as server, Client(server.url) as client:
        client.inspect("job")
        server.kill()
        with pytest.raises(EngineUnavailable):
            breaks(client, Audit(path))
    record = json.loads(path.read_text())
    assert "unreachable" in record["outcome"]
    assert (record["broken"], record["reason"]) == (False, "it hangs")


def test_a_holder_without_an_id_is_not_told_from_the_next_one() -> None:
    with RedisServer() as server, Client(server.url) as client:
        with client.lock("job"):
            pass
        server.command("SET", "holdfast:job", "")
        for wanted in ("", reference("")):
            broken, outcome = breaks(client, holders=[wanted])
            assert not broken
            assert "its holder has no id" in outcome
        assert client.inspect("job")
        assert breaks(client) == (True, "broken: it is free for the next holder")


@pytest.mark.parametrize("by", [str, reference], ids=["id", "reference"])
def test_a_holder_id_that_is_no_text(by: Any) -> None:
    with (
        RedisServer() as server,
        Client(server.url) as client,
        redis.Redis(port=server.port) as other,
    ):
        with client.lock("job"):
            pass
        for holder in (b"\xff\xfe", b"nul\0inside", b"web\xff/1/app/" + b"0" * 32):
            other.set("holdfast:job", holder, ex=60)
            info = client.inspect("job")
            assert info
            assert "\ufffd" not in info.holder
            json.dumps(public(info.holder)).encode("ascii")
            printable(info.holder).encode()
            assert breaks(client, holders=[by(info.holder)])[0]
            assert other.get("holdfast:job") is None


def test_a_lock_that_is_still_held_is_not_said_to_be_released(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(client.lock("job"))
    monkeypatch.setattr(client, "break_lock", lambda *_: False)
    assert breaks(client) == (False, "not broken: it is still held by that holder")


def test_the_audit_log_may_be_a_pipe(client: Client) -> None:
    """As with `--audit-log /dev/stderr`: a pipe cannot be synced to a disk."""
    reader, writer = os.pipe()
    take(client.lock("job"))
    broken, _ = breaks(client, Audit(f"/dev/fd/{writer}"))
    os.close(writer)
    with open(reader) as lines:
        record = json.loads(lines.read())
    assert (broken, record["broken"], record["reason"]) == (True, True, "it hangs")
