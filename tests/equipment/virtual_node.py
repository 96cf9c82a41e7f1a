"""A node on virtual time, over a network that loses messages, and its clients: for the core."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.effects import Ask
from holdfast.core.lease_state import LockSpec
from holdfast.core.messages import Acquire, Answer, Failed, Request
from holdfast.core.ports import Engine, node_timeout
from holdfast.engines.memory import Table
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.driver import Resumption, Timeline
from holdfast.lab.simulator.store import Store


class TracedTimeline(Timeline):
    """It keeps what happened, in order; equal for equal seeds."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.trace: list[str] = []

    def note(self, text: str) -> None:
        """Write into the trace."""
        self.trace.append(f"{self.now:.6f} {text}")


@dataclass(slots=True)
class Network:
    """How long messages take, and how many never arrive."""

    timeline: TracedTimeline
    latency: tuple[float, float] = (0.001, 0.002)
    loss: float = 0.0


class Link:
    """One direction of one connection: what arrives, arrives in order."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._last_arrival = 0.0

    def send(self, action: Callable[[], None]) -> None:
        """Deliver a message after a while, or never."""
        network = self._network
        timeline = network.timeline
        arrival = timeline.now + timeline.random.uniform(*network.latency)
        if timeline.random.random() >= network.loss:
            self._last_arrival = max(arrival, self._last_arrival)
            timeline.at(self._last_arrival, action)


class VirtualNode:
    """One engine: the reference table, on the timeline's clock."""

    def __init__(self, timeline: TracedTimeline, network: Network) -> None:
        self.timeline = timeline
        self.network = network
        self.table = Table()
        self.bells: dict[str, Callable[[str], None]] = {}
        self.asked: list[Request] = []
        """Every request that was carried out."""
        self.up = True

    def execute(self, requests: tuple[Request, ...], notify: Callable[[str], None]) -> list[Answer]:
        """Carry out requests at the present instant."""
        answers: list[Answer] = []
        for request in requests:
            self.asked.append(request)
            if isinstance(request, Acquire) and request.queue:
                self.bells[request.holder] = notify
            answers.append(self.table.answer(request, self.timeline.now))
            self.timeline.note(f"{request} -> {answers[-1]}")
        for holder in self.table.to_wake:
            bell = self.bells[holder]
            Link(self.network).send(lambda bell=bell, holder=holder: bell(holder))  # type: ignore[misc]
        self.table.to_wake.clear()
        return answers


class Unconnected(Store):
    """A client that asks by itself has no connections to close."""

    connections = ()


class VirtualClient(Client):
    """A client of one virtual node."""

    def __init__(self, name: str, node: VirtualNode, engine: Engine) -> None:
        super().__init__(name, node.timeline, engine.drift, engine.guarantees.min_ttl)
        self.store = Unconnected(self, "node")
        self.node = node
        self._requests, self._replies = Link(node.network), Link(node.network)

    @property
    def number(self) -> int:
        """Its name has none."""
        return 0

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something at an instant, to the digit: its clock is the timeline's."""
        self.timeline.at(instant, action)

    def next_holder(self) -> str:
        """Short, to be read in a trace."""
        return f"{self.name}/{self._holders + 1}"

    def ask(self, ask: Ask, resume: Resumption) -> None:
        """Ask the node, which may not hear it, or not be heard."""

        def arrive() -> None:
            if self.node.up:
                answers = self.node.execute(ask.requests, self.notify)
                self._replies.send(lambda: resume(answers))

        def give_up() -> None:
            resume([Failed.at("node", "no answer")] * len(ask.requests))

        self._requests.send(arrive)
        self.timeline.at(ask.until, give_up)


def spec(name: str, ttl: float, *, renew: bool = True, max_hold: float | None = None) -> LockSpec:
    """What a `Lock` would ask for."""
    return LockSpec(name, "", ttl, renew, max_hold, 0.1, node_timeout(ttl))
