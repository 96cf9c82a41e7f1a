"""A process that is interrupted at one line after the other: `interrupted.py URL STEP TTL`.

It takes and releases a lock, again and again, interrupted each time a few lines later: with a
client that has not connected yet, with one that has, and while another client holds the lock. After
each time its client must still work, and the lock be free for all, at once or after its ttl.
"""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import holdfast

from .interrupting import Interruption

HOLDFAST = str(Path(holdfast.__file__).parent)


def play(url: str, situation: str, step: int, ttl: float) -> None:
    ann, ben = holdfast.Client(url, ttl=ttl), holdfast.Client(url)  # of `ben`, nothing is lost
    with suppress(holdfast.LockLost), ann.lock("warm-up"), ben.lock("warm-up as well"):
        pass
    for line in itertools.count(0, step):
        if situation == "first use":
            ann.close()
            ann = holdfast.Client(url, ttl=ttl)
        name = f"door {line}, {situation}"
        kept = ben.lock(name).acquire() if situation == "held" else None
        interruption = Interruption(line, (HOLDFAST,))
        # On a busy machine 20 ms may be too little for an answer, and a ttl for connecting.
        with (
            suppress(KeyboardInterrupt, holdfast.EngineUnavailable, holdfast.LockLost),
            interruption,
        ):
            lease = ann.lock(name).acquire(timeout=60 if kept is None else 0.02)
            if lease is not None:
                lease.release()
        if kept is not None:
            kept.release()
        try:
            for who in (ann, ben):
                with who.lock(name, timeout=60):
                    pass
        except holdfast.LockError as error:
            error.add_note(f"interrupted in {interruption.where}")
            raise
        if not interruption.happened:
            break
    ann.close()
    ben.close()
    print(line)


if __name__ == "__main__":
    logging.disable()
    # A Ctrl-C within a finalizer is dropped by Python, and a socket may be left to the collector.
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    for each in ("first use", "free", "held"):
        play(sys.argv[1], each, int(sys.argv[2]), float(sys.argv[3]))
