"""The way to an SQL server for threads. A thread takes a connection that is free, or makes another.

What makes a holder's lock, or ends it, does not overtake what was sent before about that holder: a
Ctrl-C may have interrupted the wait for an answer, and then the next request about this holder goes
out on the same connection, behind it. A connection whose answer did not come in time is closed; the
dialect sees to it that what was said on it does nothing any more.
"""

import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

from holdfast.core.messages import Acquire, Answer, Failed, Request
from holdfast.core.ports import Clock
from holdfast.engines.sql.conversation import (
    Pause,
    Speech,
    Steps,
    all_busy,
    check_time,
    connecting_until,
    converse,
    holder_of,
    time_to_answer,
)
from holdfast.engines.sql.links import CLOSED, BrokenError, Link, RefusedError, SqlError
from holdfast.engines.sql.waiting import Listener, Waiting


class Home(Protocol):
    """One server, as a dialect has it."""

    clock: Clock
    speech: Speech
    waiting: Waiting

    def open(self, until: float) -> Link:
        """Connect; raises a `BrokenError` if that fails."""
        ...

    def listen(self) -> Listener:
        """Begin to hear wake-ups."""
        ...

    def leave(self) -> None:
        """All links are closed: wait until nothing is left of them."""
        ...

    def forget(self) -> None:
        """In a forked child: all links are the parent's."""
        ...


class ServerStore:
    """One server, for threads, by so many connections at the most."""

    def __init__(self, home: Home, connections: int) -> None:
        self._home, self._connections = home, connections
        self._clock = home.clock
        self._begin()

    def _begin(self) -> None:
        self._free: list[Link] = []
        self._all: set[Link] = set()
        self._owing: dict[str, Link] = {}
        # A queue, and not a Semaphore: a Ctrl-C in the midst of one may leave its lock taken.
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._connections):
            self._permits.put(None)
        self._mutex = threading.Lock()
        self._listener: Listener | None = None
        self._closed = False

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request = requests[0]
        if isinstance(request, Acquire) and request.queue:
            self._listen(request.holder, until)
            until = time_to_answer(until, self._clock())
        try:
            self._permits.get(timeout=max(0.0, until - self._clock()))
        except Empty:
            failed = Failed.at(self._home.speech.node, all_busy(self._connections))
            self._home.waiting.note(request, failed)
            return [failed] * len(requests)
        try:
            steps = converse(self._home.speech, requests, until, self._clock)
            answers = self._perform(steps, holder_of(requests), until)
        finally:
            self._permits.put(None)
        self._home.waiting.note(request, answers[0])
        return answers

    def close(self) -> None:
        """Close every connection."""
        if self._listener is not None:
            self._listener.close()
        self._closed = True
        for link in list(self._all):  # of which a thread may drop one meanwhile
            link.close()
        self._all.clear()
        self._free.clear()
        self._home.leave()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        if self._listener is not None:
            self._listener.forget()
        for link in self._all:
            link.forget()
        self._home.forget()
        self._home.waiting.forget()
        self._begin()

    def _perform(self, steps: Steps, holder: str | None, until: float) -> list[Answer]:
        link: Link | None = None
        error: SqlError | None = None
        rows = None
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Pause):
                        time.sleep(step.seconds)
                    else:
                        link = link or self._take(holder, until)
                        check_time(until, self._clock())
                        if self._closed:  # and the connection may be somebody else's again
                            raise RefusedError(CLOSED)
                        rows = link.exchange(step, until)
                except SqlError as caught:
                    error = caught
                    if isinstance(caught, BrokenError) and link is not None:
                        self._drop(link)
                        link = None
                step = steps.send(rows or []) if error is None else steps.throw(error)
                error, rows = None, None
        except StopIteration as stop:
            answers: list[Answer] = stop.value
        except BaseException:
            if link is not None:
                self._set_aside(link, holder)
            raise
        if link is not None:
            self._free.append(link)
        return answers

    def _take(self, holder: str | None, until: float) -> Link:
        """A connection: the one on which something of this holder is not answered yet, or any."""
        link = self._owing.pop(holder, None) if holder and self._owing else None
        if link is not None:
            try:
                link.drain(until)
            except BrokenError:
                self._drop(link)
                raise
            except SqlError:
                return link  # it has answered: that it has failed
            return link
        while self._free:
            link = self._free.pop()
            if link.is_well():
                return link
            self._drop(link)
        link = self._home.open(connecting_until(until, self._clock()))
        self._all.add(link)
        if self._closed:  # perhaps meanwhile
            self._drop(link)
            raise RefusedError(CLOSED)
        return link

    def _set_aside(self, link: Link, holder: str | None) -> None:
        """We were interrupted: it may owe an answer, which matters only to its holder."""
        if holder is None:
            self._drop(link)
        else:
            self._owing[holder] = link

    def _drop(self, link: Link) -> None:
        self._all.discard(link)
        link.close()

    def _listen(self, holder: str, until: float) -> None:
        """See to it that we can be woken; the first time, that is worth waiting for."""
        self._home.waiting.expect(holder)
        listener = self._listener
        if listener is None or listener.has_left:
            with self._mutex:
                listener = self._listener
                if listener is None or listener.has_left:
                    listener = self._listener = self._home.listen()
        listener.settles(max(0.0, until - self._clock()) / 2)
