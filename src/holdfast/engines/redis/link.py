"""One blocking connection to one node.

Replies come in the order of the commands, and each is handed to whoever asked, also when that one
has stopped listening: so a late reply never desynchronises a connection.
"""

import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence

import hiredis

from holdfast.engines.inherited import detach
from holdfast.engines.redis.eagerness import Eagerness
from holdfast.engines.redis.nodes import Node, accept
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Reply
from holdfast.engines.redis.sockets import BROKEN, CLOSED, NOT_NOW, take_in

USUAL_SIZE = 448
"""No usual reply is longer, and Python has room for so many bytes at hand."""

SHORT = 4096
"""The reply to an exchange is no longer; the rest would be read as other replies are."""

PROMPT = 2
"""Milliseconds that the reply to an exchange is waited for by reading it, which saves the call that
asks whether there is anything to read: 2 us of 25. Few, since after a signal Python reads anew, for
as long again: signals that come more often than that would keep it there."""

LOOKS = 32
"""How often to look whether the reply to an exchange is there before going to sleep: some 60 us, in
which a server on the same host has answered, mostly. To be woken takes longer than to look, about
10 us of 45."""

_AT_ONCE = socket.MSG_DONTWAIT
_PROMPT_TIMEVAL = struct.pack("@ll", 0, PROMPT * 1000)

INTERRUPTED = "somebody was interrupted in the middle of a command"

NOT_YET = False
"""What the parser gives as long as a reply is incomplete."""


