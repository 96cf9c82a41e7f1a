"""The terminal: it is the command's while that runs, and job control works as without holdfast."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import holdfast as library

from .console import CTRL_C, CTRL_Z, Console, console, job
from .processes import Holdfast, eventually, state

RUN = [sys.executable, "-m", "holdfast.cli", "run"]
Start = Callable[[list[str], dict[str, str]], AbstractContextManager[Console]]
READ = 'echo ready; read line; echo "got $line"'


def environment(holdfast: Holdfast) -> dict[str, str]:
    return {"HOLDFAST_URL": holdfast.url, "PYTHON": sys.executable}


@pytest.mark.parametrize("start", [console, job])
def test_the_command_reads_from_the_terminal(holdfast: Holdfast, start: Start) -> None:
    with start([*RUN, "job", "-c", READ], environment(holdfast)) as screen:
        screen.expect("ready")
        screen.type("hello\n")
        screen.expect("got hello")
        assert screen.expect_exit() == 0


def test_its_group_is_the_foreground_and_not_holdfasts(holdfast: Holdfast) -> None:
    script = "import os; print(os.tcgetpgrp(0) == os.getpgrp() != os.getpgid(os.getppid()))"
    with job([*RUN, "job", "--", sys.executable, "-c", script], environment(holdfast)) as screen:
        screen.expect("True")
        screen.expect("[exit 0]")


# Not a shell: what it gets just before it reads, it deals with after it has read.
COUNTS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
print("caught", flush=True)
input()
print("caught again" if signal.sigpending() else "end")
"""


@pytest.mark.parametrize("start", [console, job])
def test_ctrl_c_reaches_the_command_once(holdfast: Holdfast, start: Start) -> None:
    command = [*RUN, "job", "--", sys.executable, "-c", COUNTS]
    with start(command, environment(holdfast)) as screen:
        screen.expect("ready")
        screen.type(CTRL_C)
        screen.expect("caught")
        screen.type("now\n")
        assert "caught" not in screen.expect("end")


def test_ctrl_c_ends_the_wait(holdfast: Holdfast) -> None:
    holdfast.hold("job")
    with console([*RUN, "-v", "job", "--", "true"], environment(holdfast)) as screen:
        screen.expect("waiting")
        screen.type(CTRL_C)
        screen.expect("nothing is held")
        assert screen.expect_exit() == -signal.SIGINT


# Not a shell: what it gets just before it starts a command, it may ignore.
ENDLESS = "import signal; signal.signal(2, signal.SIG_DFL); print('rea' + 'dy', flush=True); "
LOOP = f"""
for i in 1 2 3; do "$PYTHON" -m holdfast.cli run job -- "$PYTHON" -c "{ENDLESS}signal.pause()"; done
""".strip()


def test_ctrl_c_ends_a_script_around_it(holdfast: Holdfast) -> None:
    """Ctrl-C goes to the foreground, which is the command alone."""
    with job(["/bin/sh", "-c", f"{LOOP}; echo went on"], environment(holdfast)) as screen:
        screen.expect("ready")
        screen.type(CTRL_C)
        assert "ready" not in screen.expect(f"[exit {-signal.SIGINT:d}]")


def test_ctrl_c_ends_a_loop_at_the_prompt(holdfast: Holdfast) -> None:
    argv = ["/bin/bash", "--norc", "--noprofile", "-i"]
    with console(argv, environment(holdfast)) as screen:
        screen.type(f"{LOOP}\n")
        screen.expect("ready")
        screen.type(CTRL_C)
        screen.type("echo at the $((1)) prompt\n")
        assert "ready" not in screen.expect("at the 1 prompt")
        screen.type("exit\n")


def test_the_terminal_is_given_back(holdfast: Holdfast) -> None:
    script = '"$PYTHON" -m holdfast.cli run job -- true; read line; echo "shell got $line"'
    with job(["/bin/sh", "-c", script], environment(holdfast)) as screen:
        screen.type("hello\n")
        screen.expect("shell got hello")
        screen.expect("[exit 0]")


def test_ctrl_z_suspends_both_and_fg_continues_both(holdfast: Holdfast) -> None:
    script = 'echo "pid $$."; read line; echo "got $line"'
    with job([*RUN, "--ttl", "600", "job", "-c", script], environment(holdfast)) as screen:
        screen.expect("pid ")
        command = int(screen.expect("."))
        for _ in range(2):
            screen.type(CTRL_Z)
            screen.expect(f"[stopped by {signal.SIGTSTP:d}]")
            assert state(command) == "T"
            screen.type("fg\n")
            eventually(lambda: state(command) != "T")
        screen.type("hello\n")
        screen.expect("got hello")
        screen.expect("[exit 0]")


