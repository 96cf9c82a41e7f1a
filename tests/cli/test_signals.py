"""Signals to `holdfast run`: before the lock is granted, while the command runs, and SIGKILL."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import holdfast as library

from .processes import Holdfast, eventually, finish, gone, line_of

# By the wake-up pipe, as a Python handler is called late for a signal that comes just before a read
# begins: with the next one.
TRAP = """
import os, signal, sys
numbers = [int(number) for number in sys.argv[1:]]
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
for number in numbers:
    signal.signal(number, lambda signum, frame: None)
print("ready", flush=True)
for _ in numbers:
    print(ord(os.read(reader, 1)), flush=True)
"""

FORWARDED = [
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH, signal.SIGCONT, signal.SIGABRT),
    *(signal.SIGURG, signal.SIGTSTP, signal.SIGRTMIN, signal.SIGRTMAX),
]


def test_every_signal_goes_to_the_command(holdfast: Holdfast) -> None:
    numbers = [str(int(signum)) for signum in FORWARDED]
    process = holdfast.start("run", "job", "--", sys.executable, "-c", TRAP, *numbers)
    assert line_of(process.stdout) == "ready"
    for number in numbers:
        process.send_signal(int(number))
        assert line_of(process.stdout) == number
    assert finish(process) == (0, "", "")


def test_a_signal_goes_to_all_that_the_command_has_started(holdfast: Holdfast) -> None:
    """The shell waits for its child before it acts on a trap, so the child must have got it too."""
    script = "trap 'echo shell' USR1; sh -c 'trap \"echo child; exit\" USR1; echo ready; cat'; :"
    process = holdfast.start("run", "job", "-c", script.replace("cat", "sleep 600 & wait"))
    assert line_of(process.stdout) == "ready"
    process.send_signal(signal.SIGUSR1)
    assert {line_of(process.stdout), line_of(process.stdout)} == {"child", "shell"}


def test_on_the_way_out_signals_are_ignored() -> None:
    """Python gives its own handlers up before it ends, and a signal would still kill it then."""
    program = (
        "import signal; from holdfast.cli.signals import Signals\n"
        "with Signals(): pass\n"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_what_was_ignored_stays_ignored_as_under_nohup(holdfast: Holdfast) -> None:
    """While it waits, and while the command runs."""
    holder = holdfast.hold("job")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by what is started now
    try:
        process = holdfast.start("run", "-v", "job", "-c", "echo held; cat")
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert "waiting" in line_of(process.stderr)
    process.send_signal(signal.SIGHUP)
    assert finish(holder)[0] == 0
    assert line_of(process.stdout) == "held"
    process.send_signal(signal.SIGHUP)
    assert finish(process)[0] == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_and_leaves_nothing(holdfast: Holdfast, signum: int) -> None:
    holder = holdfast.hold("job")
    waiter = holdfast.start("run", "-v", "job", "--", "echo", "ran")
    assert "waiting" in line_of(waiter.stderr)
    with library.Client(holdfast.url) as client:
        eventually(lambda: _waiters(client) == 1)
        for _ in range(3):  # people press Ctrl-C more than once
            waiter.send_signal(signum)
        code, out, err = finish(waiter)
        assert (code, out) == (-signum, "")
        assert err == "holdfast: stopped waiting for 'job'; nothing is held\n"
        assert _waiters(client) == 0
    assert finish(holder)[0] == 0
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0


def _waiters(client: library.Client) -> int | None:
    info = client.inspect("job")
    return info.waiters if info else None


def test_signals_without_effect_do_not_end_the_wait(holdfast: Holdfast) -> None:
    holder = holdfast.hold("job")
    waiter = holdfast.start("run", "-v", "job", "--", "echo", "ran")
    assert "waiting" in line_of(waiter.stderr)
    waiter.send_signal(signal.SIGWINCH)
    waiter.send_signal(signal.SIGCONT)
    finish(holder)
    assert finish(waiter)[:2] == (0, "ran\n")


def test_no_instant_of_a_run_loses_a_signal(holdfast: Holdfast) -> None:
    """Wherever it comes, the run ends by it, and the lock is free."""
    endless = ["run", "-v", "job", "--", "sleep", "600"]
    for steps in range(3):
        process = holdfast.start(*endless)
        for _ in range(steps):
            line_of(process.stderr)  # waiting, acquired
        if steps:
            process.terminate()
            assert finish(process)[0] == -signal.SIGTERM
        else:
            process.kill()
    assert holdfast.run("run", "-n", "job", "--", "true").returncode == 0


BOTH = "echo $$; sh -c 'echo $$; sleep 600; :' & wait"


def test_killing_holdfast_kills_the_command_and_all_it_has_started(holdfast: Holdfast) -> None:
    process = holdfast.start("run", "--ttl", "3", "job", "-c", BOTH)
    command, grandchild = int(line_of(process.stdout)), int(line_of(process.stdout))
    process.kill()
    eventually(lambda: gone(command))
    eventually(lambda: gone(grandchild))
    assert holdfast.run("run", "-w", "60", "job", "--", "true").returncode == 0


def test_killing_a_waiting_holdfast_leaves_no_process(holdfast: Holdfast) -> None:
    holdfast.hold("job")
    waiter = holdfast.start("run", "-v", "job", "--", "echo", "ran")
    assert "waiting" in line_of(waiter.stderr)
    waiter.kill()
    assert finish(waiter)[1] == "", "its stdout was closed, so nothing of it is left"
