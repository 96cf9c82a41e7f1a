"""Wake-ups from PostgreSQL: one connection of each client listens, in a thread, for its waiters.

While it is not connected, and behind a pooler always, waiters poll. They keep their places in the
queue all the same.
"""

import secrets
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from holdfast.core.effects import Sleep, perform
from holdfast.core.ports import Clock, Notify
from holdfast.engines.sql.connection import SqlError, wait_for
from holdfast.engines.sql.exchanges import Open
from holdfast.engines.sql.postgres.connection import PostgresConnection
from holdfast.engines.sql.waiters import Waiters

CONNECTING = 2.0
"""How long the listener may take to connect."""

RECONNECT_AFTER, LONGEST_PAUSE = 0.2, 5.0
"""How long a server that could not be reached is left alone; longer each time, up to the second."""


class Subscribe(NamedTuple):
    """Listen to this channel."""

    connection: Any
    channel: str
    until: float


class Receive(NamedTuple):
    """Wait for notifications; gives the holders that they are for, or none when closed."""

    connection: Any


Listening: TypeAlias = Generator[Open | Subscribe | Receive | Sleep, Any, None]


class ListeningWaiters(Waiters):
    """The waiters of one client, which are woken while it listens. The first of them starts the
    thread that does."""

    def __init__(self, clock: Clock, notify: Notify, make: Callable[[Listening], Any]) -> None:
        """`make`: makes what has a thread listen."""
        self._make = make
        self._connection: Any = None
        super().__init__(clock, notify)

    def _begin(self) -> None:
        super()._begin()
        self._mutex = threading.Lock()
        self._listener: Listener | None = None
        self._address = ("", 0)
        self.is_closed = False

    def listener(self) -> tuple[str, int]:
        """The channel, and the server process that listens."""
        with suppress(OSError, RuntimeError):  # no descriptor, or no thread
            listener = self._listener
            if listener is None:
                with self._mutex:
                    listening = self.listen(f"holdfast_{secrets.token_hex(8)}")
                    listener = self._listener = self._listener or self._make(listening)
            listener.listen()
        return self._address

    def wake(self, holder: str, listener: str) -> bool:
        """It was notified by the statement itself."""
        return True

    def listen(self, channel: str) -> Listening:
        """Listen until closed; behind a pooler it ends by itself. Pure, as `exchanges` is."""
        pause = RECONNECT_AFTER
        while not self.is_closed:
            try:
                self._connection = connection = yield Open(self._clock() + CONNECTING)
                if not connection.is_direct:
                    break
                yield Subscribe(connection, channel, self._clock() + CONNECTING)
                self._address = (channel, connection.pid)
                pause = RECONNECT_AFTER
                self.wake_all()  # to store the new listener, and since wake-ups may be lost
                while not self.is_closed:
                    for holder in (yield Receive(connection)):
                        self._notify(holder)
            except SqlError:
                pass  # it connects again
            finally:
                self._hang_up()
            yield Sleep(self._clock() + pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Stop listening."""
        self.is_closed = True
        if self._listener is not None:
            self._listener.close()

    def forget(self) -> None:
        """In a forked child: the listener and its connection are the parent's."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.forget()
        if self._listener is not None:
            self._listener.forget()
        super().forget()

    def _hang_up(self) -> None:
        """Until it is back, waiters poll: wake them, so that they begin."""
        was_listening, self._address = bool(self._address[0]), ("", 0)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if was_listening and not self.is_closed:
            self.wake_all()


class Listener:
    """The thread."""

    def __init__(
        self, clock: Clock, connect: Callable[[float], PostgresConnection], listening: Listening
    ) -> None:
        self._clock, self._connect = clock, connect
        self._to_do = [listening]
        """Until a thread has begun: one of them does it."""
        self._thread: threading.Thread | None = None
        self._stopped, self._stopping = socket.socketpair()

    def listen(self) -> None:
        """Start the thread, unless it was: an interruption may have come before."""
        if self._to_do and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._run, name="holdfast-listener", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        if self._to_do:  # no thread has begun
            self._to_do.clear()
            self.forget()
        with suppress(OSError):  # it has ended by itself
            self._stopping.send(b"\n")
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def forget(self) -> None:
        """In a forked child: close our ends, and nothing else."""
        self._stopped.close()
        self._stopping.close()

    def _run(self) -> None:
        try:
            listening = self._to_do.pop()
        except IndexError:  # another thread does it, or it was closed
            return
        self._thread = threading.current_thread()
        try:
            perform(listening, self._perform, SqlError)
        finally:
            self.forget()

    def _perform(self, effect: Open | Subscribe | Receive | Sleep) -> Any:
        match effect:
            case Open(until):
                return self._connect(until)
            case Subscribe(connection, channel, until):
                return connection.run_text(f'LISTEN "{channel}"', until)
            case Receive(connection):
                wait_for([connection.fd, self._stopped.fileno()])
                return connection.notifications()
            case Sleep(until):
                left = max(0.0, until - self._clock())
                return wait_for([self._stopped.fileno()], seconds=left)
