"""How the waiters of one client are woken.

A release hands the lock to the first waiter in its queue and publishes that on the channel of the
waiter's client. A message is one of

- `holder`: ask again, the lock may be yours;
- `holder milliseconds`: ask again then.

A message for a waiter that has left is ignored: what it was offered expires soon. So is any other
text, which another program has published.
"""

from heapq import heappop, heappush
from math import inf

from holdfast.core.ports import StoreHost
from holdfast.engines.redis.protocol import command
from holdfast.events import PollingOnly


class Waiters:
    """The wake-ups of one client."""

    def __init__(self, host: StoreHost, channel: str) -> None:
        self._host = host
        self.listens = bool(channel)
        """Whether the protocol has wake-ups at all."""
        self.subscribe = command(b"SUBSCRIBE", channel.encode())
        self._later: list[tuple[float, str]] = []
        self.next_due = inf
        """When `wake_due` has something to do."""
        self._has_reported = False

    def published(self, message: bytes) -> None:
        """A message on our channel."""
        holder, _, delay = message.decode(errors="replace").partition(" ")
        if delay.isdecimal():
            heappush(self._later, (self._host.clock() + int(delay) / 1000, holder))
            self.next_due = self._later[0][0]
        elif not delay:
            self._host.notify(holder)

    def wake_due(self) -> None:
        """Wake the waiters whose time has come."""
        now = self._host.clock()
        while self._later and self._later[0][0] <= now:
            self._host.notify(heappop(self._later)[1])
        self.next_due = self._later[0][0] if self._later else inf

    def unreachable(self, node: str, why: str) -> None:
        """No message of this node reaches the client: report it, once."""
        if not self._has_reported:
            self._has_reported = True
            self._host.emit(PollingOnly(node, why))

    def forget(self) -> None:
        """In a forked child: there are no waiters."""
        self._later.clear()
        self.next_due = inf
