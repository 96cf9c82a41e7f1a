"""A blocking connection to each node, and how a poll is performed on them: all sends before all
reads.

1. A circuit is used by one thread at a time.
2. A node whose oldest answer is overdue is *stuck*: it is skipped, not waited for, until it has
   caught up. Only releases still go out to it. Its connection is not closed, because what its
   kernel has taken in would be carried out all the same.
3. What makes a holder's lock, or ends it, does not go out while something of that holder is not
   answered on another connection: a release goes out there, behind it; the rest has to wait.
4. A node that is being connected to is not waited for either, once there is a quorum without it.
5. What has not been read when it goes to rest is read when somebody must know it (see `Owing`).
"""

import select
import threading
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from typing import ClassVar

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Release
from holdfast.engines.redis.dial import Dials
from holdfast.engines.redis.eagerness import Eagerness
from holdfast.engines.redis.link import Link, hear_from, say_to
from holdfast.engines.redis.nodes import AT_WORK, GONE, MAX_OWED, SILENT, Fleet
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.owing import holders_of
from holdfast.engines.redis.phrases import failed
from holdfast.engines.redis.sockets import BROKEN, explain

LOOKING = 0.0002
"""For how many seconds to look whether nodes have answered before going to sleep. On the same host
they have, mostly, and it is 5 % quicker not to be woken by each."""

_NOBODY: set[int] = set()


