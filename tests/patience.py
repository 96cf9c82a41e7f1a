"""Waiting in tests: for what must come, with a limit that only a failure meets."""

import threading
from collections.abc import Callable

import pytest


def wait_for(condition: Callable[[], object], every: float = 0.005) -> None:
    """Look again and again until it holds, less and less often; fail after ten seconds without what
    the looking takes."""
    pause, paused = threading.Event(), 0.0
    while paused < 10:
        if condition():
            return
        next_one = max(every, paused / 20)
        pause.wait(next_one)
        paused += next_one
    pytest.fail("it did not happen")
