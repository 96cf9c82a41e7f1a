"""Another thread, between any two lines of this one."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SOON = 0.05
"""Seconds until a thread that has not ended is taken to wait for this one."""


@contextmanager
def meanwhile(line: int, functions: tuple[str, ...], do: Callable[[], object]) -> Iterator[None]:
    """Within its block, another thread begins `do` just before the nth line of these functions,
    and goes on until it waits for this thread. It has ended when the block has."""
    other, left = threading.Thread(target=do), line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_name not in functions:
            return None
        if event == "line":
            left -= 1
            if left == -1:
                other.start()
                other.join(SOON)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        if left >= 0:
            other.start()
        other.join()
