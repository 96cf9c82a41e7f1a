"""A blocking connection to each node, and how a poll is performed on them: all sends before all
reads.

1. A circuit is used by one thread at a time.
2. A node whose oldest answer is overdue is *stuck*: it is skipped, not waited for, until it has
   caught up. Only releases still go out to it. Its connection is not closed, because what its
   kernel has taken in would be carried out all the same.
3. What makes a holder's lock, or ends it, does not go out while something of that holder is not
   answered on another connection: a release goes out there, behind it; the rest has to wait.
4. A node that is being connected to is not waited for either, once there is a quorum without it.
"""

import select
import threading
from collections.abc import Callable
from math import ceil

from holdfast.core.messages import Acquire, Answer, Extend, Release
from holdfast.core.poll import Poll
from holdfast.core.ports import Clock
from holdfast.engines.redis.link import BROKEN, NOT_YET, Link, explain
from holdfast.engines.redis.nodes import (
    CONNECT_TIMEOUT,
    MAX_OWED,
    REDIAL_AFTER,
    SILENT,
    Fleet,
    Node,
    first_contact_until,
)
from holdfast.engines.redis.owed import ORDERED, Owed, holders_of
from holdfast.engines.redis.phrases import failed
from holdfast.engines.redis.speech import Speech

_NOBODY: set[int] = set()

AT_WORK = 0.01
"""For how long a connection that has just been used is taken to be there, without a look."""


