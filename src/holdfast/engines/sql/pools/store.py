"""The way to an SQL server for threads, over one connection of a user's pool.

One thread has the connection, and puts all requests, in the order in which they come. So a Ctrl-C,
which only ever strikes the main thread, can neither tear a conversation nor lose a connection that
the pool would miss; and what is asked next about a holder does not overtake what was asked before.
Somebody who is interrupted leaves the request to its end, and nobody hears the answer.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from holdfast.core.messages import Acquire, Answer, Failed, Request
from holdfast.engines.sql.blocking import Home, ServerStore
from holdfast.engines.sql.conversation import CONNECTING, all_busy
from holdfast.engines.sql.pools.errand import send

PATIENCE = 2 * CONNECTING
"""How much later than its time an answer may come: making a connection has a time of its own."""

CLOSING = 10.0
"""How long closing waits for the thread that has the connection."""


class _Job(NamedTuple):
    """Requests that are to be put, and where the outcome goes."""

    requests: Sequence[Request]
    until: float
    outcome: "SimpleQueue[Sequence[Answer] | Exception]"


class LentStore(ServerStore):
    """One server, for threads, by one connection that is lent to us."""

    def __init__(self, home: Home) -> None:
        super().__init__(home, 1)

    def _begin(self) -> None:
        super()._begin()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._begun = threading.Lock()
        self._worker = 0
        self._end: SimpleQueue[None] = SimpleQueue()

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request = requests[0]
        if isinstance(request, Acquire) and request.queue:
            # Here, since it may take a while that others need not wait for.
            self._listen(request.holder, until)
        job = _Job(requests, until, SimpleQueue())
        self._jobs.put(job)
        if not self._begun.locked():
            send(self._work)
        try:
            outcome = job.outcome.get(timeout=max(0.0, until - self._clock()) + PATIENCE)
        except Empty:
            return [Failed.at(self._home.speech.node, all_busy(1))] * len(requests)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """Give the connection back."""
        self._jobs.put(None)
        if self._begun.locked() and self._worker != threading.get_ident():
            with suppress(Empty):  # whatever is under way has its time
                self._end.put(self._end.get(timeout=CLOSING))  # for others who close
        super().close()

    def _work(self) -> None:
        if not self._begun.acquire(blocking=False):
            return  # somebody else does
        self._worker = threading.get_ident()
        while (job := self._jobs.get()) is not None:
            try:
                job.outcome.put(super().ask(job.requests, job.until))
            except Exception as error:  # noqa: BLE001 - raised where it belongs
                job.outcome.put(error)
        self._end.put(None)
