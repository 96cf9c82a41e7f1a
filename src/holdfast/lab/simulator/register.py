"""Two registers for each lock, which clients write under it: one looks at the fence, one does not.

Writes are messages, and may be late: the fence is what keeps those of an old holder out.
"""

from holdfast.lab.history import Kind
from holdfast.lab.simulator.network import Network, Wire
from holdfast.lab.simulator.record import Record

FENCED, PLAIN = "fenced", "plain"
LATE = 0.1
"""How many writes are late."""


class Registers:
    """All of them."""

    def __init__(self, record: Record, network: Network) -> None:
        self._record, self._network = record, network
        self._seen: dict[str, int] = {}

    def write(self, who: str, name: str, hold: str, fence: int) -> None:
        """Send a write on its way, to both."""
        wire = Wire(slow=self._network.random.random() < LATE)
        timeline = self._network.timeline
        arrival = timeline.now + self._network.delay(wire)
        timeline.at(arrival, lambda: self._arrive(who, name, hold, fence))

    def _arrive(self, who: str, name: str, hold: str, fence: int) -> None:
        fresh = fence >= self._seen.get(name, 0)
        if fresh:
            self._seen[name] = fence
        kind = Kind.WROTE if fresh else Kind.TURNED_AWAY
        self._record.add(who, kind, name=f"{name}/{FENCED}", hold=hold, fence=fence)
        self._record.add(who, Kind.WROTE, name=f"{name}/{PLAIN}", hold=hold, fence=fence)
