"""Every exit code, one by one; 70, the lost lease, is in test_loss.py."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .processes import PATIENCE, Holdfast, finish


def test_the_commands_own(holdfast: Holdfast) -> None:
    codes = [0, 1, 70, 255]
    cases = [["run", "job", "--", "sh", "-c", f"exit {code}"] for code in codes]
    assert [code for code, _, _ in holdfast.run_each(*cases)] == codes


def test_the_signal_that_ended_it(holdfast: Holdfast) -> None:
    """Which a shell reports as 128 and more."""
    signals = [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV]
    cases = [["run", "job", "--", "sh", "-c", f"kill -{int(n)} $$"] for n in signals]
    assert [code for code, _, _ in holdfast.run_each(*cases)] == [-n for n in signals]
    shell = f"{sys.executable} -m holdfast.cli run --url {holdfast.url} job -c 'kill $$'; exit $?"
    assert subprocess.run(["sh", "-c", shell], timeout=PATIENCE).returncode == 128 + signal.SIGTERM


def test_75_if_it_is_held(holdfast: Holdfast) -> None:
    holder = holdfast.hold("job")
    cases = [
        ["run", "-n", "job", "--", "echo", "ran"],
        ["run", "-w", "0.1", "job", "--", "echo", "ran"],
        ["run", "-n", "-E", "9", "job", "--", "echo", "ran"],
        ["run", "-n", "-q", "job", "--", "echo", "ran"],
    ]
    at_once, waited, another, quiet = holdfast.run_each(*cases)
    assert [at_once[0], waited[0], another[0], quiet[0]] == [75, 75, 9, 75]
    assert at_once[1] == waited[1] == another[1] == quiet[1] == quiet[2] == ""
    assert at_once[2].startswith("holdfast: 'job' is still held by ")
    assert f"pid {holder.pid}" in at_once[2]
    assert "gave up after 0.1 s" in waited[2]
    assert finish(holder)[0] == 0
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0


def test_69_if_the_engine_is_unreachable(holdfast: Holdfast, tmp_path: Path) -> None:
    database = tmp_path / "no-database"
    database.write_text("This is a letter to my aunt. " * 100)
    cases = [["run", "-n", "job", "--", "true"], ["break", "--yes", "job"], ["show", "job"], ["ls"]]
    for code, _, err in holdfast.run_each(*cases, url=f"sqlite:///{database}"):
        assert code == 69
        assert err.startswith("holdfast: ")
        assert "Traceback" not in err


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
    "a port that does not exist": ["ui", "--port", "99999"],
    "an address without a port": ["elect", "--http", "localhost", "job", "--", "true"],
    "an address with no such port": ["elect", "--http", ":99999", "job", "--", "true"],
    "nobody to lead": ["elect", "boss"],
    "a term that is no number": ["elect", "--ttl", "x", "boss", "true"],
    "fewer seeds than none": ["lab", "simulate", "--seeds", "-4"],
    "showing no name": ["show"],
    "showing an empty name": ["show", ""],
    "breaking an empty name": ["break", "--yes", ""],
}

NUMBERS = ("99999", ":99999", "604800", "256", "-4", "nan", "inf", "-1")
"""Values of these that an error must name."""


def test_64_for_invalid_arguments(holdfast: Holdfast) -> None:
    answers = holdfast.run_each(*USAGE.values())
    for what, (code, out, err) in zip(USAGE, answers, strict=True):
        assert (what, code, out) == (what, 64, "")
        assert "Traceback" not in err
        assert not any(value in USAGE[what] and value not in err for value in NUMBERS)
    address = answers[list(USAGE).index("an address without a port")][2]
    assert "give [HOST]:PORT, with a port from 0 (any that is free) to 65535" in address
    explained = answers[list(USAGE).index("a kill-after as long as a renewal")][2]
    assert "must be less than 2/3 of the ttl of 6 s" in explained


@pytest.mark.parametrize("args", [["ls"], ["show", "job"], ["break", "--yes", "job"]])
def test_71_if_the_answer_cannot_be_written(holdfast: Holdfast, args: list[str]) -> None:
    """1 would say that the lock is free, or that it was not broken."""
    holder = holdfast.hold("job")
    with open("/dev/full", "w") as full:
        done = holdfast.run(*args, stdout=full)
    assert (done.returncode, done.stderr) == (71, "holdfast: [Errno 28] No space left on device\n")
    finish(holder)


def test_126_if_it_cannot_be_executed(holdfast: Holdfast, tmp_path: Path) -> None:
    failed = holdfast.run("run", "job", "--", str(tmp_path))
    assert failed.returncode == 126
    assert failed.stderr.startswith(f"holdfast: cannot run '{tmp_path}': ")


def test_127_if_it_is_not_found(holdfast: Holdfast) -> None:
    failed = holdfast.run("run", "job", "--", "no-such-command")
    assert failed.returncode == 127
    error = "holdfast: cannot run 'no-such-command': No such file or directory\n"
    assert failed.stderr == error
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0, "it is free again"


def test_help_names_every_exit_code(holdfast: Holdfast) -> None:
    [(_, text, _)] = holdfast.ask(["run", "--help"])
    for code in ("64", "69", "70", "71", "75", "126", "127"):
        assert f"  {code}" in text
