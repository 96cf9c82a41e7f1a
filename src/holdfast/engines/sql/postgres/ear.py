"""Hearing wake-ups in a thread of its own, for both colours: one LISTEN for all who wait."""

import secrets
import select
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue

from holdfast.core.ports import Clock
from holdfast.engines.sql.links import SqlError
from holdfast.engines.sql.postgres.speech import Bell, Speech
from holdfast.engines.sql.postgres.statements import Text
from holdfast.engines.sql.postgres.wire import Wire, converse
from holdfast.engines.sql.waiting import Waiting

CONNECT_TIMEOUT = 2.0
"""How long a connection that nobody waits for may take to be made."""

REDIAL_AFTER = 0.2
"""How long a server that could not be reached is left alone."""


class Ear:
    """Listens until it is closed. Behind a pooler it cannot, and then it ends by itself."""

    def __init__(
        self, dial: Callable[[float], Wire], clock: Clock, speech: Speech, waiting: Waiting
    ) -> None:
        self._dial, self._clock, self._speech, self._waiting = dial, clock, speech, waiting
        self._channel = f"holdfast_{secrets.token_hex(8)}"
        self._wire: Wire | None = None
        self._closed = threading.Event()
        self.settled: Future[None] = Future()
        # For threads, since a Ctrl-C in the midst of a Future may leave its lock taken.
        self._is_settled = False
        self._settling: SimpleQueue[None] = SimpleQueue()
        self._end_seen, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="holdfast-ear", daemon=True)
        self._thread.start()

    def settles(self, seconds: float) -> None:
        """Wait until it hears for the first time, or knows that it cannot."""
        if not self._is_settled:
            with suppress(Empty):
                self._settling.put(self._settling.get(timeout=seconds))  # for others who wait

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        with suppress(OSError):  # it has ended by itself
            self._end.send(b"\n")
        if self._thread is not threading.current_thread():
            self._thread.join()

    def forget(self) -> None:
        """In a forked child: the connection is the parent's, and so is the bell."""
        self._speech.bell = None
        if self._wire is not None:
            self._wire.forget()
        self._end_seen.close()
        self._end.close()

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
                self._closed.wait(REDIAL_AFTER)
        finally:
            self._settle()
            self._end_seen.close()
            self._end.close()

    def _listen(self) -> bool:
        """Hear until we are closed; False if there is no hearing here."""
        until = self._clock() + CONNECT_TIMEOUT
        wire = self._wire = self._dial(until)
        if not wire.direct:
            return False
        # The channel is our own word, and a statement without values is said as it is.
        listen = Text(f'LISTEN "{self._channel}"'.encode())
        converse(wire, listen(), until, self._clock)
        self._speech.bell = Bell(self._channel, wire.pid)
        self._settle()
        self._waiting.wake_all()
        poller = select.poll()
        poller.register(wire.fd, select.POLLIN)
        poller.register(self._end_seen, select.POLLIN)
        while not self._closed.is_set():
            poller.poll()
            for holder in wire.notifications():
                self._waiting.wake(holder)
        return True

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
