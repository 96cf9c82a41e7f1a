"""A process whose threads are green (gevent or eventlet): it takes locks, waits, and loses one.

Arguments: the library, the URL, a ttl that runs out soon. Prints `done`, or `refused: ...`.
"""
# ruff: noqa: E402 - all of these are patched first
# mypy: disable-error-code="import-untyped"

import sys

LIBRARY, URL, SHORT = sys.argv[1:]
if LIBRARY == "gevent":
    from gevent import monkey

    monkey.patch_all()
else:
    import eventlet

    eventlet.monkey_patch()

import threading
import time
from collections.abc import Callable

import holdfast

TICKS = 20
MANY_TICKS = 130  # over a second
GIVE_UP = 60.0

ticks = 0
over = threading.Event()


def tick() -> None:
    """Show that the others can run meanwhile."""
    global ticks
    while not over.is_set():
        ticks += 1
        time.sleep(0.01)


def wait_for(condition: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + GIVE_UP
    while not condition():
        assert time.monotonic() < give_up_at, "it did not happen"
        time.sleep(0.01)


def contend(ann: holdfast.Client, ben: holdfast.Client) -> None:
    """Several threads of two clients take turns."""
    fences: list[int] = []

    def take_turns(client: holdfast.Client) -> None:
        for _ in range(3):
            with client.lock("door", timeout=GIVE_UP) as lease:
                fences.append(lease.fence)
                time.sleep(0.005)

    threads = [threading.Thread(target=take_turns, args=(who,)) for who in (ann, ben) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fences) == 12
    assert fences == sorted(set(fences))


def wait_while_others_run(ann: holdfast.Client, ben: holdfast.Client) -> None:
    """The lock is released only once the ticker has run beside the waiters, and each of them has
    looked whether the other one still reads for it."""
    held = ann.lock("kept", timeout=GIVE_UP).acquire()
    assert held
    got: list[int] = []

    def wait() -> None:
        with ben.lock("kept", timeout=GIVE_UP) as lease:
            got.append(lease.fence)

    waiting = [threading.Thread(target=wait) for _ in range(2)]
    before = ticks
    for thread in waiting:
        thread.start()
    wait_for(lambda: ticks > before + MANY_TICKS)
    assert not got
    held.release()
    for thread in waiting:
        thread.join()
    assert len(got) == 2, "the wait went on until its timeout: a waiter stops all the others"
    assert held.fence < got[0] < got[1]


def lose(ann: holdfast.Client, ben: holdfast.Client) -> None:
    """The holder is told, and another gets the lock."""
    told: list[bool] = []
    lease = ann.lock("fleeting", ttl=float(SHORT), renew=False, timeout=GIVE_UP).acquire()
    assert lease
    lease.on_lost(lambda lost: told.append(lost.lost))
    later = ben.lock("fleeting", timeout=GIVE_UP).acquire()
    assert later
    assert lease.lost
    assert later.fence > lease.fence
    wait_for(lambda: told)
    assert told == [True]
    later.release()


def close(ann: holdfast.Client, ben: holdfast.Client) -> None:
    """Closing ends the wait, and the other greenlets go on."""
    held = ann.lock("kept", timeout=GIVE_UP).acquire()
    assert held
    sent_away: list[bool] = []

    def wait() -> None:
        try:
            ben.lock("kept").acquire(timeout=GIVE_UP)
        except holdfast.ClientClosed:
            sent_away.append(True)

    waiting = threading.Thread(target=wait)
    before = ticks
    waiting.start()
    wait_for(lambda: ticks > before + TICKS)
    ben.close()
    waiting.join()
    assert sent_away
    held.release()


def main() -> None:
    try:
        clients = holdfast.Client(URL), holdfast.Client(URL)
    except RuntimeError as refusal:
        print(f"refused: {refusal}")
        return
    ticker = threading.Thread(target=tick)
    ticker.start()
    with clients[0] as ann, clients[1] as ben:
        contend(ann, ben)
        wait_while_others_run(ann, ben)
        lose(ann, ben)
        close(ann, ben)
        over.set()
    ticker.join()
    print("done")


main()
