"""A stage for quorums: nodes that freeze, die and forget, and clients of all of them, on virtual
time. What a client sends to one node arrives in order; a restart takes with it what is under way.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from holdfast.core.effects import Ask, Sleep
from holdfast.core.fanout import FanOut
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.messages import Acquire, Answer, Failed, Granted, Request, ToNode, holder_of
from holdfast.core.quorum import Quorum
from holdfast.core.restart_guard import RestartGuard
from holdfast.engines.redis import drift, quorum_node_timeout
from holdfast.lab.simulator.driver import Resumption
from tests.core.stage import acquire, memory_engine
from tests.core.votes import EPOCH, Votes
from tests.equipment.virtual_node import Link, Network, TracedTimeline, VirtualClient, VirtualNode

TTL = 2.0
MAX_TTL = 2.0
LONGEST = MAX_TTL + drift(MAX_TTL)


def quorum_of(
    count: int, clock: Callable[[], float] = lambda: 0.0, *, late: Sequence[float] = ()
) -> Quorum:
    """A quorum to be asked by hand. `late`: until when each node is in quarantine."""
    guards = [RestartGuard(LONGEST) for _ in range(count)]
    for guard, until in zip(guards, late, strict=False):
        guard.quarantined_until = until
    names = [f"n{index}" for index in range(count)]
    return Quorum(names, guards, clock, lambda: EPOCH + clock(), lambda low, high: high, drift)


Steps_ = Generator[FanOut | Sleep, None, Sequence[Answer]]


class Talk:
    """One request, asked by hand: `poll` is what is being asked; `hears` goes on with it."""

    def __init__(self, quorum: Quorum, *requests: Request, until: float = 1.0) -> None:
        self._steps = quorum.ask(requests, until)
        self.polls: list[FanOut] = []
        self.answers: Sequence[Answer] | None = None
        self._advance()

    @property
    def poll(self) -> FanOut:
        assert self.answers is None, f"it is over: {self.answers}"
        return self.polls[-1]

    @property
    def answer(self) -> Answer:
        assert self.answers is not None, f"it asks on: {self.poll.requests}"
        return self.answers[0]

    def hears(self, answers: dict[int, Answer | Sequence[Answer]]) -> "Talk":
        """These nodes answer, and the rest is silent. Whoever comes after the end is not heard."""
        poll = self.poll
        for node, answer in answers.items():
            assert node in poll.nodes, f"{node} was not asked"
            if not poll.over:
                poll.received(node, answer if isinstance(answer, (list, tuple)) else [answer])  # type: ignore[list-item]
        self._advance()
        return self

    def _advance(self) -> None:
        try:
            effect = next(self._steps)
            while isinstance(effect, Sleep):
                effect = next(self._steps)
            self.polls.append(effect)
        except StopIteration as stop:
            self.answers = stop.value


class QuorumNode:
    """One node: its table, behind a network. Its own clock may run a little fast or slow."""

    def __init__(self, index: int, stage: "QuorumStage", rate: float = 1.0) -> None:
        self.name = f"n{index}"
        self.stage, self.rate = stage, rate
        self.votes = Votes()
        self.bells: dict[str, Callable[[str], None]] = {}
        self.asked: list[ToNode] = []
        """Every request that was carried out."""
        self.up, self.frozen = True, False
        self.run, self.started_at, self.durable = 1, -1000.0, False
        self._inbox: dict[object, list[Callable[[], None]]] = {}

    @property
    def now(self) -> float:
        return self.stage.timeline.now * self.rate

    def holder(self, key: str = "job") -> str:
        return self.votes.holder_of(key, self.now)

    def arrive(self, sender: object, run: int, action: Callable[[], None]) -> None:
        """A message from a sender who connected to that run of the node."""
        if self.up and run == self.run:
            self._inbox.setdefault(sender, []).append(action)
            self._work()

    def execute(self, requests: Sequence[Any], client: "QuorumClient") -> list[Answer]:
        answers = []
        for request in requests:
            self.asked.append(request)
            if isinstance(request, Acquire) and request.queue:
                self.bells[holder_of(request.holder)] = client.notify
            answers.append(self.votes.answer(request, self.now))
            said, answered = type(request).__name__, type(answers[-1]).__name__
            self.stage.timeline.note(f"{client.name} to {self.name}: {said} -> {answered}")
        for holder, delay in self.votes.to_wake:
            self.stage.timeline.at(
                self.stage.timeline.now + delay + 0.001,
                lambda bell=self.bells[holder], holder=holder: bell(holder),  # type: ignore[misc]
            )
        self.votes.to_wake.clear()
        return answers

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        self._work()

    def restart(self, *, keep: bool = True) -> None:
        """Break every connection. Without `keep`, it has forgotten everything."""
        self.stage.timeline.note(f"{self.name} restarts")
        self.run += 1
        self.started_at = self.stage.timeline.now
        self.up, self.frozen = True, False
        self._inbox.clear()
        if not keep:
            self.votes = Votes()

    def _work(self) -> None:
        """Carry out what has arrived: of each sender in order, of several in any."""
        while self._inbox and not self.frozen:
            sender = self.stage.timeline.random.choice(list(self._inbox))
            messages = self._inbox[sender]
            messages.pop(0)()
            if not messages:
                self._inbox.pop(sender, None)


class QuorumClient(VirtualClient):
    """A client of all nodes of a stage."""

    def __init__(self, name: str, stage: "QuorumStage", skew: float = 0.0) -> None:
        super().__init__(name, VirtualNode(stage.timeline, stage.network), memory_engine())
        timeline = stage.timeline
        self.nodes = stage.nodes
        self.runtime.drift = drift
        self.guards = [RestartGuard(LONGEST, on=stage.guarded) for _ in self.nodes]
        self.quorum = Quorum(
            [node.name for node in self.nodes],
            self.guards,
            lambda: timeline.now,
            lambda: EPOCH + timeline.now + skew,
            timeline.random.uniform,
            drift,
        )
        self.polls: list[FanOut] = []
        self._there = [Link(stage.network) for _ in self.nodes]
        self._back = [Link(stage.network) for _ in self.nodes]
        self._met = [0 for _ in self.nodes]

    def ask(self, ask: Ask, resume: Resumption) -> None:
        Asking(self, self.quorum.ask(ask.requests, ask.until), resume)

    def send(self, index: int, poll: FanOut, heard: Callable[[], None]) -> None:
        """Say a poll's requests to one node; connect to it before, if need be."""
        node = self.nodes[index]
        if not node.up:
            poll.received(index, [Failed.at(node.name, "refused")] * len(poll.requests))
            return
        if node.run != self._met[index]:
            uptime = self.timeline.now - node.started_at
            self.guards[index].met(
                f"{node.name}-{node.run}", uptime, node.durable, self.timeline.now
            )
            self._met[index] = node.run

        def carry_out() -> None:
            answers = node.execute(poll.requests, self)
            self._back[index].send(lambda: hear(answers))

        def hear(answers: list[Answer]) -> None:
            if not self.crashed:
                poll.received(index, answers)
                heard()

        run = node.run
        self._there[index].send(lambda: node.arrive(self, run, carry_out))


