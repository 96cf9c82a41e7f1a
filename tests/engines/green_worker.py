"""A process whose threads are green: it takes locks, waits for them, and keeps one.

Arguments: the library, and the URL.
"""
# ruff: noqa: E402 - all of these are patched first
# mypy: disable-error-code="import-untyped"

import sys

LIBRARY, URL = sys.argv[1:]
if LIBRARY == "gevent":
    from gevent import monkey

    monkey.patch_all()
else:
    import eventlet

    eventlet.monkey_patch()

import threading
import time

import holdfast

fences: list[int] = []
over = threading.Event()
ticks: list[float] = []


def tick() -> None:
    """Show that the others can run meanwhile."""
    while not over.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.01)


def take_turns(client: holdfast.Client) -> None:
    for _ in range(3):
        with client.lock("door", timeout=60) as lease:
            fences.append(lease.fence)
            time.sleep(0.005)


def main() -> None:
    with holdfast.Client(URL, ttl=4) as ann, holdfast.Client(URL, ttl=4) as bob:
        threads = [threading.Thread(target=take_turns, args=(who,)) for who in (ann, bob) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert fences == sorted(set(fences))
        assert len(fences) == 12
        with ann.lock("kept", timeout=60) as lease:
            threading.Thread(target=tick).start()
            assert bob.lock("kept").acquire(timeout=2) is None
            over.set()
            lease.ensure_held()
    assert len(ticks) > 20, "one who waits stops all the others"
    print("done")


main()
