"""Waiting in tests: for what must come, with a limit that only a failure meets."""

import threading
from collections.abc import Callable

import pytest


def wait_for(condition: Callable[[], object]) -> None:
    """Look again and again until it holds; fail after ten seconds."""
    pause = threading.Event()
    for _ in range(2000):
        if condition():
            return
        pause.wait(0.005)
    pytest.fail("it did not happen")
