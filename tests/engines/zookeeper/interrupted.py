"""A program that is interrupted while it takes a lock, again and again: `... URL ROUNDS`.

It ends with an error if it raises anything but the interruption, or if the lock is not free then.
"""

import contextlib
import random
import signal
import sys
from types import FrameType

import holdfast

SOON, LATER = 20e-6, 500e-6
"""Seconds until it is interrupted."""


class Interruption:
    """What a Ctrl-C does, at a random instant."""

    def __init__(self) -> None:
        self.over = False
        signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, random.uniform(SOON, LATER))

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.over = True
        raise KeyboardInterrupt


TTL = 3.0
"""What was granted at the very instant of a interruption is nobody's, and ends with its ttl."""


def take(client: holdfast.Client) -> None:
    lease = None
    with contextlib.suppress(KeyboardInterrupt):
        interruption = Interruption()
        while not interruption.over:
            lease = client.lock("interrupted", ttl=TTL).acquire(timeout=30)
            give_back(lease)
    give_back(lease)  # it may be that nothing was done yet


def give_back(lease: holdfast.Lease | None) -> None:
    if lease is not None:
        with contextlib.suppress(holdfast.LockError):  # a busy machine is none of our business
            lease.release()


def main(url: str, rounds: int) -> None:
    with holdfast.Client(url) as client:
        give_back(client.lock("interrupted", ttl=TTL).acquire(timeout=30))  # connected from here on
        for _ in range(rounds):
            take(client)
            lease = client.lock("interrupted", ttl=TTL).acquire(timeout=30)
            assert lease, "somebody still has it"
            give_back(lease)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