def test_a_command_that_suspends_itself_is_mirrored_too(holdfast: Holdfast) -> None:
    """Some programs do that on Ctrl-Z; continued, they expect to be in the foreground."""
    check = "import os; print(os.tcgetpgrp(0) == os.getpgrp())"
    script = f"kill -STOP $$; exec $PYTHON -c '{check}'"
    with job([*RUN, "--ttl", "600", "job", "-c", script], environment(holdfast)) as screen:
        screen.expect("[stopped by")
        screen.type("fg\n")
        screen.expect("True")
        screen.expect("[exit 0]")


def test_ctrl_z_where_no_shell_could_continue_changes_nothing(holdfast: Holdfast) -> None:
    with console([*RUN, "job", "-c", READ], environment(holdfast)) as screen:
        screen.expect("ready")
        screen.type(CTRL_Z)
        screen.type("hello\n")
        screen.expect("got hello")
        assert screen.expect_exit() == 0


def test_ctrl_z_after_the_command_has_ended(holdfast: Holdfast) -> None:
    """It suspends holdfast, which keeps the lock, as it does before the command."""
    argv = [*RUN, "--ttl", "600", "--min-hold", "600", "job", "-c", "echo pid $PPID."]
    with job(argv, environment(holdfast)) as screen:
        screen.expect("pid ")
        ours = int(screen.expect("."))
        eventually(lambda: screen.foreground == ours)
        screen.type(CTRL_Z)
        screen.expect(f"[stopped by {signal.SIGTSTP:d}]")
        screen.type("fg\n")
        eventually(lambda: screen.foreground == ours)
        screen.type(CTRL_C)
        screen.expect("before --min-hold was over")
        screen.expect("[exit 0]")


def test_in_the_background_it_stops_when_it_reads_and_fg_lets_it(holdfast: Holdfast) -> None:
    argv = [*RUN, "--ttl", "600", "job", "-c", READ]
    with job(argv, environment(holdfast), "bg") as screen:
        screen.expect("ready")
        screen.expect(f"[stopped by {signal.SIGTTIN:d}]")
        screen.type("bg\n")
        screen.expect(f"[stopped by {signal.SIGTTIN:d}]")
        screen.type("fg\n")
        screen.type("hello\n")
        screen.expect("got hello")
        screen.expect("[exit 0]")


def test_where_nobody_can_give_it_the_terminal_it_is_killed(holdfast: Holdfast) -> None:
    """It would hold the lock for ever, suspended."""
    script = f'"$PYTHON" -m holdfast.cli run job -c \'{READ}\'; echo "[code $?]"'
    with job(["/bin/sh", "-c", script], environment(holdfast), "orphan") as screen:
        screen.expect("ready")
        screen.expect(f"[code {128 + signal.SIGKILL}]")


def test_in_a_pipeline_the_neighbour_keeps_the_terminal(holdfast: Holdfast) -> None:
    neighbour = '{ read word; read line </dev/tty; echo "$word $line"; }'
    script = f'"$PYTHON" -m holdfast.cli run job -c "echo neighbour; sleep 0.1" | {neighbour}'
    with job(["/bin/sh", "-c", script], environment(holdfast)) as screen:
        screen.type("hello\n")
        screen.expect("neighbour hello")
        screen.expect("[exit 0]")


def test_in_a_pipeline_the_command_gets_the_terminal_when_it_asks(holdfast: Holdfast) -> None:
    script = f"\"$PYTHON\" -m holdfast.cli run job -c '{READ}' </dev/tty | cat"
    with job(["/bin/sh", "-c", script], environment(holdfast)) as screen:
        screen.expect("ready")
        screen.type("hello\n")
        screen.expect("got hello")
        screen.expect("[exit 0]")


def test_in_a_pipeline_ctrl_c_reaches_the_command(holdfast: Holdfast) -> None:
    line = 'trap "echo caught; exit" INT; echo ready; while :; do sleep 0.1; done'
    script = f"trap : INT; \"$PYTHON\" -m holdfast.cli run job -c '{line}' | (trap '' INT; cat)"
    with job(["/bin/sh", "-c", script], environment(holdfast)) as screen:
        screen.expect("ready")
        screen.type(CTRL_C)
        screen.expect("caught")
        screen.expect("[exit 0]")


@pytest.mark.slow
def test_a_lease_lost_while_suspended_kills_before_it_continues(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    continued = tmp_path / "continued"
    script = f"echo ready; kill -TSTP $$; touch {continued}"
    with job([*RUN, "--ttl", "3", "job", "-c", script], environment(holdfast)) as screen:
        screen.expect(f"[stopped by {signal.SIGTSTP:d}]")
        with library.Client(holdfast.url) as client:
            eventually(lambda: client.inspect("job") is None)
        screen.type("fg\n")
        screen.expect("is lost; another client may hold the lock; killed the command")
        screen.expect("[exit 70]")
    assert not continued.exists()
