"""The restart guard: a node that restarted may have lost a lease that is still valid.

1. A restart always breaks the connection, so the client asks for the node's run id and uptime on
   every new connection.
2. A node whose run id has changed is in quarantine for as long as any lease may last that it could
   have lost, counted on the client's own clock from the moment when the client noticed.
3. A node that the client meets for the first time must have been up for as long already, by the
   uptime that it reports; otherwise it is in quarantine for the rest of that time. That is never
   longer than the whole, even if its clock was set back and the uptime is negative.
4. A node that writes every change to its disk before it answers loses nothing, and is exempt.
5. Two nodes with one run id are one server with two votes. Then no node of the quorum has a vote.

In quarantine a node gets releases and repairs, but its votes do not count.
"""

from collections.abc import Sequence
from math import inf

UPTIME_STEP = 1.0
"""Nodes report their uptime in whole seconds."""


class RestartGuard:
    """Whether one node may vote. `longest`: the longest that a lease may last. `on`: whether there
    is a quarantine (default: yes)."""

    def __init__(self, longest: float, *, on: bool = True) -> None:
        self._longest = longest
        self._on = on
        self._durable = False
        self.restarted_until = -inf
        """Until when it has no vote because it has restarted."""
        self.run = ""
        """The run id of the node when the client last connected; empty: never."""
        self.group: Sequence[RestartGuard] = (self,)
        """The guards of all nodes of the quorum."""
        self.quarantined_until = -inf
        """Until when it has no vote: `restarted_until`, or forever if two nodes are one server."""

    def met(self, run: str, uptime: float, durable: bool, now: float) -> None:
        """The client has connected to the node, which reported these facts."""
        loses_nothing = durable and (self._durable or not self.run)
        if self._on and not loses_nothing:
            if not self.run:
                left = min(self._longest + UPTIME_STEP - uptime, self._longest)
                self.restarted_until = now + left if left > 0 else -inf
            elif run != self.run:
                self.restarted_until = now + self._longest
        self.run, self._durable = run, durable
        runs = [guard.run for guard in self.group if guard.run]
        has_twins = len(set(runs)) < len(runs)
        for guard in self.group:
            guard.quarantined_until = inf if has_twins else guard.restarted_until