class Asking:
    """One question to the quorum under way, performed as a driver would."""

    def __init__(self, client: QuorumClient, steps: Steps_, resume: Resumption) -> None:
        self._client, self._steps, self._resume = client, steps, resume
        self._poll: FanOut | None = None
        self._go_on()

    def _go_on(self) -> None:
        self._poll = None
        if not self._resume.wanted:
            return
        try:
            effect = next(self._steps)
        except StopIteration as stop:
            self._resume(stop.value)
            return
        timeline = self._client.timeline
        if isinstance(effect, Sleep):
            timeline.at(effect.until, self._go_on)
            return
        poll = self._poll = effect
        self._client.polls.append(poll)
        for index in poll.nodes:
            self._client.send(index, poll, lambda: self._heard(poll))
        timeline.at(poll.until, lambda: self._heard(poll, late=True))
        timeline.at(timeline.now, lambda: self._heard(poll))

    def _heard(self, poll: FanOut, *, late: bool = False) -> None:
        if poll is self._poll and (poll.over or late):
            self._go_on()


class QuorumStage:
    def __init__(
        self, count: int = 3, seed: int = 1, *, loss: float = 0.0, guarded: bool = True
    ) -> None:
        self.timeline = TracedTimeline(seed)
        self.network = Network(self.timeline, latency=(0.0005, 0.001), loss=loss)
        self.guarded = guarded
        self.nodes = [QuorumNode(index, self) for index in range(count)]
        self.clients: list[QuorumClient] = []

    def client(self, name: str = "", skew: float = 0.0) -> QuorumClient:
        made = QuorumClient(name or f"client{len(self.clients)}", self, skew)
        self.clients.append(made)
        return made

    def run(self, seconds: float) -> None:
        self.timeline.run(self.timeline.now + seconds)

    def holders(self, key: str = "job") -> list[str]:
        """Who has the lock on each node."""
        return [node.holder(key) for node in self.nodes]

    def leftovers(self) -> list[object]:
        """Everything that somebody still has: locks, places, tickets, processes."""
        found: list[object] = [holder for holder in self.holders() if holder]
        for node in self.nodes:
            found += [row.room for row in node.votes.rows.values() if row.room]
        for client in self.clients:
            found += [each for each in client.notifications if each not in client.loops]
            loops = client.loops.values()
            found += [each for each in client.processes if each not in loops]
        return found


def spec(ttl: float = TTL, *, renew: bool = True, key: str = "job") -> LockSpec:
    """What a `Lock` over a quorum would ask for."""
    return LockSpec(key, "", ttl, renew, None, 0.1, quorum_node_timeout(ttl))


def granted(fences: Iterable[int]) -> dict[int, Answer | Sequence[Answer]]:
    """Each node grants, in turn."""
    return {node: Granted(fence) for node, fence in enumerate(fences)}


def take(stage: QuorumStage, client: QuorumClient, *, renew: bool = True) -> LeaseState:
    """A client takes the lock, which is free."""
    taking = client.start(acquire(client.runtime, spec(renew=renew), 0))
    stage.run(0.1)
    assert taking.result is not None, taking.error
    return taking.result
