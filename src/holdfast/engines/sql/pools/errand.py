"""Having something done by a thread, whatever strikes the one who sends it."""

import _thread
import threading
from collections.abc import Callable


def send(work: Callable[[], None]) -> None:
    """Have it done by a thread of its own. A `Thread` that is struck by a Ctrl-C while it starts
    may never come to run; so it is started by one that is simple enough to be there, or not.
    A `RuntimeError` if no thread can be had."""
    _thread.start_new_thread(_start, (work,))


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="holdfast-pool", daemon=True).start()
