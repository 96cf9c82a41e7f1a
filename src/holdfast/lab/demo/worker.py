"""The command that runs under the lock: it writes down when it began, that it lives, and its end.

It is run as a script, `worker.py LOG SECONDS`, and imports nothing of holdfast, so that it begins
as soon as the lock is taken.
"""

import os
import sys
import time

HEARTBEAT = 0.01
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """An instant that every process of this host agrees on."""
    return time.clock_gettime(_CLOCK)


def main(log: str, seconds: str) -> None:
    """Work for `seconds` under the fence that `holdfast run` has put into the environment."""
    began = clock()
    ends_at = began + float(seconds)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"began {began!r} {os.environ['HOLDFAST_FENCE']}\n".encode())
    while (now := clock()) < ends_at:
        os.write(file, f"alive {now!r}\n".encode())
        time.sleep(min(HEARTBEAT, ends_at - now))
    os.write(file, f"ended {clock()!r}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