class Dial:
    """An attempt to connect, in a thread of its own, which nobody has to wait for."""

    def __init__(self, node: Node, clock: Clock, settled: Callable[[], None]) -> None:
        self._node, self._clock, self._settled = node, clock, settled
        self._abandoned = False
        self.link: Link | None = None
        self.why = "still connecting"
        self.ended_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-connect", daemon=True)
        self._thread.start()

    def abandon(self) -> None:
        """Nobody wants the connection any more."""
        self._abandoned = True
        self._thread.join(CONNECT_TIMEOUT)
        if self.link is not None:
            self.link.close()

    def _run(self) -> None:
        try:
            self.link = Link(self._node, CONNECT_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the node's answer
            self.why = explain(error)
        finally:
            if self._abandoned and self.link is not None:
                self.link.close()
            self.ended_at = self._clock()
            self._settled()


class Circuit:
    """A connection to each node."""

    def __init__(self, fleet: Fleet) -> None:
        self._nodes, self._speech, self._clock = fleet.nodes, fleet.speech, fleet.around.clock
        self._links: list[Link | None] = [None] * len(fleet.nodes)
        self._by_fd: dict[int, Link] = {}
        self._poller = select.poll()
        self._dials: dict[int, Dial] = {}
        self._settled = threading.Semaphore(0)
        self._quorum = len(fleet.nodes) // 2 + 1
        self._fresh = True
        self._busy = False
        self._look_after = 0.0

    def ask(self, request: Acquire | Release, speech: Speech, until: float) -> Answer | None:
        """Ask a single server that owes nothing, without ado: N = 1 must not pay for the rest.

        None if that cannot be done, and nothing was done: then it is to be asked in full.
        """
        link = self._links[0]
        now = self._clock()
        if link is None or link.owed or self._busy or now >= until:
            return None
        if now > self._look_after and self._poller.poll(0):
            return None
        self._look_after = now + AT_WORK
        self._busy = True
        patience = int((until - now) * 1000) + 1
        try:
            reply = link.exchange(speech.command(request), self._poller, patience)
            if reply is not NOT_YET:
                link.settle()
                self._busy = False
                return speech.read(request, reply)
            poll = self._owe(link, request, speech, until)
        except BROKEN as error:
            self._drop(link, explain(error))
            self._busy = False
            return failed(explain(error))
        except BaseException:
            if link.waiting:
                self._stop_listening(self._owe(link, request, speech, until))
            raise
        self._listen(poll)
        self._busy = False
        return poll.said(0) or failed(SILENT)

    def _owe(self, link: Link, request: Acquire | Release, speech: Speech, until: float) -> Poll:
        poll = Poll((request,), (0,), until)
        link.owe(Owed(speech.phrase((request,)), poll))
        if link.unsent:
            self._poller.modify(link.fd, select.POLLIN | select.POLLOUT)
        return poll

    def perform(self, poll: Poll) -> None:
        """Say it to all, then listen until it is over or its time is."""
        if self._busy:
            self._mend()
        self._busy = True
        if self._by_fd:
            self._hear(0)  # what came late, and who is gone
        if len(self._by_fd) < len(self._nodes):
            self._connect(poll)
        owed = Owed(self._speech.phrase(poll.requests), poll)
        try:
            stuck = self._stuck()
            for index in poll.nodes:
                self._say(index, owed, poll, stuck)
        except BaseException:
            self._stop_listening(poll)
            raise
        self._listen(poll)
        self._busy = False

    def _listen(self, poll: Poll) -> None:
        """Hear the answers until it is over or its time is."""
        try:
            while not poll.over:
                left = poll.until - self._clock()
                self._hear(max(ceil(left * 1000), 0))
                if left <= 0:
                    break  # after a last look: it may be we who were late
        finally:
            if len(poll.answers) < len(poll.nodes):
                self._stop_listening(poll)

    def close(self) -> None:
        """Close every connection."""
        for dial in self._dials.values():
            dial.abandon()
        for link in self._by_fd.values():
            link.close()
        self._by_fd.clear()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for link in self._by_fd.values():
            link.forget()

    def _mend(self) -> None:
        """A Ctrl-C has struck in the middle: drop the connection on which it did."""
        for link in list(self._by_fd.values()):
            if link.interrupted:
                self._drop(link, "interrupted")

    def _stuck(self) -> set[int]:
        """The nodes to skip: those whose oldest answer is overdue, if there are enough others."""
        if not any(link.owed for link in self._by_fd.values()):
            return _NOBODY
        now = self._clock()
        stuck = {link.node.index for link in self._by_fd.values() if link.is_stuck(now)}
        return stuck if len(self._by_fd) - len(stuck) >= self._quorum else _NOBODY

    def _say(self, index: int, owed: Owed, poll: Poll, stuck: set[int]) -> None:
        node, link = self._nodes[index], self._links[index]
        request = poll.requests[0]
        releasing = type(request) is Release
        if node.owing and isinstance(request, ORDERED):
            first = self._first_of(poll, node)
            if first is not None and first is not link:
                if not releasing:
                    poll.take(index, [failed(SILENT)] * len(poll.requests))
                    return
                link = first
        full = link is not None and len(link.owed) >= MAX_OWED and link.is_stuck(self._clock())
        if link is None or index in stuck or full:
            why = node.trouble or ("still connecting" if link is None else SILENT)
            poll.take(index, [failed(why)] * len(poll.requests))
            if link is None or not releasing:
                return
        try:
            link.say(owed)
            if link.unsent and link.circuit is self:
                self._poller.modify(link.fd, select.POLLIN | select.POLLOUT)
        except BROKEN as error:
            poll.take(index, [failed(explain(error))] * len(poll.requests))
            if link is self._links[index]:
                self._drop(link, explain(error))

    def _first_of(self, poll: Poll, node: Node) -> Link | None:
        """The connection on which something of these holders is not answered yet."""
        found = (node.owing.get(holder) for holder in holders_of(poll))
        return next((link for link in found if link is not None and not link.closed), None)

    def _hear(self, patience: int) -> None:
        for fd, event in self._poller.poll(patience):
            link = self._by_fd[fd]
            try:
                if event & select.POLLOUT and link.flush():
                    self._poller.modify(fd, select.POLLIN)
                if event & ~select.POLLOUT:
                    link.hear()
            except BROKEN as error:
                self._drop(link, explain(error))

    def _stop_listening(self, poll: Poll) -> None:
        """Note who has not answered, and where a release must go out."""
        late = not poll.over and self._clock() >= poll.until
        poll.over = True
        holders = holders_of(poll)
        for index in poll.nodes:
            node, link = self._nodes[index], self._links[index]
            if index not in poll.answers and link is not None:
                if late:
                    node.is_in_trouble(SILENT)
                for holder in holders:
                    first = node.owing.get(holder)
                    if first is None or first.closed:
                        node.owing[holder] = link

    def _connect(self, poll: Poll) -> None:
        """Connect to the nodes that there is no connection to."""
        missing = [node for node in self._nodes if self._links[node.index] is None]
        if len(self._nodes) == 1:
            self._connect_now(missing[0], poll.until - self._clock())
            return
        began = self._clock()
        self._take_dialled()
        for node in missing:
            if self._links[node.index] is None:
                self._dial(node)
        while True:
            self._take_dialled()
            waiting = [dial for dial in self._dials.values() if dial.ended_at is None]
            if self._voters() < self._quorum:
                give_up_at = first_contact_until(poll, began)
            else:
                give_up_at = poll.until if self._fresh else began
            left = give_up_at - self._clock()
            if not waiting or left <= 0:
                break
            self._settled.acquire(timeout=left)
        self._fresh = False
        if type(poll.requests[0]) is not Extend:  # whose holder must be told of its loss in time
            poll.until += self._clock() - began  # connecting has a time of its own

    def _connect_now(self, node: Node, patience: float) -> None:
        try:
            self._put(Link(node, max(patience, 0.001)))
        except BROKEN as error:
            node.is_in_trouble(explain(error))

    def _dial(self, node: Node) -> None:
        dial = self._dials.get(node.index)
        if dial is not None:
            spare = self._voters() >= self._quorum
            if dial.link is not None:
                return  # it has just been made
            if dial.ended_at is None or (spare and self._clock() < dial.ended_at + REDIAL_AFTER):
                return
        self._dials[node.index] = Dial(node, self._clock, self._settled.release)

    def _voters(self) -> int:
        """How many nodes there is a connection to that have a vote."""
        now = self._clock()
        guards = [link.node.guard for link in self._by_fd.values()]
        return sum(guard.quarantined_until <= now for guard in guards)

    def _take_dialled(self) -> None:
        for index, dial in list(self._dials.items()):
            if dial.link is not None:
                del self._dials[index]
                self._put(dial.link)
            elif dial.ended_at is not None:
                self._nodes[index].is_in_trouble(dial.why)

    def _put(self, link: Link) -> None:
        link.circuit = self
        self._links[link.node.index] = link
        self._by_fd[link.fd] = link
        self._poller.register(link.fd, select.POLLIN)

    def _drop(self, link: Link, why: str) -> None:
        """The connection is gone, and with it whatever was owed."""
        node = link.node
        self._links[node.index] = None
        del self._by_fd[link.fd]
        self._poller.unregister(link.fd)
        link.close()
        node.is_in_trouble(why)
        for owed in link.owed:
            owed.poll.take(node.index, [failed(why)] * len(owed.poll.requests))
