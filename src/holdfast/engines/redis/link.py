"""One blocking connection to one node.

Replies come in the order of the commands, and each is handed to whoever asked, also when that one
has stopped listening: so a late reply never desynchronises a connection.
"""

import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence

import hiredis

from holdfast.core.fanout import FanOut
from holdfast.engines.inherited import detach
from holdfast.engines.redis.nodes import Node, accept
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Reply
from holdfast.engines.redis.sockets import BROKEN, CLOSED, NOT_NOW, has_struck, take_in

USUAL_SIZE = 448
"""No usual reply is longer, and Python has room for so many bytes at hand."""

PROMPT = 2
"""Milliseconds that the reply to an exchange is waited for by reading it, which saves the call that
asks whether there is anything to read: 2 us of 25. Few, since after a signal Python reads anew, for
as long again: signals that come more often than that would keep it there."""

AT_ONCE = socket.MSG_DONTWAIT
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
        self.reader = hiredis.Reader()
        self._replies: list[Reply] = []
        self.in_step = False
        """Whether what comes next is surely the beginning of a reply, nothing is left unread before
        it, and it can be read without waiting for it."""
        self.mutex = threading.RLock()
        """For whoever says something: one for all connections of a circuit."""
        self.saying = self.hearing = False
        try:
            self._greet()
            self.in_step = self.is_prompt = self._bound_reads()
        except BaseException:
            self.close()
            raise
        self.fd: int = self.sock.fileno()
        self.at_once = AT_ONCE if self.is_prompt else 0

    def say(self, owed: Owed) -> None:
        """Send a phrase, or as much of it as goes out now."""
        for _, error in say_to((self,), owed):
            if error is not None:
                raise error

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
        """Read what has arrived, and hand it to whoever asked."""
        if self.owed:
            for _, error in hear_from((self,), _NOBODYS):
                if error is not None:
                    raise error
        else:
            self.hearing = True
            self.hear_all()
            self.hearing = False

    def hear_all(self) -> None:
        """Read what has arrived, however much it is."""
        take_in(self.sock, self.reader, self.at_once)
        self._hand_on()

    def hear_more(self, heard: bytes) -> None:
        """This was heard, which is not the usual; read what else has arrived."""
        if not heard:
            raise EOFError(CLOSED)
        self.reader.feed(heard)
        self._hand_on()
        if len(heard) == USUAL_SIZE:
            self.hear_all()

    def _hand_on(self) -> None:
        owed, gets = self.owed, self.reader.gets
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
        self.in_step = self.is_prompt and not owed

    @property
    def interrupted(self) -> bool:
        """Whether a Ctrl-C has struck within a command or a reply: nobody knows how much of it went
        through. Only for whoever uses the connection; others may be saying something."""
        with self.mutex:
            return self.hearing or self.saying

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
                take_in(self.sock, self.reader)
                while (reply := self.reader.gets()) is not False:
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
        except NOT_NOW as error:
            if self.is_prompt and has_struck(error):
                raise
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
                except NOT_NOW as error:
                    if link.is_prompt and has_struck(error):
                        raise
                    sent = 0
                if sent < size:
                    link.unsent += text[sent:]
                    lagging += ((link, None),)
                link.saying = False
            except BROKEN as error:
                lagging += ((link, error),)
    return lagging


def hear_from(  # noqa: C901 - a call for each step is what it does without
    links: Sequence[Link], poll: FanOut
) -> Sequence[tuple[Link, Exception | None]]:
    """Read what has arrived on connections that owe something, and hand it to whoever asked, until
    a poll is settled. Gives those on which something is left to be said once more, and those that
    are broken, with what is wrong with them.

    The usual is told here, without a call for each step, since this is done for each of several
    nodes, again and again."""
    lagging: tuple[tuple[Link, Exception | None], ...] = ()
    for link in links:
        owed = link.owed
        if not owed:
            continue
        link.hearing = True
        try:
            if link.in_step:
                try:
                    data = link.sock.recv(USUAL_SIZE, AT_ONCE)
                except BlockingIOError as error:
                    if has_struck(error):
                        raise
                    link.hearing = False
                    continue  # nothing has
                first, node = owed[0], link.node
                if data == first.usual:
                    owed.popleft()
                    if node.trouble:
                        node.is_well()
                    if not first.poll.settled:
                        first.poll.take(node.index, first.phrase.usually)
                elif len(owed) > 1 and data == first.usual + owed[1].usual:  # it was late
                    owed.popleft().hear_usual(node)
                    owed.popleft().hear_usual(node)
                else:
                    link.hear_more(data)
            else:
                link.hear_all()
        except BROKEN as error:
            lagging += ((link, error),)
            continue
        link.hearing = False
        if link.unsent:
            lagging += ((link, None),)
        if poll.settled:
            break
    return lagging


_NOBODYS = FanOut((), (), 0.0)
"""Never settled."""
