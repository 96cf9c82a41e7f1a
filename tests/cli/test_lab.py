"""`holdfast lab list`, `holdfast lab run` and `holdfast lab demo`."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.lab.scenarios.catalogue import SCENARIOS

from .console import console
from .processes import Holdfast, eventually, finish, line_of

DEADLOCK = ("lab", "run", "deadlock", "--variant", "holdfast")


def test_list_tells_every_scenario_and_variant(holdfast: Holdfast) -> None:
    [(code, told, _)] = holdfast.ask(["lab", "list"])
    assert code == 0
    for scenario in SCENARIOS.values():
        assert f"{scenario.name}: {scenario.title}\n" in told
        for variant in scenario.variants:
            assert f"  {variant.name} " in told


def test_run_tells_the_story_the_picture_and_the_verdict(holdfast: Holdfast) -> None:
    done = holdfast.run(*DEADLOCK)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = [
        "deadlock: A holder dies",
        "A is killed while it holds the lock.",
        "holdfast: the same with holdfast",
        "A crashes",
        "B acquires job",
        "── waits",
        "expected  every promise is kept",
        "seen      the same",
        "why       The lock and its expiry",
        "as expected",
    ]
    places = [done.stdout.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_terminal_gets_colours() -> None:
    argv = ["/usr/bin/env", "-u", "NO_COLOR", sys.executable, "-m", "holdfast.cli", *DEADLOCK]
    with console(argv, {}) as screen:
        screen.expect("\x1b[1mdeadlock: ")
        screen.expect("\x1b[32mas expected")
        assert screen.expect_exit() == 0


def test_pictures_are_drawn_into_files(holdfast: Holdfast, tmp_path: Path) -> None:
    file = tmp_path / "picture.svg"
    done = holdfast.run("lab", "run", "pause", "--svg", str(file))
    assert done.returncode == 0
    assert "2 of 2 as expected" in done.stdout
    names = {path.name for path in tmp_path.glob("picture-*.svg")}
    assert names == {"picture-pause-writes-on.svg", "picture-pause-looks-again.svg"}
    assert all("<svg" in path.read_text() for path in tmp_path.glob("*.svg"))


def test_an_unknown_scenario_or_variant_is_a_usage_error(holdfast: Holdfast) -> None:
    no_scenario, no_variant, nothing = holdfast.ask(
        ["lab", "run", "paws"], ["lab", "run", "pause", "--variant", "sleeps"], ["lab", "run"]
    )
    assert no_scenario[0] == no_variant[0] == nothing[0] == 64
    assert "There is no scenario 'paws'. There are: deadlock, " in no_scenario[2]
    assert "There are: writes-on, looks-again." in no_variant[2]


WRONG = """
import sys
from dataclasses import replace
from holdfast.cli import main
from holdfast.lab.scenarios.catalogue import SCENARIOS

deadlock = SCENARIOS["deadlock"]
wrong = [replace(each, breaks=("no rule",)) for each in deadlock.variants]
SCENARIOS["deadlock"] = replace(deadlock, variants=wrong)
main()
"""
"""The program, expecting what will not be."""


def test_what_does_not_come_out_as_expected_is_exit_code_1() -> None:
    argv = [sys.executable, "-c", WRONG, *DEADLOCK]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "expected  no rule" in done.stdout
    assert "seen      every promise is kept" in done.stdout
    assert "NOT AS EXPECTED" in done.stdout


def test_without_a_compiler_it_says_what_to_install(holdfast: Holdfast, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    redis = shutil.which("redis-server")
    assert redis is not None
    (programs / "redis-server").symlink_to(redis)
    nowhere = {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = holdfast.run("lab", "run", "clock-jump", env=nowhere)
    assert done.returncode == 69
    assert "C compiler" in done.stderr
    assert "gcc" in done.stderr


def test_the_demo_kills_a_holder_and_finds_every_promise_kept(holdfast: Holdfast) -> None:
    done = holdfast.run("lab", "demo", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stdout + done.stderr
    # 10, if a busy machine has the killed one take its second turn before another its first.
    assert done.stdout.count(" acquires job") in (9, 10)
    assert done.stdout.count(" crashes") == 1
    assert "as expected" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("signum", "command"), [(signal.SIGTERM, ("run", "deadlock")), (signal.SIGINT, ("demo",))]
)
def test_a_signal_leaves_nothing_behind(
    holdfast: Holdfast, tmp_path: Path, signum: signal.Signals, command: tuple[str, ...]
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = holdfast.start("lab", *command, env={"TMPDIR": str(folder)})
    while " acquires job" not in line_of(process.stdout):
        assert process.poll() is None
    process.send_signal(signum)
    finish(process)
    assert process.returncode == -signum
    assert not list(folder.iterdir())
    eventually(lambda: not [p for p in commands() if str(folder) in p])


def commands() -> list[str]:
    """The command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text(errors="replace"))
        except OSError:  # it has just ended
            continue
    return found