class Link:
    """A connection. One thread at a time uses it; any thread may say something on it."""

    def __init__(self, node: Node, timeout: float) -> None:
        self.node = node
        self.circuit: object = None
        """To which it belongs."""
        self.owed: deque[Owed] = deque()
        self.unsent = b""
        """What could not be sent yet."""
        self.sock, self._connection = node.address.open(timeout)
        self._reader = hiredis.Reader()
        self._heard = bytearray(SHORT)
        """What an exchange has read last. Begins with a zero, unless it is not parsed yet."""
        self._replies: list[Reply] = []
        self._in_step = True
        """Whether what comes next is surely the beginning of a reply, and nothing is left unread
        before it."""
        self.mutex = threading.RLock()
        """For whoever says something: one for all connections of a circuit."""
        self.saying = self._hearing = self._waiting = False
        self._eagerness = Eagerness()
        try:
            self._greet()
            self._is_prompt = self._bound_reads()
        except BaseException:
            self.close()
            raise
        self.fd: int = self.sock.fileno()
        self.at_once = _AT_ONCE if self._is_prompt else 0

    def say(self, owed: Owed) -> None:
        """Send a phrase, or as much of it as goes out now."""
        for _, error in say_to((self,), owed):
            if error is not None:
                raise error

    def exchange(self, text: bytes, poller: select.poll, patience: int, *, look: bool) -> Reply:
        """Send one command and wait for its reply: `say` and `hear` in one, for the usual case that
        nothing is owed. `NOT_YET` if the reply is not there, or not all of it. The caller says by
        `settle` that it has the reply, or by `owe` that it will come."""
        with self.mutex:
            if self.owed:
                return None  # another thread has said something meanwhile: nothing was sent
            self._hearing = True
            try:  # as `_send`
                sent: int = self.sock.send(text, self.at_once)
            except NOT_NOW:
                sent = 0
            if sent < len(text):
                self.unsent = text[sent:]
                return NOT_YET
        self._waiting = True
        if not self._is_prompt or patience < PROMPT:
            ready = poller.poll(patience)
            self._waiting = False
            if not ready:
                return NOT_YET
            take_in(self.sock, self._reader, self.at_once)
        else:
            heard = self._heard
            try:
                size = (look and self._look()) or self.sock.recv_into(heard)
            except BlockingIOError:
                self._waiting = False
                return NOT_YET
            if not size:
                raise EOFError(CLOSED)
            self._reader.feed(heard, 0, size)  # type: ignore[arg-type]  # any buffer will do
            self._waiting = False
            heard[0] = 0
        reply = self._reader.gets()
        self._in_step = not self.owed  # else another thread's reply may have come with it
        return reply

    def _look(self) -> int:
        """Look for a reply without going to sleep, if it is worth it; gives how much was read."""
        if not self._eagerness.pays():
            return 0
        heard, recv_into = self._heard, self.sock.recv_into
        for _ in range(LOOKS):
            try:
                size: int = recv_into(heard, 0, _AT_ONCE)
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
        self._hearing = self._waiting = False

    def owe(self, owed: Owed) -> None:
        """The reply to an exchange is still to come, or some of it."""
        self._in_step = False
        self.owed.appendleft(owed)
        self.settle()

    def flush(self) -> bool:
        """Send what is left to send; True if nothing is left any more."""
        with self.mutex:
            if self.saying:
                raise EOFError(INTERRUPTED)
            self.saying = True
            if self.unsent:
                self.unsent = self.unsent[self._send(self.unsent) :]
            self.saying = False
            return not self.unsent

    def hear(self) -> None:
        """Read what has arrived, and hand it to whoever asked. The usual is told without ado, since
        this is called for each of several nodes."""
        self._hearing = True
        owed, size = self.owed, USUAL_SIZE
        usual = owed[0].usual if owed and self._in_step and self._is_prompt else None
        if usual is not None:
            try:
                data = self.sock.recv(USUAL_SIZE, _AT_ONCE)
            except BlockingIOError:
                self._hearing = False
                return
            if data == usual:
                owed.popleft().hear_usual(self.node)
                self._hearing = False
                return
            if not data:
                raise EOFError(CLOSED)
            self._reader.feed(data)
            self._hear_all()
            size = len(data)
        if size == USUAL_SIZE:  # there may be more
            take_in(self.sock, self._reader, self.at_once)
            self._hear_all()
        self._in_step = not owed
        self._hearing = False

    def _hear_all(self) -> None:
        owed, gets = self.owed, self._reader.gets
        while (reply := gets()) is not NOT_YET:
            if not owed:
                raise EOFError("a reply that nobody has asked for")
            first = owed[0]
            if type(reply) is int and first.number is not None:
                owed.popleft()
                first.hear_number(self.node, reply)
                continue
            self._replies.append(reply)
            if len(self._replies) < first.count:
                continue
            replies, self._replies = self._replies, []
            more = first.hear(self.node, replies, owed)
            if more is not None:
                self.say(more)
            owed.popleft()  # not before: what follows it on another connection must not overtake it

    @property
    def interrupted(self) -> bool:
        """Whether a Ctrl-C has struck within a command or a reply: nobody knows how much of it went
        through. Only for whoever uses the connection; others may be saying something."""
        with self.mutex:
            return self._hearing or self.saying

    def is_stuck(self, now: float) -> bool:
        """Whether the oldest answer is overdue."""
        return bool(self.owed) and self.owed[0].poll.until < now

    def close(self) -> None:
        """Close it; whatever was owed will not come."""
        self.sock.close()

    def forget(self) -> None:
        """In a forked child: let go of the socket without a word to the server."""
        detach(self.fd)

    def _greet(self) -> None:
        """Ask what must be known before anything else is said; the socket still blocks."""
        greeting = self.node.greeting()
        if greeting is not None:
            self.sock.sendall(b"".join(greeting.commands))
            replies: list[Reply] = []
            while len(replies) < len(greeting.commands):
                take_in(self.sock, self._reader)
                while (reply := self._reader.gets()) is not False:
                    replies.append(reply)
            accept(greeting.conclude(replies))

    def _bound_reads(self) -> bool:
        """Never wait for the socket; or, if it can, let it wait for what is to be read, but not for
        longer than `PROMPT`. TLS cannot, nor can the sockets of gevent and the like."""
        self.sock.setblocking(False)
        if type(self.sock).__module__ != "socket":
            return False
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PROMPT_TIMEVAL)
        except OSError:
            return False  # where the time has another size
        self.sock.setblocking(True)
        return True

    def _send(self, text: bytes) -> int:
        try:
            sent: int = self.sock.send(text, self.at_once)
        except NOT_NOW:
            return 0
        return sent


def say_to(links: Sequence[Link], owed: Owed) -> Sequence[tuple[Link, Exception | None]]:
    """Send a phrase on connections of one circuit, or as much of it as goes out now. Gives those on
    which it did not go out whole, and what is wrong with them, if they are broken."""
    text, size = owed.text, len(owed.text)
    lagging: tuple[tuple[Link, Exception | None], ...] = ()
    with links[0].mutex:
        for link in links:
            try:
                if link.saying:
                    raise EOFError(INTERRUPTED)
                link.saying = True
                link.owed.append(owed)
                try:  # as `_send`, which would be a call for each of several nodes
                    sent: int = 0 if link.unsent else link.sock.send(text, link.at_once)
                except NOT_NOW:
                    sent = 0
                if sent < size:
                    link.unsent += text[sent:]
                    lagging += ((link, None),)
                link.saying = False
            except BROKEN as error:
                lagging += ((link, error),)
    return lagging
