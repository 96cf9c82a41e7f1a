"""A thread that talks for the main thread.

A Ctrl-C strikes the main thread wherever it is, and one that strikes within gRPC leaves locks of
gRPC locked for ever. So the main thread only ever waits for its deputy, and whoever tidies up after
a Ctrl-C waits first until the deputy has done what it was at.
"""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import NamedTuple

from holdfast.core.messages import Answer, Request
from holdfast.engines.etcd.phrases import holder_of


class Job(NamedTuple):
    """What to do, and whom to tell of its outcome."""

    work: Callable[[], Sequence[Answer]]
    outcome: "SimpleQueue[Sequence[Answer] | Exception]"


class Deputy:
    """Does one thing after the other."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._holder = ""
        self._thread = threading.Thread(target=self._serve, name="holdfast-etcd", daemon=True)
        self._thread.start()

    def ask(
        self, work: Callable[[], Sequence[Answer]], requests: Sequence[Request]
    ) -> Sequence[Answer]:
        """Have it done, and wait for the answers."""
        job = Job(work, SimpleQueue())
        self._holder = holder_of(requests)
        self._idle.clear()
        self._jobs.put(job)
        outcome = job.outcome.get()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def let_finish(self, requests: Sequence[Request], seconds: float) -> None:
        """Wait until nothing is under way for the holder of these requests."""
        if self._holder == holder_of(requests):
            self._idle.wait(max(0.0, seconds))

    def close(self) -> None:
        """End it."""
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job.outcome.put(job.work())
            except Exception as error:  # noqa: BLE001 - raised again where it belongs
                job.outcome.put(error)
            finally:
                self._idle.set()
            del job
