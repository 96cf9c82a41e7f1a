"""The stream: all that is known, then what changes; and readers that do not read."""

from __future__ import annotations

import json
import socket
import threading

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


def test_all_that_is_known_and_then_what_changes(client: holdfast.Client, visitor: Visitor) -> None:
    with client.lock("kept", label="blue fleet") as kept:
        row = visitor.find("kept")
        with visitor.stream() as events:
            (hello, about), (first, known) = next(events), next(events)
            assert (hello, first) == ("hello", "snapshot")
            assert about["url"] == client.url
            assert about["may_break"] is True
            assert [each["name"] for each in known["rows"]] == ["kept"]
            with client.lock("new"):
                changed = next(data for _, data in events if data["rows"])
                assert [each["name"] for each in changed["rows"]] == ["new"]
                assert changed["gone"] == []
            later = next(data for _, data in events if data["gone"])
            assert later["rows"] == []
            assert later["gone"] == [changed["rows"][0]["id"]]
    assert row["fence"] == str(kept.fence)
    [member] = row["members"]
    assert member["text"] == "blue fleet"
    assert member["host"]
    assert member["ends"] > member["since"]


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


def test_a_lock_that_was_free_for_a_moment(
    client: holdfast.Client, hold: Hold, visitor: Visitor
) -> None:
    """It comes back with its contention."""
    lease = hold(client.lock("busy"))

    def take_turn() -> None:
        with client.lock("busy"):
            pass

    waiting = threading.Thread(target=take_turn)
    waiting.start()
    eventually(lambda: 1 in visitor.find("busy")["spark"])
    with visitor.stream() as events:
        lease.release()
        waiting.join()
        next(data for _, data in events if data.get("gone"))
        hold(client.lock("busy"))
        back = next(data for _, data in events if data["rows"])
    assert 1 in back["rows"][0]["spark"]


def test_history(client: holdfast.Client, visitor: Visitor) -> None:
    with visitor.stream() as events:
        next(events)
        with client.lock("job", label="first") as lease:
            row = visitor.find("job")
        while row["id"] not in next(events)[1].get("gone", []):
            pass
    with visitor.send("GET", f"locks/{row['id']}") as response:
        found = json.load(response)
    assert found["name"] == "job"
    assert [each["what"] for each in found["history"]][:1] == ["ended"]
    assert found["history"][0]["text"] == "first"
    assert found["history"][0]["fence"] == str(lease.fence)
    assert visitor.status("GET", "locks/unknown") == 404


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(client: holdfast.Client, visitor: Visitor, name: str) -> None:
    with client.lock(name, label=name), visitor.send("GET", "events") as response:
        line = b""
        while b'"rows":[{' not in line:
            line = response.readline()
        assert line.startswith(b"data: ")
        assert line.isascii()
        [row] = json.loads(line.removeprefix(b"data: "))["rows"]
        assert row["name"].isprintable()
        assert row["members"][0]["text"].isprintable()


def test_no_secret_is_sent(client: holdfast.Client, visitor: Visitor) -> None:
    with client.lock("job") as lease:
        row = visitor.find("job")
        secret = lease.holder.rpartition("/")[2]
        with visitor.send("GET", f"locks/{row['id']}") as response:
            text = json.dumps(row) + response.read().decode()
    assert secret not in text
    assert public("a secret of another program")["program"] == ""
    assert "secret" not in json.dumps(public("a secret of another program"))


def test_a_password_is_not_shown_when_the_server_is_down() -> None:
    page = app("redis://app:hunter2@127.0.0.1:1/0", token=TOKEN, once=True)
    with signed_in(page) as visitor, visitor.stream() as events:
        hello = next(events)[1]
        failure = next(data for kind, data in events if data.get("error"))
    assert "127.0.0.1:1" in failure["error"]
    assert "hunter2" not in json.dumps([hello, failure])


def test_a_server_that_is_back() -> None:
    with (
        RedisServer() as server,
        signed_in(app(server.url, token=TOKEN, once=True)) as visitor,
        visitor.stream() as events,
    ):
        next(data for kind, data in events if kind == "changes")
        server.kill()
        next(data for kind, data in events if kind == "failure")
        server.start()
        next(data for kind, data in events if kind == "changes")


def test_a_foreign_lock_without_an_end() -> None:
    """Infinity is not JSON. As soon as it has an expiry, the page is shown that."""
    with RedisServer() as server, holdfast.Client(server.url) as client:
        with client.lock("job"):
            pass
        server.command("SET", "holdfast:job", "foreign")
        with signed_in(app(client, token=TOKEN, once=True)) as visitor:
            [member] = visitor.find("job")["members"]
            assert (member["ends"], member["full"]) == (None, None)
            with visitor.stream() as events:
                server.command("PEXPIRE", "holdfast:job", 600_000)
                rows = (row for _, data in events for row in data.get("rows", []))
                [member] = next(row for row in rows if row["members"][0]["ends"])["members"]
            assert 500 < member["full"] <= 600