class Circuit:
    """A connection to each node."""

    LINK: ClassVar[type[Link]] = Link
    """The connection to a single node."""

    def __init__(self, fleet: Fleet) -> None:
        self._nodes, self._speech, self._clock = fleet.nodes, fleet.speech, fleet.around.clock
        self._owing = fleet.owing
        self._late: set[str] = set()
        """The holders of whom something may not be answered here yet."""
        self._skipped = _NOBODY
        self._links: list[Link | None] = [None] * len(fleet.nodes)
        self._present: tuple[Link, ...] = ()
        """Those that there are, in the order of their nodes."""
        self._by_fd: dict[int, Link] = {}
        self._mutex = threading.RLock()
        self._poller = select.poll()
        self._dials = Dials(fleet.nodes, self._clock, self._put)
        self._quorum = len(fleet.nodes) // 2 + 1
        self._eagerness = Eagerness()
        self._busy = False
        self._used_at = 0.0

    def perform(self, poll: FanOut) -> None:
        """Say it to all, then listen until it is over or its time is."""
        if self._busy:
            self._mend()
        self._busy = True
        now = self._clock()
        if now > self._used_at + AT_WORK or self._skipped:
            self._look(now)
        if len(self._present) < len(self._nodes):
            self._connect(poll)
        owed = Owed(self._speech.phrase(poll.requests), poll)
        elsewhere = self._owing.elsewhere(holders_of(poll), self) if self._owing.noting else ()
        try:
            to_all = len(self._nodes) == len(self._present) == len(poll.nodes)
            if to_all and not elsewhere and not self._skipped:
                self._say(self._present, owed)
            else:
                self._say_with_care(owed, elsewhere)
        except BaseException:
            self._stop_listening(poll)
            raise
        self._listen(poll)
        self._busy = False

    def _listen(self, poll: FanOut) -> None:
        """Hear the answers until it is over or its time is."""
        try:
            self._look_out(poll)
            while not poll.over:
                left = poll.until - self._clock()
                self._hear(max(ceil(left * 1000), 0), poll)
                if left <= 0:
                    break  # after a last look: it may be we who were late
        finally:
            if not poll.over or self._owing.noting:
                self._stop_listening(poll)

    def _look_out(self, poll: FanOut) -> None:
        """Hear whoever has answered already; and again and again, if that is worth it."""
        eagerness, give_up_at = self._eagerness, 0.0
        while True:
            for link, error in hear_from(self._present, poll):
                self._care_for(link, error)
            if poll.over:
                if give_up_at and eagerness.vain:
                    eagerness.has_paid()
                return
            if not give_up_at:
                if not self._owing.is_quiet or not eagerness.pays():
                    return
                give_up_at = self._clock() + LOOKING
            elif self._clock() >= give_up_at:
                eagerness.was_vain()
                return

    def close(self) -> None:
        """Close every connection."""
        self._dials.abandon()
        for link in list(self._by_fd.values()):  # whoever uses it may drop one meanwhile
            link.close()
            # To one who waits for it, and whom a signal handler has struck.
            for owed in list(link.owed):
                owed.poll.take(link.node.index, [failed(GONE)] * len(owed.poll.requests))
        self._by_fd.clear()
        self._owing.remove(self._late, self)

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for link in self._by_fd.values():
            link.forget()

    def _mend(self) -> None:
        """A Ctrl-C has struck in the middle: drop the connections that it has left half-way."""
        for link in list(filter(None, self._links)):
            if link.interrupted or link not in self._present:
                self._drop(link, "interrupted")
                self._dials.wait_for_all()  # to give back what it may have been asked for
            else:
                self._care_for(link, None)  # word of what is left to be sent may have been lost

    def catch_up(self) -> None:
        """Hear what has come since it was used last."""
        if self._busy:
            self._mend()
        self._busy = True
        self._look(self._clock())
        self._busy = False

    def _look(self, now: float) -> None:
        """Hear what came late, and see who is gone and who is stuck."""
        self._used_at = now
        self._hear(0)
        self._skipped = self._stuck(now)
        if self._late:
            owed = [each.poll for link in list(self._by_fd.values()) for each in list(link.owed)]
            answered = self._late.difference(*map(holders_of, owed))
            self._owing.remove(answered, self)
            self._late -= answered

    def _stuck(self, now: float) -> set[int]:
        """The nodes to skip: those whose oldest answer is overdue, if there are enough others, or
        if they owe too many."""
        stuck = [link for link in list(self._by_fd.values()) if link.is_stuck(now)]
        if not stuck:
            return _NOBODY
        enough = len(self._by_fd) - len(stuck) >= self._quorum
        return {link.node.index for link in stuck if enough or len(link.owed) >= MAX_OWED}

    def owes(self, index: int, poll: FanOut) -> Link | None:
        """The connection to a node if something of the poll's holders is not answered on it."""
        link, holders = self._links[index], set(holders_of(poll))
        theirs = (holders_of(owed.poll) for owed in list(link.owed if link else ()))
        return None if all(map(holders.isdisjoint, theirs)) else link

    def _say(self, links: Sequence[Link], owed: Owed) -> None:
        for link, error in say_to(links, owed):
            if error is not None:
                owed.poll.take(link.node.index, [failed(explain(error))] * len(owed.requests))
            self._care_for(link, error)

    def _care_for(self, link: Link, error: Exception | None) -> None:
        """It is broken; or something is left to be sent, when there is room for it."""
        if error is not None:
            if link is self._links[link.node.index]:
                self._drop(link, explain(error))
        elif link.unsent and link.circuit is self:
            self._poller.modify(link.fd, select.POLLIN | select.POLLOUT)

    def _say_with_care(self, owed: Owed, elsewhere: "Sequence[Circuit]") -> None:
        """Say it where nothing speaks against it."""
        for index in owed.poll.nodes:
            link = self._links[index]
            if link is None or elsewhere or index in self._skipped:
                self._hesitate(index, owed, elsewhere)
            else:
                self._say((link,), owed)

    def _hesitate(self, index: int, owed: Owed, elsewhere: "Sequence[Circuit]") -> None:
        """Say it to a node only if it may, or must, be heard there all the same."""
        link, poll = self._links[index], owed.poll
        releasing = type(owed.requests[0]) is Release
        first = next(filter(None, (circuit.owes(index, poll) for circuit in elsewhere)), None)
        link = first or link
        if link is None or index in self._skipped or (first is not None and not releasing):
            why = self._nodes[index].trouble or ("still connecting" if link is None else SILENT)
            poll.take(index, [failed(why)] * len(owed.requests))
            if link is None or not releasing:
                return
        self._say((link,), owed)

    def _hear(self, request_timeout: int, poll: FanOut | None = None) -> None:
        """Wait for something to read. Once a poll is settled, the rest is left for the next look,
        to be read in one go with what will have followed it."""
        for fd, event in self._poller.poll(request_timeout):
            link = self._by_fd.get(fd)  # None: it was closed meanwhile
            can_wait = event == select.POLLIN and poll is not None and poll.settled
            if link is not None and not can_wait:
                self._attend_to(link, event)

    def _attend_to(self, link: Link, event: int = select.POLLIN) -> None:
        try:
            if event & select.POLLOUT and link.flush():
                self._poller.modify(link.fd, select.POLLIN)
            if event & ~select.POLLOUT:
                link.hear()
                self._care_for(link, None)
        except BROKEN as error:
            self._care_for(link, error)

    def _stop_listening(self, poll: FanOut) -> None:
        """Note who has not answered, and where what follows must go out."""
        if not poll.over and self._clock() >= poll.until:
            for index in poll.nodes:
                if index not in poll.answers and self._links[index] is not None:
                    self._nodes[index].is_in_trouble(SILENT)
        poll.over = True
        if self._owing.noting and len(poll.answers) < len(poll.nodes):
            self._note(poll)

    def note_all(self) -> None:
        """Note what is not answered here yet: there are others now."""
        for link in list(self._by_fd.values()):
            for owed in list(link.owed):
                self._note(owed.poll)

    def _note(self, poll: FanOut) -> None:
        holders = holders_of(poll)
        self._owing.add(holders, self)
        self._late.update(holders)

    def _connect(self, poll: FanOut) -> None:
        """Connect to the nodes that there is no connection to."""
        if len(self._nodes) > 1:
            self._dials.connect(poll, lambda: self._present)
            return
        try:
            self._put(self.LINK(self._nodes[0], max(poll.until - self._clock(), 0.001)))
        except BROKEN as error:
            self._nodes[0].is_in_trouble(explain(error))

    def _put(self, link: Link) -> None:
        link.circuit, link.mutex = self, self._mutex
        self._links[link.node.index] = link
        self._poller.register(link.fd, select.POLLIN)
        self._by_fd[link.fd] = link
        self._present = tuple(filter(None, self._links))  # last: then it is all done

    def _drop(self, link: Link, why: str) -> None:
        """The connection is gone, and with it whatever was owed."""
        node = link.node
        self._present = tuple(other for other in self._present if other is not link)
        self._by_fd.pop(link.fd, None)
        with suppress(KeyError):  # it was struck before it was there
            self._poller.unregister(link.fd)
        link.close()
        self._links[node.index] = None  # last: until then it can be dropped once more
        node.is_in_trouble(why)
        for owed in list(link.owed):
            owed.poll.take(node.index, [failed(why)] * len(owed.poll.requests))
