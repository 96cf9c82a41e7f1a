"""Lets the faults of a plan happen, and end."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.faults import AFTERMATH, Fault
from holdfast.lab.simulator.network import Wire
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.server import BaseServer


class FaultInjector:
    """What faults act on. It ends each when its time is over; `heal` ends all that are left."""

    def __init__(
        self,
        record: Record,
        servers: Sequence[BaseServer],
        clients: Sequence[Client],
        wires: Sequence[Sequence[tuple[Wire, Wire]]],
        quarantine: float,
        lengthens: float,
    ) -> None:
        """`lengthens`: by how much, at the most, a lease lasts longer if a clock is set back."""
        self.record, self._timeline = record, record.timeline
        self.servers, self.clients, self.wires = servers, clients, wires
        self.quarantine, self.lengthens = quarantine, lengthens
        self._under_way: dict[Iterator[float], None] = {}
        self.done: Counter[str] = Counter()
        """How many faults of each kind there were."""
        self.disturbed_until = 0.0
        """Until when the faults so far disturb the run."""
        self.set_back = 0.0
        """By how much longer leases last, since clocks of nodes were set back."""
        self._healed = False

    def arm(self, faults: Sequence[Fault]) -> None:
        """Let each happen when it is due."""
        for fault in faults:
            self.record.when(fault.when, partial(self._begin, fault))

    def heal(self) -> None:
        """End everything, and do no more."""
        self._healed = True
        for steps in list(self._under_way):
            self._end(steps)
        for pair in (pair for wires in self.wires for pair in wires):
            for wire in pair:
                wire.doomed, wire.doubled = False, 0
        self.record.add("", Kind.HEALED)

    def disturb(self, seconds: float) -> None:
        """For that long, clients may have reasons to fail."""
        self.disturbed_until = max(self.disturbed_until, self._timeline.now + seconds)

    def note(self, who: str, note: str, peer: str = "") -> None:
        """Something worth a line."""
        self.record.add(who, Kind.NOTED, peer=peer, note=note)

    def _begin(self, fault: Fault) -> None:
        if self._healed:
            return
        self.done[fault.name] += 1
        steps = fault.begin(self)
        lasting = next(steps, None)
        if lasting is not None:
            self._under_way[steps] = None
            self.disturb(lasting + AFTERMATH)
            self._timeline.at(self._timeline.now + lasting, partial(self._end, steps))

    def _end(self, steps: Iterator[float]) -> None:
        if steps in self._under_way:
            del self._under_way[steps]
            next(steps, None)
