"""Connecting in a thread of its own."""

import threading
from collections.abc import Callable, Sequence

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Extend
from holdfast.core.ports import Clock
from holdfast.engines.redis.link import Link
from holdfast.engines.redis.nodes import (
    CONNECT_TIMEOUT,
    REDIAL_AFTER,
    Node,
    first_contact_until,
)
from holdfast.engines.redis.sockets import explain


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


class Dials:
    """The attempts of one circuit: for each node at most one, which is under way or has failed."""

    def __init__(self, nodes: Sequence[Node], clock: Clock, put: Callable[[Link], None]) -> None:
        self._nodes, self._clock, self._put = nodes, clock, put
        self._quorum = len(nodes) // 2 + 1
        self._dials: dict[int, Dial] = {}
        self._settled = threading.Semaphore(0)
        self._fresh = True

    def connect(self, poll: FanOut, present: Callable[[], Sequence[Link]]) -> None:
        """Connect to the nodes that there is no connection to. Once there is a quorum without them,
        nobody waits for them any more, but for the first time."""
        began = self._clock()
        self._take()
        there = {link.node.index for link in present()}
        for node in self._nodes:
            if node.index not in there:
                self._begin(node, spare=self._voters(present()) >= self._quorum)
        while True:
            under_way = self._under_way  # before the look: they may end meanwhile
            self._take()
            if self._voters(present()) < self._quorum:
                give_up_at = first_contact_until(poll, began)
            else:
                give_up_at = poll.until if self._fresh else began
            left = give_up_at - self._clock()
            if not under_way or left <= 0:
                break
            self._wait(left)
        self._fresh = False
        if type(poll.requests[0]) is not Extend:  # whose holder must be told of its loss in time
            poll.until += self._clock() - began  # connecting has a time of its own

    def wait_for_all(self) -> None:
        """The next time, as for the first."""
        self._fresh = True

    def _voters(self, links: Sequence[Link]) -> int:
        """How many nodes there is a connection to that have a vote."""
        now = self._clock()
        return sum(link.node.guard.quarantined_until <= now for link in links)

    @property
    def _under_way(self) -> bool:
        """Whether there is one to wait for."""
        return any(dial.ended_at is None for dial in self._dials.values())

    def _begin(self, node: Node, *, spare: bool) -> None:
        """Connect to a node. One that is to spare is left alone for a while after a failure."""
        last = self._dials.get(node.index)
        if last is not None:
            if last.ended_at is None or last.link is not None:
                return  # it is under way, or has just been made
            if spare and self._clock() < last.ended_at + REDIAL_AFTER:
                return
        self._dials[node.index] = Dial(node, self._clock, self._settled.release)

    def _wait(self, request_timeout: float) -> None:
        """Wait until one has ended, at most so long."""
        self._settled.acquire(timeout=request_timeout)
        # Others may have ended, too, now or before: the caller looks at all of them.
        while self._settled.acquire(blocking=False):
            continue

    def _take(self) -> None:
        """Put the connections that were made; whoever could not be reached is in trouble."""
        for index, dial in list(self._dials.items()):
            if dial.link is not None:
                del self._dials[index]
                self._put(dial.link)
            elif dial.ended_at is not None:
                self._nodes[index].is_in_trouble(dial.why)

    def abandon(self) -> None:
        """Nobody wants any of them any more."""
        for dial in list(self._dials.values()):  # one may be taken meanwhile
            dial.abandon()
