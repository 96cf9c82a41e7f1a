"""The command's process, before and after it becomes the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.child import Child, Ended, Stopped

from .processes import eventually, gone, line_of


def outcome(child: Child) -> Ended | Stopped:
    state = eventually(child.poll)
    assert state
    return state


def test_a_file_that_is_no_program_is_126(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script"
    script.write_text("echo no first line")
    script.chmod(0o755)
    with Child((str(script),)) as child:
        child.start({})
        assert outcome(child) == Ended(126)
    assert "needs a first line such as #!/bin/sh" in capfd.readouterr().err


def test_nothing_runs_before_the_start_nor_without_it(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with Child(("touch", str(ran))) as child:
        assert child.poll() is None
    assert gone(child.pid)
    assert not ran.exists()


def test_a_gate_that_closes_unopened_ends_it(tmp_path: Path) -> None:
    """As when holdfast dies while it waits, even where the kernel does not kill with the parent."""
    ran = tmp_path / "ran"
    with Child(("touch", str(ran))) as child:
        os.close(child._gate)
        child._gate = -1
        assert outcome(child) == Ended(0)
    assert not ran.exists()


def test_it_finds_what_start_adds_to_the_environment(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLD", "kept")
    monkeypatch.setenv("BOTH", "old")
    with Child(("sh", "-c", 'echo "$OLD,$BOTH,$ODD"')) as child:
        child.start({"BOTH": "new", "ODD": "a=b\nc ü" + "x" * 100_000})
        assert outcome(child) == Ended(0)
    assert capfd.readouterr().out == "kept,new,a=b\nc ü" + "x" * 100_000 + "\n"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sent_before_the_start_acts_at_the_start(tmp_path: Path, signum: int) -> None:
    ran = tmp_path / "ran"
    with Child(("touch", str(ran))) as child:
        child.send(signum)
        child.start({})
        assert outcome(child) == Ended(-signum)
    assert not ran.exists()


def test_it_tells_when_it_is_suspended_and_goes_on() -> None:
    with Child(("sh", "-c", "kill -STOP $$; exit 3")) as child:
        child.start({})
        assert outcome(child) == Stopped(signal.SIGSTOP)
        assert child.poll() is None
        child.send(signal.SIGCONT)
        assert outcome(child) == Ended(3)


def children() -> set[str]:
    """Also those that have ended, and were not waited for. (Other tests may have left servers.)"""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_closing_kills_what_still_runs_and_leaves_nothing() -> None:
    before, files = children(), set(os.listdir("/proc/self/fd"))
    with Child(("sleep", "600")) as child:
        child.start({})
        assert children() > before
    assert gone(child.pid)
    assert set(os.listdir("/proc/self/fd")) == files
    assert children() <= before


def run_in_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )


SHOW_SIGNALS = ("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")


def test_the_command_gets_the_signals_as_holdfast_found_them() -> None:
    script = f"""
import signal
from holdfast.cli.child import Child
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, print)
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR2}})
with Child({SHOW_SIGNALS}) as child:
    child.start({{}})
    while not child.poll(): signal.sigwait({{signal.SIGCHLD}})
"""
    script = script.replace("SIG_BLOCK, {", "SIG_BLOCK, {signal.SIGCHLD, ")
    blocked, ignored = (
        int(line.split()[1], 16) for line in run_in_python(script).stdout.splitlines()
    )
    ordinary = (1 << 31) - 1  # whoever started the tests may have a realtime signal ignored
    assert ignored & ordinary == 1 << signal.SIGHUP - 1
    assert blocked == 1 << signal.SIGUSR2 - 1 | 1 << signal.SIGCHLD - 1


ORPHANS = """
import os, sys
from holdfast.cli.child import Child
with Child(("sh", "-c", "echo $$; sh -c 'echo $$; sleep 600; :' & wait")) as child:
    child.start({})
    os.kill(child._watchdog, 9)
    sys.stdin.read()
"""


def test_without_a_watchdog_it_dies_with_holdfast() -> None:
    """The kernel kills the command, though not what it has started."""
    with subprocess.Popen(
        [sys.executable, "-c", ORPHANS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holdfast:
        command, grandchild = int(line_of(holdfast.stdout)), int(line_of(holdfast.stdout))
        holdfast.kill()
        eventually(lambda: gone(command))
        os.kill(grandchild, signal.SIGKILL)
