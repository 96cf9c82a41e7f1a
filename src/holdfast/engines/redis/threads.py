"""The store for threads: all connections of a client are served by the threads that wait.

1. A thread that waits, for an answer or for a wake-up, while no other thread reads becomes the
   *leader*: it waits for the sockets and reads for all threads. The others are *followers*: they
   sleep until what they wait for is there, or until they are promoted.
2. When the leader stops waiting, it promotes a follower.
3. One mutex guards all state. A thread has it while it sends or reads, which never blocks, and not
   while it waits. A leader leaves without it, so a thread that has become a follower looks again
   whether there is a leader.
4. A leader that does not read is replaced: a signal handler may run in its thread for long. Every
   `TAKEOVER` seconds a follower looks whether there is something to be read, and if so, takes the
   leader's place. The former leader becomes a follower when its handler has returned.
5. Connections are made by short-lived threads.
6. An interruption (Ctrl-C) while a connection is read or written closes it. What was pending on it
   fails, with an unknown outcome.
7. A signal handler that calls the store while its own thread has the mutex is refused. For as long
   as such a handler runs, all other threads wait for the mutex.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from math import inf
from threading import get_ident

from holdfast.core.effects import Sleep, perform
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Answer, Failed, Request
from holdfast.engines.redis.connection import GONE, Connection
from holdfast.engines.redis.nodes import Effect, Nodes, Route
from holdfast.engines.redis.protocol import BROKEN, explain, heals_in
from holdfast.engines.redis.sockets import READ_SIZE, Poller, Socket, Wakeup

TAKEOVER = 1.0
"""How often followers look whether the leader reads, and the leader whether it still leads. So it
is the longest that a thread waits in one go."""

JOIN_TIMEOUT = 1.0

IDLE = 0.1
"""Connections are checked before they are used if the client was idle for longer."""

INTERRUPTED = "interrupted in the middle of sending or receiving"
BUSY = "a signal handler cannot use the client in the middle of a request of its own thread"


class WaitingThread:
    """A thread that waits. Its lock is made only if it has to sleep."""

    _signal: "threading.Lock | None" = None

    def prepare(self) -> None:
        """It is about to sleep; from now on it can be woken."""
        if self._signal is None:
            self._signal = threading.Lock()
            self._signal.acquire()

    def wake(self) -> None:
        """Let it look again. It may be woken more than once."""
        if self._signal is not None:
            with suppress(RuntimeError):  # it was woken already
                self._signal.release()

    def sleep(self, seconds: float) -> bool:
        """Sleep until it is woken; False if it was not."""
        return self._signal is None or self._signal.acquire(timeout=seconds)


class Notification:
    """A wake-up that is waited for."""

    def __init__(
        self, is_silent: Callable[[], bool], sockets: Collection[Connection], until: float
    ) -> None:
        self._is_silent, self._sockets, self.until = is_silent, sockets, until

    @property
    def over(self) -> bool:
        """Whether it came, or cannot come any more."""
        return not self._is_silent() or not self._sockets


class RedisStore:
    """One server, a quorum of several, or a cluster."""

    def __init__(self, nodes: Nodes, route: Route) -> None:
        self._nodes, self._route = nodes, route
        self._clock, self._waiters = nodes.clock, nodes.waiters
        nodes.connect, nodes.disconnect = self._connect, self._disconnect
        self._begin()

    def _begin(self) -> None:
        self._mutex = threading.RLock()
        self._owned = threading.Condition(self._mutex)
        self._sockets: dict[Connection, Socket] = {}
        self._connecting: dict[Connection, threading.Thread] = {}
        self._leader: WaitingThread | None = None
        self._leading = 0
        """The leader's thread."""
        self._followers: dict[WaitingThread, None] = {}
        self._pumping: dict[str, WaitingThread] = {}
        self._poller: Poller | None = None
        """The leader's; None if it would wait for other sockets than there are."""
        self._wakeup: Wakeup | None = None
        self._used_at = -inf

    def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        if self._is_busy_here():
            return [Failed.at("redis", BUSY)] * len(requests)
        way = self._route(requests, until)
        if isinstance(way, FanOut):
            self._perform(way)
            return self._nodes.answers(way)
        return perform(way, self._do)

    def pump(self, waiter_id: str, is_silent: Callable[[], bool], until: float) -> None:
        """Wait for a wake-up, and read for all threads meanwhile if no other does."""
        if not self._sockets or self._is_busy_here():
            return
        waiting = WaitingThread()
        self._pumping[waiter_id] = waiting
        try:
            self._wait(waiting, Notification(is_silent, self._sockets, until))
        finally:
            self._pumping.pop(waiter_id, None)

    def wake(self, waiter_id: str) -> None:
        """Let the thread that pumps for this waiter look again. Needs no mutex."""
        waiting = self._pumping.get(waiter_id)
        if waiting is not None:
            waiting.wake()
            reads_now = self._leading == get_ident() and self._is_busy_here()
            if self._leader is waiting and not reads_now:
                self._interrupt_leader()

    def close(self) -> None:
        """Close every connection."""
        self._nodes.closed = True
        if self._is_busy_here():
            return  # a finalizer or signal handler; the request that has the mutex closes
        with self._mutex:
            for connection in list(self._sockets):
                self._disconnect(connection, GONE)
            connecting = list(self._connecting.values())
            if self._leader is None:
                self._close_wakeup()  # else the leader does, when it stops
        self._interrupt_leader()
        self._promote()
        for thread in connecting:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(JOIN_TIMEOUT)

    def forget(self) -> None:
        """In a forked child: the sockets are the parent's."""
        for sock in self._sockets.values():
            sock.forget()
        if self._wakeup is not None:
            self._wakeup.forget()
        self._nodes.forget()
        self._begin()

    def _is_busy_here(self) -> bool:
        """Whether a signal handler, or a finalizer, has interrupted this thread while it has the
        mutex."""
        try:
            self._owned.notify(0)
        except RuntimeError:  # it refuses a thread that does not have the mutex
            return False
        return True

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Sleep):
            time.sleep(max(0.0, effect.until - self._clock()))
        else:
            self._perform(effect)

    def _perform(self, each: FanOut) -> None:
        """Send a round, and wait until it is over or its time is."""
        waiting = WaitingThread()
        try:
            with self._mutex:
                now = self._clock()
                if self._used_at < now - IDLE:
                    self._receive_all()
                self._used_at = now
                try:
                    self._nodes.start(each, waiting.wake)
                except BaseException:
                    for index in each.nodes:
                        self._disconnect(self._nodes.all[index], INTERRUPTED)
                    raise
            self._wait(waiting, each)
        finally:
            if not each.over:
                with self._mutex:
                    self._nodes.expire(each)
            if self._nodes.closed and self._sockets:
                self.close()

    def _wait(self, waiting: WaitingThread, goal: FanOut | Notification) -> None:
        """Wait until something is over, or its time is; and read for all threads if no other
        does."""
        try:
            while not goal.over:
                with self._mutex:
                    now = self._clock()
                    if now >= goal.until:  # this thread may have been held up, and the answer came
                        self._receive_all()
                        return
                    if now >= self._waiters.next_due:
                        self._waiters.wake_due()
                        continue  # it may have been this one that was due
                    # Not for longer: a follower may lead by now, and have read this one's answer.
                    until = min(goal.until, self._waiters.next_due, now + TAKEOVER)
                    poller = self._lead(waiting)
                if poller is not None:
                    ready = poller.wait(until - now)
                    with self._mutex:
                        for fd, _ in ready:
                            if fd in poller.connections:
                                self._receive(poller.connections[fd])
                            else:
                                poller.wakeup.drain()
                elif not waiting.sleep(until - now):
                    self._look_at_leader()
        finally:
            self._leave(waiting)

    def _lead(self, waiting: WaitingThread) -> Poller | None:
        """Become the leader if there is none, and get the poller; else become a follower."""
        leader = self._leader
        if leader is not waiting:
            if leader is not None and self._leading != get_ident():
                waiting.prepare()
                self._followers[waiting] = None
                if self._leader is not None:
                    return None
            elif leader is not None:
                self._poller = None  # this is a signal handler, and its thread waits with that one
            self._leader, self._leading = waiting, get_ident()
            self._followers.pop(waiting, None)
        if self._poller is None:
            self._poller = self._make_poller()
        return self._poller

    def _leave(self, waiting: WaitingThread) -> None:
        """A thread does not wait any more. If it has led, a follower is promoted. Needs no
        mutex."""
        self._followers.pop(waiting, None)
        if self._leader is waiting:
            self._leader = None
        if self._followers or self._nodes.closed:
            self._promote()

    def _receive_all(self) -> None:
        for connection in list(self._sockets):
            self._receive(connection)

    def _promote(self) -> None:
        """If there is no leader, let a follower become it. Needs no mutex: a follower that is woken
        in vain sleeps again."""
        if self._leader is None:
            for follower in list(self._followers)[:1]:
                follower.wake()
            if self._nodes.closed and not self._followers:
                self._close_wakeup()

    def _close_wakeup(self) -> None:
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            wakeup.close()

    def _look_at_leader(self) -> None:
        """If there is something to be read, the leader does not read, because a signal handler runs
        in its thread: depose it, so that this follower can lead."""
        with self._mutex:
            poller = self._make_poller()
        try:
            is_unread = bool(poller.wait(0))
        except RuntimeError:  # eventlet, where one alone may wait for a socket: the leader does
            return
        if is_unread:
            with self._mutex:
                self._leader = self._poller = None

    def _make_poller(self) -> Poller:
        wakeup = self._wakeup = self._wakeup or Wakeup()  # one that leaves a closed client drops it
        return Poller(self._sockets, wakeup)

    def _receive(self, connection: Connection) -> None:
        """Read what has come. Needs the mutex."""
        sock = self._sockets.get(connection)
        try:
            while sock is not None and (data := sock.receive()):
                connection.receive(data)
                if sock.is_plain and len(data) < READ_SIZE:
                    break  # there is no more; TLS gives one record at a time
                sock = self._sockets.get(connection)
            if sock is not None and sock.unsent:
                sock.send()
        except BROKEN as error:
            self._disconnect(connection, explain(error))
        except BaseException:
            self._disconnect(connection, INTERRUPTED)
            raise

    def _disconnect(self, connection: Connection, why: str, heals: float | None = None) -> None:
        self._connecting.pop(connection, None)  # what that thread opens, it closes
        sock = self._sockets.get(connection)
        if sock is not None:
            sock.close()  # if an interruption comes now, the next look at it fails
        if connection.connected or connection.connecting:
            connection.lost(why, heals)
        if sock is not None:
            self._sockets.pop(connection, None)
            self._sockets_changed()

    def _sockets_changed(self) -> None:
        """The leader must wait for other sockets than before."""
        self._poller = None
        self._interrupt_leader()

    def _interrupt_leader(self) -> None:
        wakeup = self._wakeup
        if wakeup is not None and self._leader is not None:
            wakeup.wake()

    def _connect(self, connection: Connection, timeout: float) -> None:
        thread = threading.Thread(
            target=self._open, args=(connection, timeout), name="holdfast-connect", daemon=True
        )
        self._connecting[connection] = thread
        try:
            thread.start()
        except RuntimeError as error:  # no more threads can be started
            self._disconnect(connection, explain(error))

    def _open(self, connection: Connection, timeout: float) -> None:
        sock: Socket | None = None
        error: Exception | None = None
        try:
            sock = Socket(self._sockets_changed, *connection.address.open(timeout))
        except Exception as caught:  # noqa: BLE001 - whatever it is, it is the answer
            error = caught
        with self._mutex:
            is_wanted = self._connecting.get(connection) is threading.current_thread()
            if is_wanted:
                del self._connecting[connection]
            if sock is not None and is_wanted and not self._nodes.closed:
                self._sockets[connection] = sock
                connection.opened(sock.send)
                self._sockets_changed()
            else:
                if sock is not None:
                    sock.close()
                if is_wanted:
                    connection.lost(GONE if error is None else explain(error), heals_in(error))
        self._interrupt_leader()
        self._promote()
