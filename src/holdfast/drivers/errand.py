"""Work that a Ctrl-C must not strike."""

import _thread
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def uninterruptible(work: Callable[[], T]) -> T:
    """Do something where a Ctrl-C cannot strike: it only ever strikes the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    errand = _Errand(work)
    interrupted: list[BaseException] = []
    while not errand.over:
        try:
            errand.begin()
            errand.done.acquire()
        except BaseException as error:  # noqa: BLE001 - raised again below, when the work is done
            interrupted.append(error)
    for ending in errand.raised + interrupted:
        raise ending
    return errand.outcome[0]


class _Errand(Generic[T]):
    """Something to be done once, by another thread, whatever strikes the one that begins it.

    A `Thread` that is struck while it starts may be started twice, or never come to run. So the
    starting is done by a thread too, by one that is simple enough: it is there, or it is not.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.outcome: list[T] = []
        self.raised: list[BaseException] = []
        self.done, self._begun = threading.Lock(), threading.Lock()
        self.done.acquire()

    @property
    def over(self) -> bool:
        """Whether it is done, or has failed."""
        return bool(self.outcome or self.raised)

    def begin(self) -> None:
        """Have it done, unless somebody does it already."""
        if not self._begun.locked():
            try:
                _thread.start_new_thread(self._begin, ())
            except RuntimeError:  # no thread can be had: then here, and hope that nothing strikes
                self._begin()

    def _begin(self) -> None:
        if self._begun.acquire(blocking=False):
            try:
                threading.Thread(target=self._do, name="holdfast-cleanup", daemon=False).start()
            except RuntimeError:
                self._do()

    def _do(self) -> None:
        try:
            self.outcome.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised where it belongs
            self.raised.append(error)
        finally:
            self.done.release()
