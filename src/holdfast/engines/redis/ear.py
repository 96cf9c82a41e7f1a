"""Hearing wake-ups: one subscription to each server, for all threads that wait.

There is a thread for that. But to be woken by somebody who was woken takes twice as long; so one
who waits while nobody hears does so itself. Whoever hears has the *turn*, and hears for all:

1. One who waits takes the turn if it is there, and gives it back when it waits no longer. If it is
   not there, somebody hears already, and will ring.
2. Whoever gives the turn back while others wait calls the thread.
3. The thread keeps the turn until nobody waits for whom somebody else must hear. Then it rests; and
   takes the turn again after a while if nobody has, if only to see that the connection is lost.
4. What was read and did not get to whom it was for, because of a Ctrl-C, is lost. Then the thread
   subscribes anew, and all who wait ask again.
5. Whoever has the turn and does not wait any more could not give it back, because of a Ctrl-C. One
   that lets lie what is there to be heard is kept by a signal handler. The thread looks for both,
   for the latter as long as others wait, and subscribes anew, too.
"""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from typing import Any

import hiredis

from holdfast.engines.inherited import detach
from holdfast.engines.redis.nodes import CONNECT_TIMEOUT, REDIAL_AFTER, Fleet, Node
from holdfast.engines.redis.phrases import Reply, command
from holdfast.engines.redis.sockets import BROKEN, is_foreign, take_in

REST = 1.0
"""How long the thread rests unless it is called."""

LIES = 0.05
"""How long something may lie there to be heard before somebody else hears it. So often the thread
looks for that, as long as there are others to hear it for."""

LONGEST = 3600.0
"""For how long to wait in one go: the system has its limits."""

HEARS, THREAD = "who hears", "the thread"


class Line:
    """One subscription, and whose turn it is to hear."""

    def __init__(self, sock: Any) -> None:
        self.sock = sock
        self.reader = hiredis.Reader()
        self.poller = select.poll()
        self.poller.register(sock, select.POLLIN)
        self.turn = {HEARS: THREAD}
        """To take it and to give it back are one indivisible step each."""
        self.hearings = 0
        self.midway = False
        """Whether something may have been read that has not got to whom it is for."""
        self.over = False

    def shut(self) -> None:
        """Let whoever waits for something to be heard wait no longer."""
        with suppress(OSError):  # it was closed already
            # Not that of TLS, which would pull the rug from under one who reads.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def has_something(self) -> bool:
        """Whether there is something to be heard."""
        watching = select.poll()  # while another thread waits with its own
        watching.register(self.sock, select.POLLIN)
        return bool(watching.poll(0))


