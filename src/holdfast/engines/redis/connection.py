"""One connection to one server. Pure: bytes in, bytes out; the drivers own the socket.

1. The server executes commands in the order in which they were sent, and replies in that order. So
   a queue of pending requests is all that matches replies to requests.
2. A request whose caller has stopped waiting stays in the queue. Its reply is read and dropped, so
   a late reply never desynchronises the connection, and a release that was sent behind a late
   acquire is executed behind it.
3. Publications come in between, as pushes of RESP3.
4. The confirmation of SUBSCRIBE is a push, its refusal is a reply: either takes its place in the
   queue.
5. When the connection is lost, every pending request fails, with an unknown outcome.
"""

import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, cast

import hiredis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from holdfast.core.attempt import holder_of
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Acquire, Release
from holdfast.engines.redis.exchange import Answers, Exchange, Reply, conclude, failed

BROKEN = (OSError, EOFError, RedisError, hiredis.HiredisError)
"""What a connection may raise: it is of no use any more, or could not be made."""

CLOSED = "the server closed the connection"

NOT_THE_MASTER = ("READONLY", "NOREPLICAS", "MISCONF", "MASTERDOWN", "LOADING")
"""Errors of a server that is not, or not yet, a master that can write. The client connects anew:
Sentinel, or a name in the DNS, may lead to another server by now."""

REFUSED = (
    *("NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password", "ERR unknown command"),
    *("ACL failure in script", "can't run this command", "can't access at least one"),
    *("DB index is out of range", "WRONGTYPE"),
)
"""Parts of errors that do not heal by waiting: a wrong password, a missing right, a key that holds
something else than a lock."""


NO_TLS = ("WRONG_VERSION_NUMBER", "record layer failure")
"""What OpenSSL calls an answer that is no TLS."""


def explain(error: BaseException) -> str:
    """The text for an error of a connection."""
    text = str(error) or ("timed out" if isinstance(error, TimeoutError) else repr(error))
    if any(each in text for each in NO_TLS):
        return (
            f"{text}; the server seems to expect no TLS on this port: try redis://, not rediss://"
        )
    return text


def heals_in(error: object) -> float | None:
    """When an error heals by itself: never (infinity), or unknown (None)."""
    if isinstance(error, (AuthenticationError, NoPermissionError, ssl.SSLCertVerificationError)):
        return inf
    text = str(error)
    return inf if any(each in text for each in REFUSED) else None


class Waiter(Protocol):
    """A thread or task that waits for a round."""

    def wake(self) -> None:
        """The round is over."""
        ...


@dataclass(slots=True, eq=False)
class Pending:
    """An exchange that was sent, or is to be sent, and the round that waits for its answers."""

    exchange: Exchange
    round: FanOut
    waiter: "Waiter"
    """Woken when the round is over."""

    @property
    def is_release(self) -> bool:
        """Releases are sent also when their caller has stopped waiting."""
        return type(self.round.requests[0]) is Release


class Receiver(Protocol):
    """Gets all that a connection receives."""

    def answered(self, pending: Pending, answers: Answers) -> None:
        """A request has its answers."""
        ...

    def subscribed(self, error: Exception | None) -> None:
        """A subscription was confirmed, or refused."""
        ...

    def published(self, message: bytes) -> None:
        """A message on our channel."""
        ...


class Pipeline:
    """What is pending on one connection, and what is to be sent on it."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._reader = hiredis.Reader()
        self._replies: list[Reply] = []
        """Those of the first pending exchange that have come."""
        self.pending: deque[Pending | None] = deque()
        """None: a subscription."""
        self.outgoing: list[bytes] = []
        """Not handed to the socket yet."""

    def send(self, pending: Pending) -> None:
        """Append an exchange."""
        self.pending.append(pending)
        self.outgoing += pending.exchange.commands

    def subscribe(self, command: bytes) -> None:
        """Append a subscription."""
        self.pending.append(None)
        self.outgoing.append(command)

    def overdue_since(self) -> float:
        """When the oldest pending request should have been answered."""
        first = self.pending[0] if self.pending else None
        return inf if first is None else first.round.until

    def receive(self, data: bytes) -> None:
        """Read replies and pushes, and hand each to what waits for it."""
        reader, pending = self._reader, self.pending
        reader.feed(data)
        while (reply := reader.gets()) is not False:
            if type(reply) is hiredis.PushNotification:
                self._take_push(reply)
                continue
            if not pending:
                raise EOFError("a reply to no request")
            first = pending[0]
            if first is None:
                pending.popleft()
                self._receiver.subscribed(reply)
                continue
            if len(first.exchange.commands) == 1:
                replies = [reply]
            else:
                self._replies.append(reply)
                if len(self._replies) < len(first.exchange.commands):
                    continue
                replies, self._replies = self._replies, []
            pending.popleft()
            self._conclude(first, replies)

    def drop(self) -> Sequence[Pending]:
        """The connection is lost. Gives what was pending on it."""
        lost = [each for each in self.pending if each is not None]
        self.pending.clear()
        self.outgoing.clear()
        return lost

    def _take_push(self, push: list[Reply]) -> None:
        kind = push[0]
        if kind in (b"message", b"smessage"):
            self._receiver.published(push[2])
        elif kind in (b"subscribe", b"ssubscribe") and self.pending and self.pending[0] is None:
            self.pending.popleft()
            self._receiver.subscribed(None)

    def _goes_on(self, pending: Pending) -> bool:
        """Whether to send the next part of an exchange: not for a caller that has stopped waiting,
        and not an acquire whose release was sent already, and would be overtaken."""
        request = pending.round.requests[0]
        if type(request) is not Acquire:
            return pending.is_release or not pending.round.over
        released = [
            each.round.requests for each in self.pending if each is not None and each.is_release
        ]
        holder = holder_of(request.holder)
        return all(
            holder_of(cast(Release, release).holder) != holder
            for requests in released
            for release in requests
        )

    def _conclude(self, pending: Pending, replies: list[Reply]) -> None:
        try:
            outcome = conclude(pending.exchange, replies)
        except (ValueError, TypeError) as error:  # another program has written to our keys
            outcome = [failed(f"the reply makes no sense: {error}")] * len(pending.round.requests)
        if isinstance(outcome, Exchange):
            if self._goes_on(pending):
                self.send(Pending(outcome, pending.round, pending.waiter))
                return
            gone = failed("its caller has stopped waiting")
            outcome = [gone] * len(pending.round.requests)
        self._receiver.answered(pending, outcome)
