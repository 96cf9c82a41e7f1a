"""The waiters of one client, and how they are woken.

A release hands the lock to the first waiter in its queue and publishes that on the channel of the
waiter's client. A message is one of

- `holder`: ask again, the lock may be yours;
- `holder milliseconds`: ask again then.

A message for a waiter that has left the queue is ignored: what it was offered expires soon. So is
any other text, which another program has published.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from holdfast.core.messages import Acquire, Answer, Granted, Release, Request, holder_of
from holdfast.core.ports import StoreHost
from holdfast.engines.redis.protocol import command
from holdfast.events import PollingOnly


class Waiters:
    """The waiters of one client."""

    def __init__(self, host: StoreHost, channel: str) -> None:
        self._host = host
        self.listens = bool(channel)
        """Whether the protocol has wake-ups at all."""
        self.subscribe = command(b"SUBSCRIBE", channel.encode())
        self.woken: Callable[[str], object] = lambda holder: None
        """Called with each waiter that was woken. Set by the store, if it needs that."""
        self._waiting: dict[str, None] = {}
        """The holders that asked for a place in a queue, until they have the lock or release."""
        self._later: list[tuple[float, str]] = []
        self.next_due = inf
        """When `wake_due` has something to do."""
        self._has_reported = False

    def __contains__(self, holder: str) -> bool:
        return holder in self._waiting

    def ask(self, requests: Sequence[Request]) -> None:
        """Requests are about to be sent. A waiter may be woken before it has its answer; one that
        releases is not to be woken any more."""
        first = requests[0]
        if type(first) is Acquire:
            if first.queue:
                self._waiting[first.holder] = None
        elif self._waiting:
            for request in requests:
                if type(request) is Release:
                    self._waiting.pop(holder_of(request.holder), None)

    def answered(self, request: Request, answer: Answer) -> None:
        """One that has the lock does not wait any more."""
        if type(answer) is Granted and type(request) is Acquire:
            self._waiting.pop(request.holder, None)

    def published(self, message: bytes) -> None:
        """A message on our channel."""
        holder, _, delay = message.decode(errors="replace").partition(" ")
        if delay.isdecimal():
            heappush(self._later, (self._host.clock() + int(delay) / 1000, holder))
            self.next_due = self._later[0][0]
        elif not delay:
            self._wake(holder)

    def wake_all(self) -> None:
        """Messages may have been missed, so all must ask again."""
        for holder in sorted(self._waiting):
            self._wake(holder)

    def wake_due(self) -> None:
        """Wake the waiters whose time has come."""
        now = self._host.clock()
        while self._later and self._later[0][0] <= now:
            self._wake(heappop(self._later)[1])
        self.next_due = self._later[0][0] if self._later else inf

    def unreachable(self, node: str, why: str) -> None:
        """No message of this node reaches the client: report it, once."""
        if not self._has_reported:
            self._has_reported = True
            self._host.emit(PollingOnly(node, why))

    def _wake(self, holder: str) -> None:
        if holder in self._waiting:
            self._host.notify(holder)
            self.woken(holder)

    def forget(self) -> None:
        """In a forked child: there are no waiters."""
        self._waiting.clear()
        self._later.clear()
        self.next_due = inf
