"""`holdfast ls`, `show` and `break`."""

from __future__ import annotations

import json
import os
import socket
import sys

import pytest

import holdfast as library

from .console import console
from .processes import Holdfast, finish

CLI = [sys.executable, "-m", "holdfast.cli"]


def test_ls_lists_what_is_held_in_columns(holdfast: Holdfast) -> None:
    long = holdfast.hold("a/rather/long/name")
    short = holdfast.hold("b")
    lines = holdfast.run("ls").stdout.splitlines()
    assert lines[0].split("  ")[0] == "NAME"
    column = lines[0].index("HELD BY")
    host = socket.gethostname()
    assert [line.split()[0] for line in lines[1:]] == ["a/rather/long/name", "b"]
    for line, process in zip(lines[1:], (long, short), strict=True):
        assert line[column:].endswith(f" on {host}, pid {process.pid}")


def test_ls_takes_a_prefix(holdfast: Holdfast) -> None:
    holdfast.hold("a/1")
    holdfast.hold("b/1")
    found = json.loads(holdfast.run("ls", "b/", "--json").stdout)
    assert [lease["name"] for lease in found] == ["b/1"]


def test_ls_of_nothing_prints_nothing(holdfast: Holdfast) -> None:
    empty = holdfast.run("ls")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "")
    assert json.loads(holdfast.run("ls", "--json").stdout) == []


def test_show_says_who_holds_it(holdfast: Holdfast) -> None:
    holder = holdfast.hold("job")
    shown = holdfast.run("show", "job")
    assert shown.returncode == 0
    facts = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines())
    assert facts["name"] == "job"
    assert facts["fence"] == "1"
    assert f"pid {holder.pid}" in facts["held"]


def test_show_as_json(holdfast: Holdfast) -> None:
    holder = holdfast.hold("job")
    shown = json.loads(holdfast.run("show", "job", "--json").stdout)
    with library.Client(holdfast.url) as client:
        info = client.inspect("job")
    assert info
    assert info.label
    assert 0 < shown.pop("remaining") <= 30
    assert shown == {
        "name": "job",
        "holder": info.holder,
        "fence": 1,
        "waiters": 0,
        "host": socket.gethostname(),
        "pid": holder.pid,
        "program": info.label.program,
    }


def test_show_of_a_free_lock_is_1(holdfast: Holdfast) -> None:
    shown = holdfast.run("show", "job")
    assert (shown.returncode, shown.stdout) == (1, "job is free\n")
    shown = holdfast.run("show", "job", "--json")
    assert (shown.returncode, json.loads(shown.stdout)) == (1, None)


def test_names_cannot_play_tricks_with_the_terminal(holdfast: Holdfast) -> None:
    holdfast.hold("a\x1b[2Jb\nc")
    assert "a\\x1b[2Jb\\nc" in holdfast.run("ls").stdout
    assert "a\\x1b[2Jb\\nc" in holdfast.run("show", "a\x1b[2Jb\nc").stdout


def test_break_frees_the_lock(holdfast: Holdfast) -> None:
    holdfast.hold("job")
    broken = holdfast.run("break", "--yes", "job")
    assert (broken.returncode, broken.stdout) == (
        0,
        "job is broken: it is free for the next holder\n",
    )
    next_one = holdfast.run("run", "-n", "job", "-c", "echo $HOLDFAST_FENCE")
    assert next_one.stdout == "2\n"


def test_break_as_json(holdfast: Holdfast) -> None:
    holdfast.hold("job")
    broken = holdfast.run("break", "--yes", "--json", "job")
    assert json.loads(broken.stdout) == {"name": "job", "broken": True}


def test_break_of_a_free_lock_is_1(holdfast: Holdfast) -> None:
    broken = holdfast.run("break", "--yes", "job")
    assert (broken.returncode, broken.stdout) == (1, "job is free; nothing to break\n")
    broken = holdfast.run("break", "--yes", "--json", "job")
    assert (broken.returncode, json.loads(broken.stdout)) == (1, {"name": "job", "broken": False})


def test_break_without_a_terminal_wants_yes(holdfast: Holdfast) -> None:
    holder = holdfast.hold("job")
    refused = holdfast.run("break", "job")
    assert refused.returncode == 64
    assert "--yes" in refused.stderr
    assert finish(holder)[0] == 0


@pytest.mark.parametrize(
    ("answer", "code", "held"), [("y", 0, False), ("n", 1, True), ("", 1, True)]
)
def test_break_asks_and_says_what_it_means(
    holdfast: Holdfast, answer: str, code: int, held: bool
) -> None:
    holdfast.hold("job")
    with console([*CLI, "break", "job"], {"HOLDFAST_URL": holdfast.url}) as screen:
        warning = screen.expect("Break it?")
        assert "does not stop the holder" in warning
        screen.type(f"{answer}\n")
        assert screen.expect_exit() == code
    assert holdfast.run("show", "job").returncode == (0 if held else 1)


def test_break_asks_nothing_of_a_free_lock(holdfast: Holdfast) -> None:
    with console([*CLI, "break", "job"], {"HOLDFAST_URL": holdfast.url}) as screen:
        screen.expect("job is free; nothing to break")
        assert screen.expect_exit() == 1


def test_break_leaves_the_next_holder_alone(holdfast: Holdfast) -> None:
    """The lock changes hands while the operator thinks."""
    holder = holdfast.hold("job")
    with console([*CLI, "break", "job"], {"HOLDFAST_URL": holdfast.url}) as screen:
        screen.expect("Break it?")
        finish(holder)
        next_one = holdfast.hold("job")
        screen.type("y\n")
        screen.expect("not broken: it has changed hands")
        assert screen.expect_exit() == 1
    assert finish(next_one)[0] == 0


def test_a_closed_pipe_is_no_traceback(holdfast: Holdfast) -> None:
    holdfast.hold("job")
    reader, writer = os.pipe()
    os.close(reader)
    process = holdfast.start("ls", stdout=writer)
    os.close(writer)
    assert "Traceback" not in finish(process)[2]