def test_a_poll_that_raises_what_it_should_not(
    client: holdfast.Client,
    visitor: Visitor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The page shows it, without the text, which may contain anything; and the poller goes on."""

    def fail(*_: object) -> None:
        raise KeyError("a secret")

    with visitor.stream() as events:
        next(data for kind, data in events if kind == "changes")
        with monkeypatch.context() as broken:
            broken.setattr(Monitor, "look", fail)
            failures = [next(data for kind, data in events if kind == "failure") for _ in range(2)]
            with visitor.stream() as others:
                assert next(data for kind, data in others if kind == "snapshot")["error"]
        with client.lock("later"):
            changed = next(data for kind, data in events if data.get("rows"))
    assert "KeyError" in failures[0]["error"]
    assert "a secret" not in json.dumps(failures)
    assert changed["rows"][0]["name"] == "later"
    assert caplog.text.count("a poll of holdfast ui failed") == 1
    assert "a secret" in caplog.text


def test_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their figures, and why one does not answer."""
    monkeypatch.setattr(feed, "NODES_INTERVAL", 0.2)
    with (
        RedisServer() as server,
        signed_in(app(server.url, token=TOKEN, once=True)) as visitor,
        visitor.stream() as events,
    ):
        found = next(data for kind, data in events if kind == "nodes")
        server.kill()
        down = next(data for _, data in events if data.get("nodes", found["nodes"])[0]["error"])
    [node] = found["nodes"]
    assert (node["name"], node["error"], node["votes"]) == (server.address, "", True)
    assert node["round_trip"] > 0
    assert node["uncertainty"] > 0
    assert "refused" in down["nodes"][0]["error"]
    assert down["margin"] is None


def test_the_servers_for_a_page_that_is_opened_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown the last figures at once."""
    monkeypatch.setattr(feed, "NODES_INTERVAL", 3600.0)
    with (
        RedisServer() as server,
        signed_in(app(server.url, token=TOKEN, once=True)) as visitor,
        visitor.stream() as events,
        visitor.stream() as others,
    ):
        found = next(data for kind, data in events if kind == "nodes")
        assert next(data for kind, data in others if kind == "nodes") == found
        with visitor.stream() as later:
            assert [next(later)[0] for _ in range(3)] == ["hello", "snapshot", "nodes"]


def test_a_quorum_that_was_just_started() -> None:
    with RedisServer() as one, RedisServer() as two, RedisServer() as three:
        places = ",".join(server.address for server in (one, two, three))
        page = app(f"redlock://{places}", token=TOKEN, once=True)
        with signed_in(page) as visitor, visitor.stream() as events:
            found = next(data for kind, data in events if kind == "nodes")
        twice = app(f"redlock://{places},localhost:{one.port}", token=TOKEN, once=True)
        with signed_in(twice) as visitor, visitor.stream() as events:
            same = next(data for kind, data in events if kind == "nodes")
    assert found["margin"] == -2
    assert [node["votes"] for node in found["nodes"]] == [False] * 3
    assert all(node["votes_at"] > found["at"] for node in found["nodes"])
    assert [node["votes_at"] for node in same["nodes"]] == [None] * 4


def test_a_server_that_hangs_does_not_delay_the_locks(
    client: holdfast.Client, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a look at the servers that raises is shown, and is not the last."""
    monkeypatch.setattr(feed, "NODES_INTERVAL", 0.01)
    asked, answered = threading.Event(), threading.Event()

    def hang() -> list[holdfast.NodeInfo]:
        asked.set()
        answered.wait()
        raise KeyError("a secret")

    with visitor.stream() as events:
        with monkeypatch.context() as hanging:
            hanging.setattr(client, "nodes", hang)
            asked.wait()
            with client.lock("meanwhile"):
                changed = next(data for _, data in events if data.get("rows"))
            answered.set()
            failed = next(data for kind, data in events if kind == "nodes")
        assert changed["rows"][0]["name"] == "meanwhile"
        assert "KeyError" in failed["error"]
        assert "secret" not in failed["error"]
        assert next(data for kind, data in events if kind == "nodes" and not data["error"])


def test_a_reader_that_never_reads_is_cut_off(
    client: holdfast.Client, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on."""
    monkeypatch.setattr(feed, "INTERVAL", 0.01)
    page = app(client, token=TOKEN, once=True)
    many = [hold(client.lock(f"{i:03}" + 500 * "x", ttl=60)) for i in range(300)]
    with signed_in(page) as visitor:
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.connect(("127.0.0.1", visitor.port))
            request = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {visitor.cookie}\r\n\r\n"
            silent.sendall(request.encode())
            with visitor.stream() as events:
                eventually(lambda: page.state.feed.readers == 2)
                for lease in many:  # each change is sent to both
                    lease.release()
                    if page.state.feed.readers == 1:
                        break
                    next(events)
                eventually(lambda: page.state.feed.readers == 1)
                assert next(events)
        eventually(lambda: page.state.feed.readers == 0)


def test_too_many_readers(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.ui.routes.MOST_READERS", 1)
    with visitor.stream() as events:
        next(events)
        assert visitor.status("GET", "events") == 503


@pytest.mark.slow
def test_thousands_of_locks(client: holdfast.Client, hold: Hold, visitor: Visitor) -> None:
    """The first message has them all, the next ones only what changed."""
    leases = [hold(client.lock(f"order:{i}", ttl=3600)) for i in range(2_500)]
    with visitor.stream() as events:
        known = 0
        while known < len(leases):
            known += len(next(events)[1].get("rows", []))
        leases[77].release()
        gone = next(data for _, data in events if data["gone"])
        assert (gone["rows"], len(gone["gone"])) == ([], 1)
    with visitor.stream() as events:
        assert len(next(data for kind, data in events if kind == "snapshot")["rows"]) == 2_499
