"""Breaking a lock: by its name, with a reason, of the holder that was shown; and the record."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.lab.servers.redis import RedisServer
from holdfast.ui import app

from .conftest import Hold
from .server import TOKEN, Visitor, signed_in


def ask(visitor: Visitor, row: dict[str, Any], **changes: Any) -> tuple[int, str]:
    body = {"name": row["name"], "holder": row["members"][0]["id"], "reason": "it hangs"}
    with visitor.send("POST", f"locks/{row['id']}/break", {**body, **changes}) as response:
        return response.status, response.read().decode()


def test_it_is_broken_and_written_down(
    client: holdfast.Client,
    hold: Hold,
    visitor: Visitor,
    audit: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lease = hold(client.lock("stuck\n", label="blue", renew=False))
    row = visitor.find("stuck\\n")
    with caplog.at_level(logging.WARNING, "holdfast.audit"):
        status, text = ask(visitor, row)
    assert status == 200
    assert "was not stopped" in text
    assert client.inspect("stuck\n") is None
    [line] = audit.read_text().splitlines()
    record = json.loads(line)
    assert record["name"] == "stuck\\n"
    assert record["reason"] == "it hangs"
    assert record["fence"] == str(lease.fence)
    assert record["remote"] == "127.0.0.1"
    assert record["session"] in visitor.cookie
    assert record["broken"] is True
    assert record["holders"][0]["text"] == "blue"
    assert record["at"]
    assert line in caplog.text
    assert lease.holder.rpartition("/")[2] not in line
    assert visitor.cookie.rpartition(".")[2] not in line
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600


def test_what_is_refused(client: holdfast.Client, visitor: Visitor, audit: Path) -> None:
    with client.lock("a") as lease, client.lock("b"):
        row = visitor.find("a")
        assert ask(visitor, row, name="b")[0] == 409
        assert ask(visitor, row, name="")[0] == 409
        assert ask(visitor, row, reason=" ")[0] == 400
        assert ask(visitor, row, reason=501 * "x")[0] == 400
        assert ask(visitor, row, holder=4711)[0] == 400
        assert ask(visitor, {**row, "id": "0"})[0] == 409
        path = f"locks/{row['id']}/break"
        for body in (b"", b"[]", b"{", b"null", b"{}", b" " * 20_000):
            assert visitor.status("POST", path, body) == 400
        assert visitor.status("GET", path) == 405
        assert audit.read_text() == ""
        for holder in ("", "another"):
            status, text = ask(visitor, row, holder=holder)
            assert status == 409
            assert "that holder does not hold it, another client does" in text
        lease.ensure_held()
    status, text = ask(visitor, row)
    assert (status, text) == (409, "Not broken: it is free.")
    outcomes = [json.loads(line)["broken"] for line in audit.read_text().splitlines()]
    assert outcomes == [False, False, False]


def test_one_holder_of_several(client: holdfast.Client, hold: Hold, visitor: Visitor) -> None:
    slots = client.semaphore("slots", 3)
    _, second = hold(slots), hold(slots)
    row = visitor.find("slots")
    status, text = ask(visitor, row, holder=row["members"][0]["id"])
    assert status == 200
    assert "its other holders keep it" in text
    left = client.inspect("slots")
    assert left
    assert [each.holder for each in left.members] == [second.holder]


def test_read_only_by_default(client: holdfast.Client) -> None:
    with signed_in(app(client, token=TOKEN, once=True)) as visitor, client.lock("a") as lease:
        status, text = ask(visitor, visitor.find("a"))
        assert status == 403
        assert "may only look" in text
        lease.ensure_held()
        assert client.inspect("a")


def test_an_audit_log_that_cannot_be_written(client: holdfast.Client, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        app(client, token=TOKEN, allow_break=True, audit_log=tmp_path / "missing" / "audit")


def test_an_audit_log_that_cannot_be_written_any_more(
    client: holdfast.Client,
    hold: Hold,
    visitor: Visitor,
    audit: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The lock is broken by then: the operator is told both, and the log has the record."""
    hold(client.lock("stuck", renew=False))
    row = visitor.find("stuck")
    audit.unlink()
    audit.mkdir()
    status, text = ask(visitor, row)
    assert status == 200
    assert text.startswith("Broken: ")
    assert "the audit record could not be written: " in text
    assert client.inspect("stuck") is None
    assert '"reason": "it hangs"' in caplog.text
    assert "the audit record could not be written" in caplog.text
    status, text = ask(visitor, row)
    assert status == 409
    assert text.startswith("Not broken: it is free; the audit record could not be written: ")


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    """The outcome is unknown, and that is written down."""
    audit = tmp_path / "audit"
    with RedisServer() as server, holdfast.Client(server.url) as client:
        page = app(client, token=TOKEN, once=True, allow_break=True, audit_log=audit)
        with signed_in(page) as visitor:
            lease = client.lock("a", renew=False).acquire()
            row = visitor.find("a")
            assert ask(visitor, row)[0] == 200
            server.kill()
            status, _ = ask(visitor, row)
            assert status == 409
    assert lease
    first, second = (json.loads(line) for line in audit.read_text().splitlines())
    assert (first["broken"], second["broken"]) == (True, False)
    assert "unreachable" in second["outcome"]
