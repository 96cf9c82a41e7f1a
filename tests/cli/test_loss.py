"""The lease is lost, or about to be: what becomes of the command."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

import holdfast as library

from .processes import Holdfast, eventually, finish, gone, line_of

pytestmark = pytest.mark.slow

STUBBORN = """
import os, pathlib, signal, sys, time
beats = pathlib.Path(sys.argv[1])
def beat(what):
    with beats.open("a") as file:
        print(what, time.clock_gettime(time.CLOCK_BOOTTIME), file=file)
signal.signal(signal.SIGTERM, lambda *_: beat("term"))
print("ready", os.getpid(), flush=True)
while True:
    beat("alive")
    time.sleep(0.005)
"""
"""Takes TERM for a hint, and writes down when it was alive."""


def start_stubborn(
    holdfast: Holdfast, beats: Path, *options: str, ttl: float
) -> subprocess.Popen[str]:
    command = ["--", sys.executable, "-c", STUBBORN, str(beats)]
    process = holdfast.start("run", "--ttl", str(ttl), *options, "job", *command)
    assert line_of(process.stdout).startswith("ready")
    return process


def read_beats(beats: Path) -> list[tuple[str, float]]:
    lines = (line.split() for line in beats.read_text().splitlines())
    return [(words[0], float(words[1])) for words in lines if len(words) == 2]


@contextmanager
def unreachable(holdfast: Holdfast) -> Iterator[float]:
    """Nobody can write to the database, so no renewal succeeds; yields when the lease ends for
    everybody else, on the boot clock."""
    with (
        library.Client(holdfast.url) as client,
        closing(sqlite3.connect(holdfast.database, isolation_level=None, timeout=60)) as database,
    ):
        client.inspect("job")  # so that it is connected
        database.execute("BEGIN EXCLUSIVE")
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        info = client.inspect("job")
        assert info
        yield now + info.remaining
        database.execute("ROLLBACK")


def test_term_comes_first_and_kill_before_the_lease_ends(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    beats = tmp_path / "beats"
    process = start_stubborn(holdfast, beats, "--kill-after", "3", ttl=6)
    with unreachable(holdfast) as ends:
        code, _, err = finish(process)
    assert code == 70
    assert "was not renewed and expires in" in err
    assert err.index("sent TERM to the command") < err.index("killed the command")
    told = [instant for what, instant in read_beats(beats) if what == "term"]
    assert len(told) == 1
    assert told[0] > ends - 3.5, "not before its time"
    assert read_beats(beats)[-1][1] < ends, "nothing was done after the lease had ended"


def test_kill_does_not_ask(holdfast: Holdfast, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    process = start_stubborn(holdfast, beats, "--on-lost", "kill", ttl=3)
    with unreachable(holdfast) as ends:
        code, _, err = finish(process)
    assert code == 70
    assert "killed the command" in err
    assert {what for what, _ in read_beats(beats)} == {"alive"}
    assert read_beats(beats)[-1][1] < ends


def test_warn_only_says_so(holdfast: Holdfast) -> None:
    process = holdfast.start(
        "run", "-q", "--ttl", "1", "--on-lost", "warn", "job", "-c", "echo held; cat; exit 5"
    )
    assert line_of(process.stdout) == "held"
    with unreachable(holdfast):
        said = line_of(process.stderr)
    assert said.startswith("holdfast: the lease on 'job' (fence ")
    assert said.endswith("the command goes on (--on-lost=warn)")
    assert process.poll() is None
    assert finish(process)[0] == 5, "the command's own"


def test_a_passing_failure_kills_nobody(holdfast: Holdfast) -> None:
    process = holdfast.start(
        "run", "--ttl", "6", "--kill-after", "0.5", "job", "-c", "echo held; cat; exit 5"
    )
    assert line_of(process.stdout) == "held"
    with unreachable(holdfast):
        said = line_of(process.stderr)
    assert said.startswith("holdfast: could not renew 'job'")
    with library.Client(holdfast.url) as client:

        def renewed() -> bool:
            info = client.inspect("job")
            return info is not None and info.remaining > 4

        eventually(renewed)
    assert finish(process) == (5, "", "")


def test_a_command_that_heeds_term_is_not_killed(holdfast: Holdfast) -> None:
    script = "trap 'echo tidied; exit 0' TERM; echo held; while :; do sleep 0.05; done"
    process = holdfast.start("run", "--ttl", "3", "job", "-c", script)
    assert line_of(process.stdout) == "held"
    with unreachable(holdfast):
        code, out, err = finish(process)
    assert (code, out) == (70, "tidied\n")
    assert "killed" not in err


def test_a_suspended_command_can_heed_term(holdfast: Holdfast) -> None:
    script = "trap 'echo tidied; exit 0' TERM; echo held; kill -STOP $$; :"
    process = holdfast.start("run", "--ttl", "3", "job", "-c", script)
    assert line_of(process.stdout) == "held"
    with unreachable(holdfast):
        assert finish(process)[:2] == (70, "tidied\n")


def test_what_the_command_has_started_ends_before_the_lease(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    """The shell dies of TERM; its child does not, and must not outlive the lease either."""
    beats = tmp_path / "beats"
    command = ["sh", "-c", '"$@" & wait', "sh", sys.executable, "-c", STUBBORN, str(beats)]
    process = holdfast.start("run", "--ttl", "6", "--kill-after", "3", "job", "--", *command)
    assert line_of(process.stdout).startswith("ready")
    with unreachable(holdfast) as ends:
        code, _, err = finish(process)
    assert code == 70
    assert "killed what the command had left running" in err
    assert "term" in {what for what, _ in read_beats(beats)}
    assert read_beats(beats)[-1][1] < ends


def test_a_broken_lock_kills_at_the_next_renewal(holdfast: Holdfast, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    process = start_stubborn(holdfast, beats, ttl=3)
    assert holdfast.ask(["break", "--yes", "job"])[0][0] == 0
    code, _, err = finish(process)
    assert code == 70
    assert "is lost; another client may hold the lock; killed the command" in err


def test_a_holdfast_that_was_stopped_kills_when_it_goes_on(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    beats = tmp_path / "beats"
    process = start_stubborn(holdfast, beats, ttl=3)
    process.send_signal(signal.SIGSTOP)
    next_one = holdfast.run("run", "-w", "60", "job", "--", "true")
    assert next_one.returncode == 0, "its lease ended, and the next holder had its turn"
    process.send_signal(signal.SIGCONT)
    code, _, err = finish(process)
    assert code == 70
    assert "killed the command" in err


def test_a_command_that_ended_unwatched_after_the_loss_is_a_loss(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "--ttl", "3", "job", "-c", "echo $$; cat")
    command = int(line_of(process.stdout))
    process.send_signal(signal.SIGSTOP)
    with library.Client(holdfast.url) as client:
        eventually(lambda: client.inspect("job") is None)
    assert process.stdin
    process.stdin.close()
    process.stdin = None
    eventually(lambda: gone(command))
    process.send_signal(signal.SIGCONT)
    code, _, err = finish(process)
    assert code == 70
    assert "the command has ended, perhaps after the loss" in err


def test_a_lease_lost_during_min_hold_does_not_undo_the_command(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "--ttl", "3", "--min-hold", "600", "job", "-c", "echo $$")
    command = int(line_of(process.stdout))
    eventually(lambda: gone(command))
    assert holdfast.ask(["break", "--yes", "job"])[0][0] == 0
    code, _, err = finish(process)
    assert code == 0
    assert "was lost before --min-hold was over" in err


def test_a_lock_that_cannot_be_given_back_does_not_undo_the_command(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "--ttl", "6", "job", "-c", "echo held; cat; exit 5")
    assert line_of(process.stdout) == "held"
    with unreachable(holdfast):
        code, _, err = finish(process)
    assert code == 5
    assert "retrying in the background until it expires" in err


def test_a_pipe_that_takes_no_more_messages_keeps_nobody_from_killing(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    beats = tmp_path / "beats"
    command = ["--", sys.executable, "-c", STUBBORN, str(beats)]
    process = holdfast.start("run", "--ttl", "3", "job", *command, stderr=writer)
    stubborn = int(line_of(process.stdout).split()[1])
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 4096)
    os.set_blocking(writer, True)
    os.close(writer)
    with unreachable(holdfast) as ends:
        eventually(lambda: gone(stubborn))
    os.close(reader)
    assert finish(process)[0] == 70
    assert read_beats(beats)[-1][1] < ends


INSIDE = """
import sys
import holdfast
from holdfast.cli.child import Child
from holdfast.cli.hold import Request, _Run
from holdfast.cli.console import Output
from holdfast.cli.signals import Signals
from holdfast.cli.supervise import LossRule, Supervisor
from holdfast.cli.signals import Terminal

with Child(("sleep", "600")) as child, Signals() as signals:
    with holdfast.Client("memory://") as client:
        lease = client.lock("job").acquire()
        request = Request("job", ("sleep", "600"), None, None, None, "", "term", None)
        run = _Run(request, Output(), child, signals, Terminal())
        rule = LossRule("term", 5)
"""


def run_inside(script: str) -> subprocess.CompletedProcess[str]:
    """Run a few lines of Python in the middle of a `holdfast run`, just before its command."""
    lines = INSIDE + textwrap.indent(script, " " * 8)
    return subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=False
    )


def test_a_lease_lost_before_the_start_starts_nothing() -> None:
    done = run_inside("""
client.break_lock("job")
try:
    lease.extend()
except holdfast.LockLost:
    sys.exit(run._run_command(lease, rule))
""")
    assert done.returncode == 70
    assert "the command was not started" in done.stderr


def test_a_defect_in_holdfast_ends_the_command_before_the_lease() -> None:
    done = run_inside("""
Supervisor.watch = lambda self: 1 / 0
try:
    run._run_command(lease, rule)
except ZeroDivisionError:
    print(child._ended, lease.held)
""")
    assert done.stdout == "Ended(code=-9) True\n"
