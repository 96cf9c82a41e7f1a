"""Wake-ups from PostgreSQL: one connection of each client listens, in a thread, for its waiters.

While it is not connected, and behind a pooler always, waiters poll. They keep their places in the
queue all the same.
"""

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from holdfast.core.ports import Clock, Notify
from holdfast.engines.sql.connection import SqlError, wait_for
from holdfast.engines.sql.postgres.connection import PostgresConnection
from holdfast.engines.sql.waiters import Waiters

CONNECTING = 2.0
"""How long the listener may take to connect."""

RECONNECT_AFTER = 0.2
"""How long a server that could not be reached is left alone."""


class ListeningWaiters(Waiters):
    """The waiters of one client. The first of them starts the listener."""

    def __init__(
        self, clock: Clock, notify: Notify, connect: Callable[[float], PostgresConnection]
    ) -> None:
        super().__init__(clock, notify)
        self._connect = connect
        self._listener: Listener | None = None

    def listener(self) -> tuple[str, int]:
        """The channel, and the server process that listens."""
        return self._listener.address if self._listener is not None else ("", 0)

    def wake(self, listener: str, holder: str, *, is_offered: bool) -> bool:
        """It is notified by the statement itself, unless it polls."""
        return True if listener else super().wake(listener, holder, is_offered=is_offered)

    def prepare(self, seconds: float) -> None:
        """Start the listener; the first time, wait until it listens, or knows that it cannot."""
        if self._listener is None:
            with self._mutex:
                if self._listener is None:
                    self._listener = Listener(self._clock, self._connect, self)
        self._listener.is_settled.wait(seconds)

    def notify(self, holder: str) -> None:
        """Wake a waiter of this client."""
        self._notify(holder)

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()

    def forget(self) -> None:
        """In a forked child: the listener is the parent's."""
        if self._listener is not None:
            self._listener.forget()
            self._listener = None
        super().forget()


class Listener:
    """A thread that listens until it is closed. Behind a pooler it ends by itself."""

    def __init__(
        self,
        clock: Clock,
        connect: Callable[[float], PostgresConnection],
        waiters: ListeningWaiters,
    ) -> None:
        self._clock, self._connect, self._waiters = clock, connect, waiters
        self._channel = f"holdfast_{secrets.token_hex(8)}"
        self.address = ("", 0)
        self.is_settled = threading.Event()
        """Set when it listens for the first time, or knows that it cannot."""
        self._connection: PostgresConnection | None = None
        self._closed = threading.Event()
        self._stopped, self._stopping = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="holdfast-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        with suppress(OSError):  # it has ended by itself
            self._stopping.send(b"\n")
        if self._thread is not threading.current_thread():
            self._thread.join()

    def forget(self) -> None:
        """In a forked child: the connection is the parent's."""
        if self._connection is not None:
            self._connection.forget()
        self._stopped.close()
        self._stopping.close()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                try:
                    if not self._listen():
                        return
                except SqlError:
                    self.is_settled.set()
                finally:
                    self._hang_up()
                self._closed.wait(RECONNECT_AFTER)
        finally:
            self.is_settled.set()
            self._stopped.close()
            self._stopping.close()

    def _listen(self) -> bool:
        """Pass wake-ups on until closed; False if there are none here: this is a pooler."""
        connection = self._connection = self._connect(self._clock() + CONNECTING)
        if not connection.is_direct:
            return False
        connection.run_text(f'LISTEN "{self._channel}"', self._clock() + CONNECTING)
        self.address = (self._channel, connection.pid)
        self.is_settled.set()
        self._waiters.wake_all()  # to store the new listener, and since wake-ups may be lost
        while not self._closed.is_set():
            wait_for([connection.fd, self._stopped.fileno()])
            for holder in connection.notifications():
                self._waiters.notify(holder)
        return True

    def _hang_up(self) -> None:
        """Until it is back, waiters poll: wake them, so that they begin."""
        was_listening, self.address = bool(self.address[0]), ("", 0)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if was_listening and not self._closed.is_set():
            self._waiters.wake_all()
