"""What the page is sent: locks, servers, history, and nothing that is secret."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

import holdfast
from holdfast.breaking import public
from holdfast.lab.servers.redis import RedisServer
from holdfast.monitor import Monitor
from holdfast.ui import app, feed
from tests.cli.processes import eventually

from .conftest import Hold
from .server import TOKEN, Visitor, signed_in

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "a\nevent: x\ndata: {}",
    "\u202egnp.exe",
    "'\"&;",
]


def test_what_is_held(client: holdfast.Client, visitor: Visitor) -> None:
    with client.lock("kept", label="blue fleet") as kept:
        row = visitor.find("kept")
        state = visitor.state()
    assert state["about"]["url"] == client.url
    assert state["about"]["may_break"] is True
    assert row["fence"] == str(kept.fence)
    [member] = row["members"]
    assert member["text"] == "blue fleet"
    assert member["host"]
    assert member["ends"] > member["since"]
    visitor.until(lambda data: not data["rows"])


def test_kinds_and_waiters(client: holdfast.Client, hold: Hold, visitor: Visitor) -> None:
    slots, read = client.semaphore("slots", 5), client.rwlock("shared").read
    hold(slots)
    hold(slots)
    hold(read)
    lease = hold(client.lock("one"))
    waiting = threading.Thread(target=hold, args=[client.lock("one", timeout=60)])
    waiting.start()
    assert visitor.find("slots")["kind"] == "semaphore 2/5"
    assert len(visitor.find("slots")["members"]) == 2
    assert visitor.find("shared")["kind"] == "read lock"
    eventually(lambda: visitor.find("one")["waiters"] == 1)
    wait = visitor.find("one")["wait"]
    assert wait["since"] >= visitor.find("one")["members"][0]["since"]
    assert visitor.find("slots")["wait"] is None
    eventually(lambda: 1 in visitor.find("one")["spark"])
    lease.release()
    waiting.join()


def test_history(client: holdfast.Client, visitor: Visitor) -> None:
    visitor.until(lambda data: data["live"])
    with client.lock("job", label="first") as lease:
        row = visitor.find("job")
    visitor.until(lambda data: not data["rows"])
    with visitor.send("GET", f"locks/{row['id']}") as response:
        found = json.load(response)
    assert found["name"] == "job"
    assert [each["what"] for each in found["history"]] == ["ended", "acquired"]
    assert found["history"][0]["text"] == "first"
    assert found["history"][0]["fence"] == str(lease.fence)
    assert visitor.status("GET", "locks/unknown") == 404


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(client: holdfast.Client, visitor: Visitor, name: str) -> None:
    with client.lock(name, label=name):
        [row] = visitor.until(lambda data: data["rows"])
    assert row["name"].isprintable()
    assert row["members"][0]["text"].isprintable()


def test_no_secret_is_sent(client: holdfast.Client, visitor: Visitor) -> None:
    with client.lock("job") as lease:
        row = visitor.find("job")
        secret = lease.holder.rpartition("/")[2]
        with visitor.send("GET", f"locks/{row['id']}") as response:
            text = json.dumps(visitor.state()) + response.read().decode()
    assert secret not in text
    assert public("a secret of another program")["program"] == ""
    assert "secret" not in json.dumps(public("a secret of another program"))


def test_a_password_is_not_shown_when_the_server_is_down() -> None:
    page = app("redis://app:hunter2@127.0.0.1:1/0", token=TOKEN, once=True)
    with signed_in(page) as visitor:
        error = visitor.until(lambda data: data["error"])
        assert "127.0.0.1:1" in error
        assert "hunter2" not in json.dumps(visitor.state())


def examined(visitor: Visitor) -> Any:
    with visitor.send("POST", "examine") as response:
        assert response.status == 200
        return json.load(response)


def test_a_server_that_is_back() -> None:
    """Its figures, and why it does not answer."""
    with RedisServer() as server, signed_in(app(server.url, token=TOKEN, once=True)) as visitor:
        found = examined(visitor)
        [node] = found["nodes"]
        assert (node["name"], node["error"], node["votes"]) == (server.address, "", True)
        assert node["round_trip"] > 0
        assert node["uncertainty"] > 0
        assert found["broken_by"]
        assert all(each["severity"] and each["what"] for each in found["findings"])
        server.kill()
        visitor.until(lambda data: data["error"])
        down = examined(visitor)
        assert "refused" in down["nodes"][0]["error"]
        assert down["margin"] is None
        server.start()
        visitor.until(lambda data: not data["error"])


def test_a_foreign_lock_without_an_end() -> None:
    """Infinity is not JSON. As soon as it has an expiry, the page is shown that."""
    with RedisServer() as server, holdfast.Client(server.url) as client:
        with client.lock("job"):
            pass
        server.command("SET", "holdfast:job", "foreign")
        with signed_in(app(client, token=TOKEN, once=True)) as visitor:
            [member] = visitor.find("job")["members"]
            assert (member["ends"], member["full"]) == (None, None)
            server.command("PEXPIRE", "holdfast:job", 600_000)
            eventually(lambda: visitor.find("job")["members"][0]["ends"])
            assert 500 < visitor.find("job")["members"][0]["full"] <= 600


def test_a_poll_that_raises_what_it_should_not(
    client: holdfast.Client,
    visitor: Visitor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The page shows it, without the text, which may contain anything; and the poller goes on."""

    def fail(*_: object) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(feed, "INTERVAL", 0.01)
    with monkeypatch.context() as broken:
        broken.setattr(Monitor, "look", fail)
        error = visitor.until(lambda data: data["error"])
    assert "KeyError" in error
    assert "secret" not in error
    with client.lock("later"):
        assert visitor.find("later")
    assert not visitor.state()["error"]
    assert caplog.text.count("a poll of holdfast ui failed") == 1
    assert "a secret" in caplog.text


