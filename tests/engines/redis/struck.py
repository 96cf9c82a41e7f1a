"""A program that is struck while it takes and gives back a lock: `python -m ... URL WHAT`.

ROUNDS  again and again; what the server says is still understood: the next fence is the one on
        its counter
wait    once, while the server is silent
alarm   the same, by an error that a connection might raise, too
storm   by signals that mean nothing, while the server is silent
"""

import contextlib
import random
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import redis

import holdfast

SOON, LATER = 5e-6, 250e-6
"""Seconds until it is struck: within about two exchanges with the server."""


def strike(number: int, frame: FrameType | None) -> None:
    """What a Ctrl-C does, at an instant that nobody foresees."""
    print("struck", flush=True)
    raise KeyboardInterrupt


def alarm(number: int, frame: FrameType | None) -> None:
    """What a program may do that gives itself a time for something. It is an `OSError`."""
    raise TimeoutError("too late")


def ignore(number: int, frame: FrameType | None) -> None:
    """What a program may do that looks after something now and then."""


def is_struck(lock: holdfast.Lock) -> bool:
    """Take it and give it back, unless struck. Struck just as it is handed out, it is left behind,
    until its ttl is over."""
    lease = None
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(SOON, LATER))
        lease = lock.acquire()
        assert lease is not None
        lease.release()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        if lease is not None and lease.held:
            lease.release()  # struck between the two
        return True
    return False


def again_and_again(url: str, rounds: int) -> int:
    """How often it was struck in the middle."""
    counter = redis.Redis.from_url(url)
    strikes = 0
    with holdfast.Client(url) as client:
        for number in range(rounds):
            strikes += is_struck(client.lock(f"job {number}"))  # which may be left, see `is_struck`
            with client.lock(f"other {number}") as lease:
                fence = counter.get(f"{{holdfast:other {number}}}:fence")
                assert fence == str(lease.fence).encode(), "out of step"
    return strikes


def while_it_waits(url: str) -> bool:
    """Whether what follows goes out on the same connection, behind what was not answered yet."""
    with holdfast.Client(url) as client:
        lock = client.lock("job")
        with lock:
            pass
        store: Any = client._driver._store
        [circuit] = store._all
        [link] = circuit._links
        print("ready", flush=True)
        sys.stdin.readline()
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # it has given up reading, and waits
        with contextlib.suppress(KeyboardInterrupt):
            lock.acquire()
        return circuit._links == [link] and not lock.locked()


def meanwhile(url: str, act: Callable[[holdfast.Lock], object]) -> None:
    """What becomes of it while the server is silent."""
    with holdfast.Client(url) as client:
        lock = client.lock("job", ttl=3)
        with lock:
            pass
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            act(lock)
        except Exception as error:
            print(type(error).__name__, flush=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdin.readline()


def with_an_alarm(lock: holdfast.Lock) -> None:
    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    lock.acquire()


def under_a_storm(lock: holdfast.Lock) -> None:
    signal.signal(signal.SIGALRM, ignore)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    lock.acquire(timeout=0.5)


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, strike)
    url, what = sys.argv[1:]
    if what == "wait":
        print(while_it_waits(url))
    elif what in ("alarm", "storm"):
        meanwhile(url, with_an_alarm if what == "alarm" else under_a_storm)
    else:
        print(again_and_again(url, int(what)))
