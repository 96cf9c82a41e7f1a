"""Work that a Ctrl-C must not strike."""

import subprocess
import sys

import pytest

from holdfast.drivers.errand import uninterruptible

ROUNDS = 500


@pytest.mark.slow
def test_a_strike_while_the_thread_starts() -> None:
    """A `Thread` that is struck then may be started twice, or keep everybody waiting for ever."""
    command = [sys.executable, "-m", "tests.drivers.struck", str(ROUNDS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert "KeyError" not in ran.stderr, "started twice"
    assert int(ran.stdout) > 0


def test_what_it_gives_and_what_it_raises() -> None:
    assert uninterruptible(lambda: "done") == "done"
    with pytest.raises(ZeroDivisionError):
        uninterruptible(lambda: 1 // 0)
