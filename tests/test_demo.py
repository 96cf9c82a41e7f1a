"""The demo: what it calls a proof must fail when there is something to find, and it tidies up."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from holdfast.lab.demo.__main__ import show, smallest_gap
from holdfast.lab.demo.contest import Plan
from holdfast.lab.demo.turn import read_notes

DEMO = [sys.executable, "-m", "holdfast.cli", "lab", "demo"]
SHORT = Plan(contenders=("ann", "ben", "cyd"), turns=1, work=0.3, ttl=1.5, kill=2)


def test_the_smallest_gap() -> None:
    assert smallest_gap([(1.25, 2.0), (0.0, 1.0), (3.0, 4.0)]) == 0.25


def test_notes_without_an_end_tell_the_last_sign_of_life(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_notes(log) is None
    log.write_text("began 1.5 7\nalive 1.6\nalive 1.7\nended 1.")
    notes = read_notes(log)
    assert notes is not None
    assert (notes.began, notes.fence, notes.last_alive, notes.ended) == (1.5, 7, 1.7, None)
    log.write_text("began 1.5 7\nalive 1.6\nended 1.8\n")
    notes = read_notes(log)
    assert notes is not None
    assert notes.ended == 1.8


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that must be empty, and that no process may use, in the end."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield tmp_path
    assert list(tmp_path.iterdir()) == []
    assert processes_that_mention(tmp_path) == []


def processes_that_mention(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


@pytest.mark.slow
def test_a_short_contest(folder: Path) -> None:
    out = StringIO()
    assert show(SHORT, out) == 0
    text = out.getvalue()
    assert "\x1b" not in text
    assert "no two overlapped: 3 sections" in text
    assert "SIGKILL" in text
    assert "holds the lock" in text


@pytest.mark.slow
def test_a_terminal_that_has_ascii_alone(folder: Path) -> None:
    out = TextIOWrapper(BytesIO(), "ascii", write_through=True)
    assert show(SHORT, out) == 0
    out.seek(0)
    assert "x crashed: SIGKILL" in out.read()


@pytest.mark.slow
def test_one_that_waits_in_vain_is_a_failure(folder: Path) -> None:
    out = StringIO()
    plan = Plan(contenders=("ann", "ben"), turns=1, work=30.0, give_up_after=1.5)
    assert show(plan, out) == 1
    assert "FAILED" in out.getvalue()
    assert "no holder was killed" in out.getvalue()


@pytest.mark.slow
def test_the_whole_demo_in_a_pipe(folder: Path) -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no two overlapped: 9 sections" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_stopped_half_way_it_leaves_nothing(folder: Path, signum: int) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    demo = subprocess.Popen(
        DEMO, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    read_until(ours, b"fence 1")
    demo.send_signal(signum)
    rest = read_until(ours, None)
    assert demo.wait(30) == 128 + signum
    assert b"Traceback" not in rest
    os.close(ours)


def read_until(terminal: int, text: bytes | None) -> bytes:
    """What the demo writes, until it has written this, or to its end."""
    shown = b""
    give_up_at = time.monotonic() + 30
    while time.monotonic() < give_up_at and (text is None or text not in shown):
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # how a terminal ends on Linux
            chunk = b""
        if not chunk:
            break
        shown += chunk
    return shown
