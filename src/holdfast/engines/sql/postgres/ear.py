"""Hearing wake-ups in a thread of its own, for both colours: one LISTEN for all who wait.

A connection of our own is kept. One that is lent by a user's pool is given back when nobody waits;
who waits then starts another ear. One who comes at that very moment is woken, and asks again.
"""

import secrets
import select
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol

from holdfast.core.ports import Clock
from holdfast.engines.sql.links import SqlError
from holdfast.engines.sql.postgres.speech import Bell, Speech
from holdfast.engines.sql.postgres.statements import Text
from holdfast.engines.sql.postgres.wire import Wire
from holdfast.engines.sql.waiting import Waiting
from holdfast.engines.sql.wired import exchange

REDIAL_AFTER = 0.2
"""How long a server that could not be reached is left alone."""


IDLE = 1.0
"""How long at the most a connection that is lent to us is kept after the last wait."""


class Source(Protocol):
    """Where it has its connection from."""

    request_timeout: float
    """How long a connection that nobody waits for may take to be made."""
    is_lending: bool
    """Whether it wants its connection back when nobody waits."""

    def dial(self, until: float) -> Wire:
        """A connection; raises a `BrokenError` if there is none."""
        ...

    def leave(self) -> None:
        """No more will be wanted."""
        ...

    def forget(self) -> None:
        """In a forked child: what it has given is the parent's."""
        ...


class Ear:
    """Listens until it is closed. Behind a pooler it cannot, and then it ends by itself."""

    def __init__(self, source: Source, clock: Clock, speech: Speech, waiting: Waiting) -> None:
        self._source, self._clock, self._speech, self._waiting = source, clock, speech, waiting
        self._channel = f"holdfast_{secrets.token_hex(8)}"
        self._wire: Wire | None = None
        self._closed = threading.Event()
        self._steps_aside = False
        self.has_left = False
        self.settled: Future[None] = Future()
        # For threads, since a Ctrl-C in the midst of a Future may leave its lock taken.
        self._is_settled = False
        self._settling: SimpleQueue[None] = SimpleQueue()
        self._stirred, self._stirring = socket.socketpair()
        self._stirred.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="holdfast-ear", daemon=True)
        self._thread.start()

    def settles(self, seconds: float) -> None:
        """Wait until it hears for the first time, or knows that it cannot."""
        if not self._is_settled:
            with suppress(Empty):
                self._settling.put(self._settling.get(timeout=seconds))  # for others who wait

    def step_aside(self) -> None:
        """Let go of the connection: somebody needs it more. Come back to it after a while."""
        self._steps_aside = True
        self._stir()

    def stop(self) -> None:
        """Stop listening, soon."""
        self._closed.set()
        self._stir()

    def close(self) -> None:
        """Stop listening."""
        self.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def forget(self) -> None:
        """In a forked child: the connection is the parent's, and so is the bell."""
        self._speech.bell = None
        if self._wire is not None:
            self._wire.forget()
        self._source.forget()
        self._stirred.close()
        self._stirring.close()

    def _stir(self) -> None:
        with suppress(OSError):  # it has ended by itself
            self._stirring.send(b"\n")

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                try:
                    if not self._listen():
                        return
                except SqlError:
                    self._settle()
                finally:
                    self._hang_up()
                if self._leaves():
                    return
                self._closed.wait(REDIAL_AFTER)
        finally:
            self._settle()
            self._source.leave()
            self._stirred.close()
            self._stirring.close()

    def _listen(self) -> bool:
        """Hear until we are closed; False if there is no hearing here."""
        until = self._clock() + self._source.request_timeout
        self._steps_aside = False
        wire = self._wire = self._source.dial(until)
        if not wire.direct:
            return False
        # The channel is our own word, and a statement without values is said as it is.
        listen = Text(f'LISTEN "{self._channel}"'.encode())
        exchange(wire, listen(), until, self._clock)
        self._speech.bell = Bell(self._channel, wire.pid)
        self._settle()
        self._waiting.wake_all()
        poller = select.poll()
        poller.register(wire.fd, select.POLLIN)
        poller.register(self._stirred, select.POLLIN)
        idle = IDLE * 1000 if self._source.is_lending else None
        while not self._closed.is_set() and not self._steps_aside:
            if not poller.poll(idle) and not self._waiting.anybody:
                break
            with suppress(BlockingIOError):
                self._stirred.recv(64)
            for holder in wire.notifications():
                self._waiting.wake(holder)
        return True

    def _leaves(self) -> bool:
        """Whether this is the end, since nobody waits. There is no way back: whoever finds that we
        have left does not rely on us. Those who do look for themselves now; a pool may keep us
        waiting for long."""
        if not self._source.is_lending:
            return False
        self.has_left = not self._waiting.anybody
        self._waiting.wake_all()
        return self.has_left

    def _settle(self) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._settling.put(None)
            self.settled.set_result(None)

    def _hang_up(self) -> None:
        """Until we are back, waiters look for themselves."""
        self._speech.bell = None
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
