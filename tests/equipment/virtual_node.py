"""A node on virtual time, over a network that loses messages, and its clients: for the core."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.effects import Ask
from holdfast.core.lease_state import LockSpec, node_timeout
from holdfast.core.messages import Acquire, Answer, Failed, Request
from holdfast.core.ports import Engine
from holdfast.engines.memory import Table
from holdfast.lab.simulator.driver import BaseClient, Resumption, Timeline


@dataclass(slots=True)
class Network:
    """How long messages take, and how many never arrive."""

    timeline: Timeline
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

    def __init__(self, timeline: Timeline, network: Network) -> None:
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


class VirtualClient(BaseClient):
    """A client of one virtual node."""

    def __init__(self, name: str, node: VirtualNode, engine: Engine) -> None:
        super().__init__(name, node.timeline, engine.drift, engine.guarantees.min_ttl)
        self.node = node
        self._requests, self._replies = Link(node.network), Link(node.network)

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
