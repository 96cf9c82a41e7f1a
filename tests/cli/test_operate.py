"""`holdfast ls`, `show` and `break`."""

from __future__ import annotations

import json
import os
import socket
import sys
from math import inf
from pathlib import Path

import pytest

import holdfast as library
from holdfast.cli.console import duration
from holdfast.lab.servers.redis import RedisServer

from .console import console
from .processes import Holdfast, finish

CLI = [sys.executable, "-m", "holdfast.cli"]
WHO = ("host", "pid", "program", "label", "asked_at")
TRICK = "a\x1b[2Jb\nc"
"""A name that would clear the screen."""


def test_nothing_is_held(holdfast: Holdfast) -> None:
    ls, ls_json, show, show_json, broken, broken_json = holdfast.ask(
        ["ls"],
        ["ls", "--json"],
        ["show", "job"],
        ["show", "job", "--json"],
        ["break", "--yes", "job"],
        ["break", "--yes", "--json", "job"],
    )
    assert ls == (0, "", "")
    assert json.loads(ls_json[1]) == []
    assert show == (1, "job is free\n", "")
    assert (show_json[0], json.loads(show_json[1])) == (1, None)
    assert broken == (1, "job is not broken: it is free\n", "")
    assert (broken_json[0], json.loads(broken_json[1])) == (1, {"name": "job", "broken": False})