class Ear:
    """Listens to one server until it is closed."""

    def __init__(self, node: Node, fleet: Fleet) -> None:
        self._node, self._fleet = node, fleet
        self._may_rest = fleet.direct is not None
        """Whether those who wait may hear for themselves: not where there are several ears."""
        self._closed = threading.Event()
        self._line: Line | None = None
        self._others: set[str] = set()
        """Those who wait for somebody else to hear."""
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._later: list[tuple[float, str]] = []
        self.ready = threading.Event()
        """Set while it hears."""
        self._thread = threading.Thread(target=self._run, name="holdfast-ear", daemon=True)
        self._thread.start()

    def pump(self, waiter_id: str, silent: Callable[[], bool], until: float) -> None:
        """On the thread of one who waits: hear until it is rung for, unless somebody hears."""
        line = self._line
        if line is None or not self._may_rest:
            return
        self._others.add(waiter_id)  # before the look, as whoever gives it back looks after that
        try:
            if line.turn.setdefault(HEARS, waiter_id) == waiter_id and not line.midway:
                while silent() and (left := until - self._fleet.around.clock()) > 0:
                    self._hear(line, left)
                self._others.discard(waiter_id)
        except BROKEN as error:
            if not line.midway or is_foreign(error):
                raise  # it is none of the connection's
        finally:
            if line.turn.get(HEARS) == waiter_id:
                del line.turn[HEARS]
                if line.over:
                    line.sock.close()  # which the thread could not, as long as we had the turn
            if self._others and line.turn.get(HEARS) != THREAD:
                self._calls.put(None)

    def stop(self) -> None:
        """Hear no more."""
        self._closed.set()
        line = self._line
        if line is not None:
            line.shut()
        self._calls.put(None)

    def close(self) -> None:
        """Stop, and wait until that is done."""
        self.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(CONNECT_TIMEOUT)

    def forget(self) -> None:
        """In a forked child: the socket is the parent's."""
        if self._line is not None:
            detach(self._line.sock.fileno())

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen()
            except BROKEN:
                self.ready.clear()
                self._fleet.deaf(self._node)
            self._give_up()
            self._closed.wait(REDIAL_AFTER)

    def _give_up(self) -> None:
        """Close the subscription; but if somebody hears, that one must: else it would wait for a
        socket whose number is another's by then."""
        line, self._line = self._line, None
        if line is not None:
            line.over = True
            line.shut()
            who = line.turn.setdefault(HEARS, THREAD)
            if who == THREAD or who not in self._fleet.waiting:
                line.sock.close()

    def _listen(self) -> None:
        sock, _ = self._node.address.open(CONNECT_TIMEOUT)
        line = self._line = Line(sock)
        sock.sendall(command(b"SUBSCRIBE", self._fleet.channel.encode()))
        sock.setblocking(False)
        give_up_at = self._fleet.around.clock() + CONNECT_TIMEOUT
        while not self.ready.is_set():
            left = give_up_at - self._fleet.around.clock()
            if left <= 0:
                raise TimeoutError("the subscription was not confirmed in time")
            self._hear(line, left)
        while not self._closed.is_set():
            self._others &= self._fleet.waiting
            if self._may_rest and not self._others:
                self._rest(line)
            if not self._closed.is_set():
                self._hear(line, LONGEST)

    def _rest(self, line: Line) -> None:
        """Leave it to those who wait to hear for themselves, until one cannot, or it is closed."""
        while not self._calls.empty():
            self._calls.get()  # from before we had the turn
        del line.turn[HEARS]
        if self._others:
            self._calls.put(None)  # it came while we had the turn
        suspect, since, pause = ("", 0), 0.0, REST
        while not self._closed.is_set():
            with suppress(Empty):
                self._calls.get(timeout=pause)
            who = line.turn.setdefault(HEARS, THREAD)
            if who == THREAD:
                break
            now, found = self._fleet.around.clock(), (who, line.hearings)
            waits = who in self._fleet.waiting
            pause = REST if waits and self._others <= {who} else LIES
            if pause == REST or (waits and not line.has_something()):
                suspect = ("", 0)
            elif found != suspect:
                suspect, since = found, now
            elif now >= since + LIES:
                raise EOFError("whoever heard is kept from it")
        if line.midway:
            raise EOFError("whoever heard was interrupted")

    def _hear(self, line: Line, request_timeout: float) -> None:
        """Wait for something to be heard, or to be due, at most so long; ring for whom it is."""
        if self._later:
            request_timeout = max(
                0.0, min(request_timeout, self._later[0][0] - self._fleet.around.clock())
            )
        if line.poller.poll(min(request_timeout, LONGEST) * 1000):
            line.midway = True
            if line.over:
                raise EOFError("somebody else hears")
            line.hearings += 1
            take_in(line.sock, line.reader)
            while (push := line.reader.gets()) is not False:
                self._take(push)
            line.midway = False
        if self._later:
            self._ring_due()

    def _take(self, push: Reply) -> None:
        if isinstance(push, Exception):
            raise push
        kind, _, message = push
        if kind == b"message":
            holder, *words = message.decode().split(" ")
            if len(words) != 1:  # it is to be heeded now
                self._others.discard(holder)  # before it is rung for: it may be back at once
            self._fleet.heard(holder, words, self._ring_later)
        else:
            self._others.clear()
            self._fleet.listens(self._node)  # which rings for all
            self.ready.set()

    def _ring_later(self, delay: float, holder: str) -> None:
        heappush(self._later, (self._fleet.around.clock() + delay, holder))

    def _ring_due(self) -> None:
        """Ring for those whose time has come."""
        now = self._fleet.around.clock()
        while self._later and self._later[0][0] <= now:
            _, holder = self._later[0]
            if holder in self._fleet.waiting:
                self._others.discard(holder)
                self._fleet.around.notify(holder)
            heappop(self._later)  # after that: twice is better than never
