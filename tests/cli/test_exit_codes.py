"""Every exit code, one by one; 70, the lost lease, is in test_loss.py."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .processes import Holdfast, finish


@pytest.mark.parametrize("code", [0, 1, 70, 255])
def test_the_commands_own(holdfast: Holdfast, code: int) -> None:
    assert holdfast.run("run", "job", "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_128_and_the_signal_that_ended_it(holdfast: Holdfast, signum: int) -> None:
    done = holdfast.run("run", "job", "--", "sh", "-c", f"kill -{int(signum)} $$")
    assert done.returncode == 128 + signum


def test_75_at_once_if_it_is_held(holdfast: Holdfast) -> None:
    holder = holdfast.hold("job")
    refused = holdfast.run("run", "-n", "job", "--", "echo", "ran")
    assert refused.returncode == 75
    assert refused.stdout == ""
    assert refused.stderr.startswith("holdfast: 'job' is still held by ")
    assert f"pid {holder.pid}" in refused.stderr
    assert finish(holder)[0] == 0
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0


def test_75_after_the_timeout(holdfast: Holdfast) -> None:
    holdfast.hold("job")
    refused = holdfast.run("run", "-w", "0.1", "job", "--", "echo", "ran")
    assert refused.returncode == 75
    assert refused.stdout == ""
    assert "gave up after 0.1 s" in refused.stderr


def test_another_code_for_a_conflict(holdfast: Holdfast) -> None:
    holdfast.hold("job")
    assert holdfast.run("run", "-n", "-E", "9", "job", "--", "true").returncode == 9


@pytest.mark.parametrize("command", ["run", "show", "break", "ls"])
def test_69_if_the_engine_cannot_be_asked(holdfast: Holdfast, tmp_path: Path, command: str) -> None:
    database = tmp_path / "no-database"
    database.write_text("This is a letter to my aunt. " * 100)
    args = {"run": ["-n", "job", "--", "true"], "break": ["--yes", "job"], "show": ["job"]}
    failed = holdfast.run(command, "--url", f"sqlite:///{database}", *args.get(command, []))
    assert failed.returncode == 69
    assert failed.stderr.startswith("holdfast: ")
    assert "Traceback" not in failed.stderr


USAGE = {
    "no command line": [],
    "an unknown command": ["rnu"],
    "no name": ["run"],
    "no command": ["run", "job"],
    "nothing after --": ["run", "job", "--"],
    "a command and a line": ["run", "-c", "true", "job", "--", "true"],
    "an unknown option": ["run", "--nope", "job", "--", "true"],
    "an unknown option after the name": ["run", "job", "--nope", "--", "true"],
    "to wait and not to wait": ["run", "-n", "-w", "1", "job", "--", "true"],
    "loud and quiet": ["run", "-v", "-q", "job", "--", "true"],
    "a timeout that is no number": ["run", "-w", "nan", "job", "--", "true"],
    "an endless timeout": ["run", "-w", "inf", "job", "--", "true"],
    "a negative timeout": ["run", "-w", "-1", "job", "--", "true"],
    "a ttl of zero": ["run", "--ttl", "0", "job", "--", "true"],
    "a ttl of a week": ["run", "--ttl", "604800", "job", "--", "true"],
    "a kill-after of zero": ["run", "--kill-after", "0", "job", "--", "true"],
    "a kill-after as long as a renewal": [
        "run",
        "--ttl",
        "6",
        "--kill-after",
        "4",
        "job",
        "-c",
        ":",
    ],
    "an unknown rule for a loss": ["run", "--on-lost", "cry", "job", "--", "true"],
    "an exit code out of range": ["run", "-E", "256", "job", "--", "true"],
    "an empty name": ["run", "", "--", "true"],
    "a name that is too long": ["run", "x" * 513, "--", "true"],
    "an unknown engine": ["run", "--url", "gopher://x", "job", "--", "true"],
    "showing no name": ["show"],
    "showing an empty name": ["show", ""],
    "breaking an empty name": ["break", "--yes", ""],
}


@pytest.mark.parametrize("args", USAGE.values(), ids=USAGE.keys())
def test_64_for_what_makes_no_sense(holdfast: Holdfast, args: list[str]) -> None:
    refused = holdfast.run(*args)
    assert refused.returncode == 64
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""


def test_a_long_kill_after_is_explained(holdfast: Holdfast) -> None:
    refused = holdfast.run("run", "--kill-after", "20", "job", "--", "true")
    assert refused.returncode == 64
    assert "must be less than 2/3 of the ttl of 30 s" in refused.stderr
    assert "stopped for nothing" in refused.stderr


def test_126_if_it_cannot_be_executed(holdfast: Holdfast, tmp_path: Path) -> None:
    failed = holdfast.run("run", "job", "--", str(tmp_path))
    assert failed.returncode == 126
    assert failed.stderr.startswith(f"holdfast: cannot run '{tmp_path}': ")


def test_127_if_it_is_not_found(holdfast: Holdfast) -> None:
    failed = holdfast.run("run", "job", "--", "no-such-command")
    assert failed.returncode == 127
    assert failed.stderr.startswith("holdfast: cannot run 'no-such-command': ")
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0, "it is free again"


def test_help_names_every_exit_code(holdfast: Holdfast) -> None:
    text = holdfast.run("run", "--help").stdout
    for code in ("64", "69", "70", "75", "126", "127", "128"):
        assert f"  {code}" in text
