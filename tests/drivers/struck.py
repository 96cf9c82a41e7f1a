"""A program that does errands, and is struck in the middle of each: `python -m ... ROUNDS`.

It prints how many were done. One that was struck before it had begun is not done at all.
"""

import contextlib
import random
import signal
import sys
import time
from types import FrameType

from holdfast.drivers.errand import uninterruptible

SOON, LATER = 20e-6, 500e-6
"""Seconds until it is struck, about as long as it takes to start a thread."""


class Strike:
    """What a Ctrl-C does, at an instant that nobody foresees."""

    def __init__(self) -> None:
        self.over = False
        signal.signal(signal.SIGALRM, self._strike)
        signal.setitimer(signal.ITIMER_REAL, random.uniform(SOON, LATER))

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self.over = True
        raise KeyboardInterrupt


def errands(rounds: int) -> int:
    total = 0
    for _ in range(rounds):
        done: list[bool] = []
        with contextlib.suppress(KeyboardInterrupt):
            strike = Strike()
            uninterruptible(lambda done=done: done.append(True))  # type: ignore[misc]
            while not strike.over:
                time.sleep(LATER)
        assert len(done) <= 1, "done twice"
        total += len(done)
    return total


if __name__ == "__main__":
    print(errands(int(sys.argv[1])))
