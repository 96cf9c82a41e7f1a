"""Messages between clients and nodes: late, held up, lost with their connection, never reordered.

As with TCP, what is sent on one connection arrives in order or not at all; on two, in any order. A
wire that is cut holds messages back until it is mended. A connection that breaks loses what is in
flight, unless it leaves a *ghost*: then the node still receives the requests that are in flight, at
once or late.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from holdfast.lab.simulator.driver import Timeline

QUICK = (0.0003, 0.001)
"""How long a message takes as a rule."""

TAIL, TAIL_INDEX, LONGEST = 0.002, 0.9, 3.0
"""The heavy tail: a Pareto distribution, cut off."""

LATEST = 4.0
"""How much later, in seconds, a request may be carried out for which its client does not wait."""


@dataclass(slots=True)
class Wire:
    """One direction between one client and one node, for all their connections."""

    cuts: int = 0
    held: list[Callable[[], None]] = field(default_factory=list)

    def deliver(self, action: Callable[[], None]) -> None:
        """A message arrives, or is held up."""
        if self.cuts:
            self.held.append(action)
        else:
            action()

    def mend(self) -> None:
        """One cut less; after the last one, what was held up arrives."""
        self.cuts -= 1
        if not self.cuts:
            held, self.held = self.held, []
            for action in held:
                action()


@dataclass(slots=True)
class Network:
    """How long messages take."""

    timeline: Timeline
    random: Random
    tail: float = 0.0
    """How many messages are late, always."""

    def delay(self) -> float:
        """How long the next message takes."""
        random = self.random
        if self.tail and random.random() < self.tail:
            return min(TAIL * random.paretovariate(TAIL_INDEX), LONGEST)
        return random.uniform(*QUICK)

    def lateness(self) -> float:
        """How much later a request is carried out for which its client does not wait."""
        random = self.timeline.random
        return random.choice((0.0, random.uniform(0.0, LATEST)))


class Connection:
    """Two wires, on which messages keep their order."""

    def __init__(
        self, network: Network, there: Wire, back: Wire, on_broken: Callable[[], None]
    ) -> None:
        self._network = network
        self._there, self._back = there, back
        self._there_at = self._back_at = 0.0
        self._under_way: deque[Callable[[], None]] = deque()
        self.on_broken = on_broken
        """Called when the client learns that it is broken."""
        self.broken = False
        self.run = 0
        """Which run of the node it leads to."""

    @property
    def wires(self) -> tuple[Wire, Wire]:
        return self._there, self._back

    def to_node(self, action: Callable[[], None]) -> None:
        if self.broken:
            return
        network = self._network
        self._there_at = max(self._there_at, network.timeline.now + network.delay())
        self._under_way.append(action)
        network.timeline.at(self._there_at, lambda: self._there.deliver(self._arrive))

    def to_client(self, action: Callable[[], None]) -> None:
        if self.broken:
            return
        network = self._network
        self._back_at = max(self._back_at, network.timeline.now + network.delay())
        network.timeline.at(self._back_at, lambda: self._back.deliver(lambda: self._return(action)))

    def reset(self, *, ghost: bool = False, late: float = 0.0) -> None:
        """Break it; the client notices in a while."""
        if self.broken:
            return
        self.broken = True
        under_way, self._under_way = self._under_way, deque()
        network = self._network
        for action in under_way if ghost else ():
            if late:
                network.timeline.at(network.timeline.now + late, action)
            else:
                action()
        later = network.timeline.now + network.delay()
        network.timeline.at(later, lambda: self._back.deliver(self.on_broken))

    def _arrive(self) -> None:
        if self._under_way:
            self._under_way.popleft()()

    def _return(self, action: Callable[[], None]) -> None:
        if not self.broken:
            action()
