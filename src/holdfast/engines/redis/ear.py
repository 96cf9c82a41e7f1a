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
5. Whoever has the turn and does not wait any more could not give it back, because of a Ctrl-C.
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
from holdfast.engines.redis.link import BROKEN, is_foreign, take_in
from holdfast.engines.redis.nodes import CONNECT_TIMEOUT, REDIAL_AFTER, Fleet, Node
from holdfast.engines.redis.phrases import Reply, command

REST = 1.0
"""How long the thread rests unless it is called."""

LONGEST = 3600.0
"""For how long to wait in one go: the system has its limits."""

HEARS, THREAD = "who hears", "the thread"


class Ear:
    """Listens to one server until it is closed."""

    def __init__(self, node: Node, fleet: Fleet) -> None:
        self._node, self._fleet = node, fleet
        self._may_rest = fleet.direct is not None
        """Whether those who wait may hear for themselves: not where there are several ears."""
        self._closed = threading.Event()
        self._sock: Any = None
        self._reader = hiredis.Reader()
        self._poller = select.poll()
        self._turn = {HEARS: THREAD}
        """Who hears. To take and to give back are one indivisible step each."""
        self._others: set[str] = set()
        """Those who wait for somebody else to hear."""
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._midway = False
        """Whether something may have been read that has not got to whom it is for."""
        self._later: list[tuple[float, str]] = []
        self.ready = threading.Event()
        """Set while it hears."""
        self._thread = threading.Thread(target=self._run, name="holdfast-ear", daemon=True)
        self._thread.start()

    def attend(self, ticket: str, silent: Callable[[], bool], until: float) -> None:
        """On the thread of one who waits: hear until it is rung for, unless somebody hears."""
        if not self._may_rest:
            return
        turn = self._turn
        self._others.add(ticket)  # before the look, as whoever gives it back looks after that
        try:
            if turn.setdefault(HEARS, ticket) == ticket and not self._midway:
                while silent() and (left := until - self._fleet.around.clock()) > 0:
                    self._hear(left)
                self._others.discard(ticket)
        except BROKEN as error:
            if is_foreign(error):
                raise
        finally:
            if turn.get(HEARS) == ticket:
                del turn[HEARS]
                if self._closed.is_set():
                    self._close()  # which the thread could not, as long as we had the turn
            if self._others and not turn:
                self._calls.put(None)

    def stop(self) -> None:
        """Hear no more."""
        self._closed.set()
        sock = self._sock
        if sock is not None:
            with suppress(OSError):  # it was closed already
                sock.shutdown(socket.SHUT_RDWR)  # which ends a wait for it
        self._calls.put(None)

    def close(self) -> None:
        """Stop, and wait until that is done."""
        self.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(CONNECT_TIMEOUT)

    def forget(self) -> None:
        """In a forked child: the socket is the parent's."""
        if self._sock is not None:
            detach(self._sock.fileno())

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen()
            except BROKEN:
                self.ready.clear()
                self._fleet.deaf(self._node)
            if self._turn.setdefault(HEARS, THREAD) == THREAD:
                self._close()
            self._closed.wait(REDIAL_AFTER)

    def _close(self) -> None:
        """By whoever has the turn: nobody waits for a socket whose number is another's by then."""
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()

    def _listen(self) -> None:
        sock, _ = self._node.address.open(CONNECT_TIMEOUT)
        self._sock = sock
        sock.sendall(command(b"SUBSCRIBE", self._fleet.channel.encode()))
        sock.setblocking(False)
        self._reader, self._poller, self._midway = hiredis.Reader(), select.poll(), False
        self._poller.register(sock, select.POLLIN)
        self._hear(CONNECT_TIMEOUT)
        if not self.ready.is_set():
            raise TimeoutError("the subscription was not confirmed in time")
        while not self._closed.is_set():
            self._others &= self._fleet.waiting
            if self._may_rest and not self._others:
                self._rest()
            if not self._closed.is_set():
                self._hear(LONGEST)

    def _rest(self) -> None:
        """Leave it to those who wait to hear for themselves, until one cannot, or it is closed."""
        turn, gone = self._turn, ""
        while not self._calls.empty():
            self._calls.get()  # from before we had the turn
        del turn[HEARS]
        if self._others:
            self._calls.put(None)  # it came while we had the turn
        while True:
            with suppress(Empty):
                self._calls.get(timeout=REST)
            if self._closed.is_set():
                return
            who = turn.setdefault(HEARS, THREAD)
            if who == THREAD:
                break
            if who in self._fleet.waiting:
                gone = ""
            elif who == gone:  # and not only just about to give it back
                self._turn, self._midway = {HEARS: THREAD}, True
                break
            else:
                gone = who
        if self._midway:
            raise EOFError("whoever heard was interrupted")

    def _hear(self, patience: float) -> None:
        """Wait for something to be heard, or to be due, at most so long; ring for whom it is."""
        if self._later:
            patience = max(0.0, min(patience, self._later[0][0] - self._fleet.around.clock()))
        if self._poller.poll(min(patience, LONGEST) * 1000):
            self._midway = True
            take_in(self._sock, self._reader)
            while (push := self._reader.gets()) is not False:
                self._take(push)
            self._midway = False
        if self._later:
            self._ring_due()

    def _take(self, push: Reply) -> None:
        if isinstance(push, Exception):
            raise push
        kind, _, message = push
        if kind == b"message":
            self._others.discard(self._fleet.heard(message, self._ring_later))
        else:
            others = self._others.copy()
            self._fleet.listens(self._node)  # which rings for all
            self._others -= others
            self.ready.set()

    def _ring_later(self, delay: float, holder: str) -> None:
        heappush(self._later, (self._fleet.around.clock() + delay, holder))

    def _ring_due(self) -> None:
        """Ring for those whose time has come."""
        now = self._fleet.around.clock()
        while self._later and self._later[0][0] <= now:
            _, holder = heappop(self._later)
            if holder in self._fleet.waiting:
                self._others.discard(holder)
                self._fleet.around.ring(holder)
