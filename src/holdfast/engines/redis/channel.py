"""One asyncio connection to one node, shared by all tasks: commands are sent without waiting for
the replies to earlier ones.

What is said within one turn of the event loop goes out in few writes, which doubles what a thousand
tasks get through.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, cast, final

import hiredis

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Inspect, ToNode
from holdfast.core.ports import Clock
from holdfast.engines.inherited import detach
from holdfast.engines.redis.deadlines import LATE, Bell
from holdfast.engines.redis.nodes import MAX_OWED, Fleet, Node, accept
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Reply, command, failed
from holdfast.engines.redis.sockets import BROKEN, explain

CLOSE_PATIENCE = 1.0

FEW = 32
"""So many commands go out together, without waiting for the end of this turn of the loop: while the
next ones are made, the server has something to do."""


OF_ONE_ALONE = ("NOPERM", "CROSSSLOT")
"""Errors that have to do with a command's keys."""


class Connection(asyncio.Protocol):
    """A connection that redis-py has made, taken over."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer  # a stream writer that nobody refers to would close its transport
        self.loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self.transport: asyncio.Transport = writer.transport
        self.lost: asyncio.Future[str] = self.loop.create_future()
        """Done when the connection is gone, with the reason."""
        self.transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        """Hand each reply on."""
        try:
            self._reader.feed(data)
            self.hear_all(self._reader.gets)
        except BROKEN as error:
            self._lose(explain(error))
        except Exception as error:  # a defect of ours
            self._lose(explain(error))
            raise
        except BaseException:
            self.interrupt()
            raise

    def interrupt(self) -> None:
        """A Ctrl-C has struck in the middle: nobody knows what was said, or whose reply is next."""
        self._lose("interrupted")

    def hear_all(self, gets: Callable[[], Reply]) -> None:
        """Take the replies that have come; False stands for the rest."""
        while (reply := gets()) is not False:
            self.hear(reply)

    def hear(self, reply: Reply) -> None:
        """Take one reply."""
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._lose(str(exc) if exc else "the connection was closed")

    def _lose(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)
        self.transport.abort()

    async def close(self) -> None:
        """Close it."""
        self.transport.close()
        # Not for ever: a Ctrl-C can strike in the loop itself, and take its next step with it.
        await asyncio.wait((self.lost,), timeout=CLOSE_PATIENCE)

    def abandon(self) -> None:
        """Close it without waiting, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.transport.abort)

    def forget(self) -> None:
        """In a forked child: let go of the socket without a word to the server."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            detach(sock.fileno())


@final
class Question:
    """One command to a single server. What is awaited is its reply, not what that means; None if
    it does not come in time, an exception if it will not come at all."""

    __slots__ = ("bell", "requests", "text", "until")

    def __init__(self, text: bytes, requests: Sequence[ToNode], bell: Bell, until: float) -> None:
        self.text = text
        self.requests = requests
        self.bell = bell
        self.until = until


class Channel(Connection):
    """The connection on which requests go out."""

    def __init__(self, node: Node, writer: Any) -> None:
        super().__init__(writer)
        self.node = node
        self.owed: deque[Owed | Question] = deque()
        self._replies: list[Reply] = []
        self._unsent: list[bytes] = []
        self._suspect: Owed | Question | None = None
        self._stuck = False
        self.send_chorus: Callable[[], None] | None = None
        """Sends what was said to all nodes alike, here among them."""

    async def greet(self) -> None:
        """Ask what must be known before anything else is said."""
        greeting = self.node.greeting()
        if greeting is not None:
            bell: Bell = self.loop.create_future()
            poll = FanOut((Inspect(""),), (self.node.index,), inf)
            self.say(Owed(greeting, poll, bell))
            await bell
            accept(poll.answers[self.node.index])

    def say(self, owed: "Owed | Question") -> None:
        """Send something, within this turn of the loop."""
        if self.send_chorus is not None:
            self.send_chorus()  # it was said before
        try:
            self.owed.append(owed)
            unsent = self._unsent
            if not unsent:
                self.loop.call_soon(self._send)
            unsent.append(owed.text)
            if len(unsent) == FEW:
                self._send()
        except BaseException:
            self.interrupt()
            raise

    def hear_all(self, gets: Callable[[], Reply]) -> None:
        """Hand each reply to whoever asked first. This runs for every reply of every node, so what
        is usual is told here, without a call for each step."""
        owed = self.owed
        while (reply := gets()) is not False:
            first = owed[0]
            if type(first) is Question:
                if not first.bell.done():
                    first.bell.set_result(reply)
                owed.popleft()
            elif first.together == 1:
                self._hear_each((reply,))
            elif isinstance(reply, Exception):
                if str(reply).startswith(OF_ONE_ALONE):
                    self._say_apart(first.together)
                else:
                    self._hear_each((reply,) * first.together)  # an error is that of each
            elif type(reply) is list and len(reply) == first.together:
                self._hear_each(reply)
            else:
                raise EOFError(f"no replies to {first.together} questions: {reply!r}")

    def _say_apart(self, count: int) -> None:
        """They were refused together for what may be one's fault, and none was carried out."""
        owed = cast("deque[Owed]", self.owed)
        for _ in range(count):
            first = owed[0]
            more = first.again(self.node, first.phrase, owed)
            if more is not None:
                self.say(more)
            elif first.poll.over:
                first.notify()
            owed.popleft()

    def _hear_each(self, replies: Sequence[Reply]) -> None:
        owed, node = cast("deque[Owed]", self.owed), self.node
        for reply in replies:
            first = owed[0]
            if type(reply) is int and first.number is not None:
                # What the slower half of a quorum says is of no interest.
                if (not first.poll.settled or node.trouble) and first.hear_number(node, reply):
                    first.notify()
                owed.popleft()  # not before: should it make no sense, it is still to be failed
            else:
                self.hear(reply)

    def hear(self, reply: Reply) -> None:
        """Take one of the replies that are owed first."""
        first = self.owed[0]
        if not isinstance(first, Owed):
            return
        self._replies.append(reply)
        if len(self._replies) < first.count:
            return
        replies, self._replies = self._replies, []
        more = first.hear(self.node, replies, self.owed)
        if more is not None:
            self.say(more)
        elif first.poll.over:
            first.notify()
        self.owed.popleft()  # not before: should anything go wrong, it is still to be failed

    def is_full(self, clock: Clock) -> bool:
        """Whether so much is owed, and overdue, that nothing more should be said."""
        return len(self.owed) >= MAX_OWED and self.owed[0].until < clock()

    def is_stuck(self, now: float) -> bool:
        """Whether the oldest answer is overdue, and not for want of our listening."""
        if not self.owed or self.owed[0].until >= now:
            return False
        if self._suspect is not self.owed[0]:
            self._suspect, self._stuck = self.owed[0], False
            self.loop.call_later(LATE, self.note_silence, self._suspect)
        return self._stuck

    def note_silence(self, suspect: Owed | Question | None = None) -> None:
        """We have listened, and the oldest answer (this one) has not come."""
        if self.owed and suspect in (None, self.owed[0]):
            self._suspect, self._stuck = self.owed[0], True

    def write(self, text: bytes) -> None:
        """Send this, behind all that was said before."""
        self._send()
        self._write(text)

    def _send(self) -> None:
        try:
            unsent, self._unsent = self._unsent, []
            if unsent:
                self._write(b"".join(unsent))
        except BaseException:
            self.interrupt()
            raise

    def _write(self, text: bytes) -> None:
        if self.lost.done():
            self._lose(self.lost.result())  # for those who did not know yet
        else:
            self.transport.write(text)

    def _lose(self, why: str) -> None:
        super()._lose(why)
        owed, self.owed = self.owed, deque()
        for each in owed:
            if isinstance(each, Question):
                if not each.bell.done():
                    each.bell.set_result(ConnectionError(why))
                continue
            each.poll.take(self.node.index, [failed(why)] * len(each.poll.requests))
            if each.poll.over:
                each.notify()


class Subscription(Connection):
    """The connection on which wake-ups come in."""

    def __init__(self, node: Node, fleet: Fleet, ready: asyncio.Event, writer: Any) -> None:
        super().__init__(writer)
        self._node, self._fleet, self._ready = node, fleet, ready
        self.transport.write(command(b"SUBSCRIBE", fleet.channel.encode()))

    def hear(self, reply: Reply) -> None:
        """Take a message, or the word that messages will come."""
        if isinstance(reply, Exception):
            raise reply
        kind, _, message = reply
        if kind == b"message":
            holder, *words = message.decode().split(" ")
            self._fleet.heard(holder, words, self._ring_later)
        else:
            self._fleet.listens(self._node)
            self._ready.set()

    def _ring_later(self, delay: float, holder: str) -> None:
        self.loop.call_later(delay, self._notify, holder)

    def _notify(self, holder: str) -> None:
        if holder in self._fleet.waiting:
            self._fleet.around.notify(holder)
