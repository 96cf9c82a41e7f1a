"""A single server: one command and its reply, without ado. N = 1 must not pay for the rest."""

import select
import time

from holdfast.core.fanout import FanOut
from holdfast.core.messages import Acquire, Answer, Release
from holdfast.engines.redis.circuit import Circuit
from holdfast.engines.redis.eagerness import Eagerness
from holdfast.engines.redis.link import AT_ONCE, NOT_YET, PROMPT, Link
from holdfast.engines.redis.nodes import AT_WORK, SILENT, Fleet, Node
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Reply, failed
from holdfast.engines.redis.sockets import BROKEN, CLOSED, NOT_NOW, explain, is_foreign, take_in
from holdfast.engines.redis.speech import Speech

IDLE = 0.01
"""A single server's connection that was not used for longer may have been closed meanwhile, and is
looked at first. (To one that was closed within this time a release is said twice.)"""

COURTESY = 0.0002
"""How long whoever has just given a lock back waits before it queues for it again. It has to wait
in any case; but whoever got the lock should begin before the next in the queue is told to get
ready, where all of them and the server share a few cores."""

SHORT = 4096
"""The reply to an exchange is no longer; the rest would be read as other replies are."""

LOOKS = 32
"""How often to look whether the reply to an exchange is there before going to sleep: some 60 us, in
which a server on the same host has answered, mostly. To be woken takes longer than to look, about
10 us of 45."""


class SoleLink(Link):
    """A connection on which a command can be exchanged for its reply."""

    def __init__(self, node: Node, timeout: float) -> None:
        self._heard = bytearray(SHORT)
        """What an exchange has read last. Begins with a zero, unless it is not parsed yet."""
        self._waiting = False
        self._eagerness = Eagerness()
        super().__init__(node, timeout)

    def exchange(
        self, text: bytes, poller: select.poll, request_timeout: int, *, look: bool
    ) -> Reply:
        """Send one command and wait for its reply: `say` and `hear` in one, for the usual case that
        nothing is owed. `NOT_YET` if the reply is not there, or not all of it. The caller says by
        `settle` that it has the reply, or by `owe` that it will come."""
        with self.mutex:
            if self.owed:
                return None  # another thread has said something meanwhile: nothing was sent
            self.hearing = True
            try:  # as `_send`
                sent: int = self.sock.send(text, self.at_once)
            except NOT_NOW:
                sent = 0
            if sent < len(text):
                self.unsent = text[sent:]
                return NOT_YET
        self._waiting = True
        if not self.is_prompt or request_timeout < PROMPT:
            ready = poller.poll(request_timeout)
            self._waiting = False
            if not ready:
                return NOT_YET
            take_in(self.sock, self.reader, self.at_once)
        else:
            heard = self._heard
            try:
                size = (look and self._look()) or self.sock.recv_into(heard)
            except BlockingIOError:
                self._waiting = False
                return NOT_YET
            if not size:
                raise EOFError(CLOSED)
            self.reader.feed(heard, 0, size)  # type: ignore[arg-type]  # any buffer will do
            self._waiting = False
            heard[0] = 0
        reply = self.reader.gets()
        # Else another thread's reply may have come with it.
        self.in_step = self.is_prompt and not self.owed
        return reply

    def _look(self) -> int:
        """Look for a reply without going to sleep, if it is worth it; gives how much was read."""
        if not self._eagerness.pays():
            return 0
        heard, recv_into = self._heard, self.sock.recv_into
        for _ in range(LOOKS):
            try:
                size: int = recv_into(heard, 0, AT_ONCE)
            except BlockingIOError:
                continue
            self._eagerness.has_paid()
            return size
        self._eagerness.was_vain()
        return 0

    @property
    def has_heard_nothing(self) -> bool:
        """Whether an exchange was interrupted after it had sent its command, and before it read
        anything. What `recv_into` gave may have been lost on its way, but not that it has read."""
        return self._waiting and not self._heard[0]

    def settle(self) -> None:
        """The reply to an exchange has got to whoever wanted it."""
        self.hearing = self._waiting = False

    def owe(self, owed: Owed) -> None:
        """The reply to an exchange is still to come, or some of it."""
        self.in_step = False
        self.owed.appendleft(owed)
        self.settle()


class SoleCircuit(Circuit):
    """A connection to the only node."""

    LINK = SoleLink
    _links: list[SoleLink | None]  # type: ignore[assignment]  # all are made by `LINK`

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._given_back = ""
        """The lock that the last exchange was a release of."""

    def ask(self, request: Acquire | Release, speech: Speech, until: float) -> Answer | None:
        """Ask a server that owes nothing.

        None if that cannot be done, and nothing was done: then it is to be asked in full.
        """
        link = self._links[0]
        now = self._clock()
        if link is None or link.owed or self._busy or now >= until:
            return None
        if now > self._used_at + IDLE and self._poller.poll(0):
            return None
        queues = type(request) is Acquire and request.queue
        if queues and request.key == self._given_back and now < self._used_at + AT_WORK:
            time.sleep(COURTESY)
        self._given_back = "" if type(request) is Acquire else request.key
        self._used_at = now
        self._busy = True
        request_timeout, look = int((until - now) * 1000) + 1, self._owing.is_quiet and not queues
        try:
            reply = link.exchange(speech.command(request), self._poller, request_timeout, look=look)
            if reply is not NOT_YET:
                link.settle()
                self._busy = False
                return speech.read(request, reply)
            poll = self._owe(link, request, speech, until)
        except BaseException as error:
            if isinstance(error, BROKEN) and not is_foreign(error):
                self._drop(link, explain(error))
                self._busy = False
                return failed(explain(error))
            if link.has_heard_nothing:
                self._stop_listening(self._owe(link, request, speech, until))
            raise
        self._listen(poll)
        self._busy = False
        return poll.said(0) or failed(SILENT)

    def _owe(
        self, link: SoleLink, request: Acquire | Release, speech: Speech, until: float
    ) -> FanOut:
        poll = FanOut((request,), (0,), until)
        link.owe(Owed(speech.phrase((request,)), poll))
        if link.unsent:
            self._poller.modify(link.fd, select.POLLIN | select.POLLOUT)
        return poll
