"""Waiting in tests: for what must come, with a limit that only a failure meets."""

import threading
from collections.abc import Callable

import pytest


def wait_for(condition: Callable[[], object], every: float = 0.005) -> None:
    """Look again and again until it holds; fail after ten seconds."""
    pause = threading.Event()
    for _ in range(round(10 / every)):
        if condition():
            return
        pause.wait(every)
    pytest.fail("it did not happen")
