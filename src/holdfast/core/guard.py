"""The restart guard: a node that restarted may have forgotten a lease that is still valid.

1. A restart always breaks the connection. So whoever connects asks who the node is and since when.
2. A node that is another one than before is in quarantine for as long as any lease may last that it
   could have forgotten, counted on our own clock from the moment when we noticed.
3. One that we have not met before must have been up for as long already, as it says; or for as
   long from now on, whatever it says: its clock may have been set back.
4. One that writes every change to its disk before it answers forgets nothing, and is exempt.

In quarantine a node gets our releases and repairs, but its votes do not count.
"""

from math import inf
from operator import attrgetter

UPTIME_STEP = 1.0
"""Nodes tell their uptime in whole seconds."""


class RestartGuard:
    """Whether one node may vote."""

    def __init__(self, longest: float, *, on: bool = True) -> None:
        self._longest = longest
        self._on = on
        self._run = ""
        self._durable = False
        self.quarantined_until = -inf

    def met(self, run: str, uptime: float, durable: bool, now: float) -> None:
        """We have connected to the node, and it has told who it is."""
        remembers = durable and (self._durable or not self._run)
        if self._on and not remembers:
            if not self._run:
                left = min(self._longest + UPTIME_STEP - uptime, self._longest)
                self.quarantined_until = now + left if left > 0 else -inf
            elif run != self._run:
                self.quarantined_until = now + self._longest
        self._run, self._durable = run, durable


quarantine_of = attrgetter("quarantined_until")
"""For whoever must look at those of all nodes, for every vote."""