def test_what_is_held(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client, client.lock("a/long/name"), client.lock(TRICK):
        lease = client.lock("job").acquire()
        assert lease
        ls, prefix, show, show_json, trick = holdfast.ask(
            ["ls"], ["ls", "a/", "--json"], ["show", "job"], ["show", "job", "--json"],
            ["show", TRICK],
        )  # fmt: skip
        info = client.inspect("job")
        assert info
        assert info.label
        me = f"{info.label.program} on {socket.gethostname()}, pid {os.getpid()}"
        head, *lines = ls[1].splitlines()
        assert [line.split()[0] for line in lines] == ["a\\x1b[2Jb\\nc", "a/long/name", "job"]
        assert [line[head.index("HELD BY") :] for line in lines] == [me] * 3
        assert [lease["name"] for lease in json.loads(prefix[1])] == ["a/long/name"]
        facts = dict(line.split(maxsplit=1) for line in show[1].splitlines())
        assert (facts["name"], facts["fence"], facts["held"]) == ("job", "1", f"by  {me}")
        shown = json.loads(show_json[1])
        assert 0 < shown["remaining"] <= 30
        member = {each: shown[each] for each in ("holder", "remaining", *WHO)}
        assert (shown.pop("members"), shown.pop("remaining") > 0) == ([member], True)
        assert shown == {
            "name": "job",
            "holder": lease.holder,
            "fence": 1,
            "waiters": 0,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "program": info.label.program,
            "label": "",
            "asked_at": info.label.asked_at,
            "shares": 1,
        }
        assert info.label.asked_at
        assert "by its own clock" in facts["asked"]
        assert "a\\x1b[2Jb\\nc" in trick[1]
        lease.release()


def test_break_frees_the_lock(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client:
        leases = [client.lock(name).acquire() for name in ("job", "other")]
        refused, broken, broken_json = holdfast.ask(
            ["break", "job"], ["break", "--yes", "job"], ["break", "--yes", "--json", "other"]
        )
        assert refused[0] == 64, "there is no terminal to ask on"
        assert "--yes" in refused[2]
        assert broken == (0, "job is broken: it is free for the next holder\n", "")
        assert json.loads(broken_json[1]) == {"name": "other", "broken": True}
        with client.lock("job") as lease:
            assert leases[0]
            assert lease.fence > leases[0].fence


def test_break_only_with_this_fence(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client:
        lease = client.lock("job").acquire()
        assert lease
        other, same = holdfast.ask(
            ["break", "--yes", "--fence", str(lease.fence + 1), "job"],
            ["break", "--yes", "--fence", str(lease.fence), "job"],
        )
        assert other[:2] == (1, "job is not broken: its fence is 1, and not 2\n")
        assert same[:2] == (0, "job is broken: it is free for the next holder\n")


def test_break_is_written_down(holdfast: Holdfast, tmp_path: Path) -> None:
    audit = tmp_path / "audit"
    with library.Client(holdfast.url) as client:
        lease = client.lock("job").acquire()
        assert lease
        record = ["break", "--yes", "job", "--audit-log", str(audit)]
        unexplained, nowhere, broken, free = holdfast.ask(
            record, [*record, "--audit-log", "/missing/audit", "--reason", "it hangs"],
            [*record, "--reason", "it hangs"], [*record, "--reason", "again"],
        )  # fmt: skip
        assert (unexplained[0], "give --reason" in unexplained[2]) == (64, True)
        assert (nowhere[0], "--audit-log: " in nowhere[2]) == (64, True)
        assert (broken[0], free[0]) == (0, 1)
        first, second = (json.loads(line) for line in audit.read_text().splitlines())
        assert (first["broken"], first["reason"], first["fence"]) == (True, "it hangs", "1")
        assert first["holders"][0]["pid"] == os.getpid()
        assert first["user"]
        assert lease.holder.rpartition("/")[2] not in audit.read_text()
        assert (second["broken"], second["outcome"]) == (False, "not broken: it is free")


@pytest.mark.parametrize(
    ("answer", "code", "held"),
    [("y\n", 0, False), ("n\n", 1, True), ("\x04", 1, True)],
    ids=["yes", "no", "end of input"],
)
def test_break_asks_and_says_what_it_means(
    holdfast: Holdfast, answer: str, code: int, held: bool
) -> None:
    with library.Client(holdfast.url) as client:
        lease = client.lock("job").acquire()
        with console([*CLI, "break", "job"], {"HOLDFAST_URL": holdfast.url}) as screen:
            warning = screen.expect("Break it?")
            assert "does not stop the holder" in warning
            screen.type(answer)
            assert screen.expect_exit() == code
        assert (client.inspect("job") is not None) is held
        assert lease


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (["--holder", "me"], "job is not broken: that holder does not hold it"),
        (["--fence", "0"], "job is not broken: its fence is"),
    ],
    ids=["holder", "fence"],
)
def test_break_does_not_ask_what_it_would_refuse(
    holdfast: Holdfast, option: list[str], why: str
) -> None:
    with library.Client(holdfast.url) as client, client.lock("job") as lease:
        with console([*CLI, "break", "job", *option], {"HOLDFAST_URL": holdfast.url}) as screen:
            assert "Break it?" not in screen.expect(why)
            assert screen.expect_exit() == 1
        lease.extend()


def test_break_leaves_the_next_holder_alone(holdfast: Holdfast) -> None:
    """The lock changes hands while the operator thinks."""
    with library.Client(holdfast.url) as client:
        lock = client.lock("job")
        lock.acquire()
        with console([*CLI, "break", "job"], {"HOLDFAST_URL": holdfast.url}) as screen:
            screen.expect("Break it?")
            lock.release()
            next_one = lock.acquire()
            screen.type("y\n")
            screen.expect("not broken: that holder does not hold it, another client does")
            assert screen.expect_exit() == 1
        assert next_one
        next_one.release()


def test_a_closed_pipe_is_no_traceback(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client, client.lock("job"):
        reader, writer = os.pipe()
        os.close(reader)
        process = holdfast.start("ls", stdout=writer)
        os.close(writer)
        assert "Traceback" not in finish(process)[2]


def test_several_holders(holdfast: Holdfast) -> None:
    with library.Client(holdfast.url) as client:
        exports = client.semaphore("exports", 3)
        first, second = exports.acquire(), exports.acquire()
        assert first
        assert second
        ls, show, show_json, stranger = holdfast.ask(
            ["ls"], ["show", "exports"], ["show", "exports", "--json"],
            ["break", "--yes", "exports", "--holder", "me"],
        )  # fmt: skip
        assert [line.split()[0] for line in ls[1].splitlines()] == ["NAME", "exports", "exports"]
        assert "kind     semaphore 2/3" in show[1]
        assert first.holder in show[1]
        assert second.holder in show[1]
        shown = json.loads(show_json[1])
        assert shown["shares"] == 3
        assert {each["holder"] for each in shown["members"]} == {first.holder, second.holder}
        assert (stranger[0], "does not hold it" in stranger[1]) == (1, True)
        one, after, rest, gone = holdfast.ask(
            ["break", "--yes", "exports", "--holder", first.holder],
            ["show", "exports", "--json"],
            ["break", "--yes", "exports"],
            ["show", "exports"],
        )
        assert one == (0, "exports is broken: its other holders keep it\n", "")
        assert [each["holder"] for each in json.loads(after[1])["members"]] == [second.holder]
        assert rest[0] == 0
        assert gone[0] == 1


def test_a_foreign_lock_without_an_end(holdfast: Holdfast) -> None:
    with RedisServer() as server, library.Client(server.url) as client:
        with client.lock("job"):
            pass
        server.command("SET", "holdfast:job", "foreign")
        ls, ls_json, show = holdfast.ask(["ls"], ["ls", "--json"], ["show", "job"], url=server.url)
        assert "  no end  " in ls[1]
        [shown] = json.loads(ls_json[1])
        assert shown["remaining"] is shown["members"][0]["remaining"] is None
        assert "left     no end\n" in show[1]
        with console([*CLI, "break", "job"], {"HOLDFAST_URL": server.url}) as screen:
            assert "Left: no end." in screen.expect("Break it?")
            screen.type("y\n")
            assert screen.expect_exit() == 0
        assert client.inspect("job") is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.4, "0 s"), (99, "99 s"), (99.9, "2 min"), (600, "10 min"), (5999, "2 h"), (7200, "2 h"),
        (359_999, "4 d"), (9e5, "10 d"), (inf, "no end"),
    ],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
