"""Waiting for a server to come to a state, with a limit."""

import contextlib
import time
from collections.abc import Callable

from holdfast.lab.servers.process import ServerFailed
from holdfast.lab.servers.resp import Refused


def wait_until(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Look again and again until it holds. No answer, or an error for one, means not yet."""
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        with contextlib.suppress(OSError, Refused):
            if condition():
                return
        time.sleep(0.01)
    raise ServerFailed(f"no {what} within {seconds:g} s")