def test_a_quorum_that_was_just_started() -> None:
    with RedisServer() as one, RedisServer() as two, RedisServer() as three:
        places = ",".join(server.address for server in (one, two, three))
        page = app(f"redlock://{places}", token=TOKEN, once=True)
        began = time.time()
        with signed_in(page) as visitor:
            found = examined(visitor)
        twice = app(f"redlock://{places},localhost:{one.port}", token=TOKEN, once=True)
        with signed_in(twice) as visitor:
            same = examined(visitor)["nodes"]
    assert found["margin"] == -2
    assert [node["votes"] for node in found["nodes"]] == [False] * 3
    assert all(node["votes_at"] > began for node in found["nodes"])
    assert [node["votes_at"] for node in same] == [None] * 4


def test_nothing_is_sent_if_nothing_has_changed(
    client: holdfast.Client, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look, row = list[int](), Monitor.look, feed.Feed._row
    late = [0.0]

    def counted(self: Monitor, leases: list[holdfast.LeaseInfo], now: float) -> None:
        look(self, leases, now)
        looks.append(1)

    monkeypatch.setattr(Monitor, "look", counted)
    monkeypatch.setattr(feed.Feed, "_row", lambda self, lock, now: row(self, lock, now + late[0]))
    monkeypatch.setattr(feed, "INTERVAL", 0.05)
    lease = client.lock("kept", renew=False).acquire()
    assert lease
    visitor.find("kept")
    with visitor.send("GET", "state") as response:
        version = response.headers["ETag"]
        assert abs(float(response.headers["Now"] or 0) - time.time()) < 60
    late[0] = 0.5  # the lease seems to end a little later than it did
    seen = len(looks)
    eventually(lambda: len(looks) > seen + 2)
    with visitor.send("GET", "state", If_None_Match=version) as response:
        assert (response.status, response.read()) == (304, b"")
    lease.extend(600)
    eventually(lambda: visitor.status("GET", "state", If_None_Match=version) == 200)
    lease.release()
