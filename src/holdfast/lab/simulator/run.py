"""One run of a plan: servers, clients, a network, and the faults between them."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from random import Random

from holdfast.lab.checkers import disorder, overlaps, unnotified
from holdfast.lab.history import Finding, History, Kind
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.driver import Timeline
from holdfast.lab.simulator.engines import engine
from holdfast.lab.simulator.faults import FaultInjector
from holdfast.lab.simulator.network import Network, Wire
from holdfast.lab.simulator.observer import Observer
from holdfast.lab.simulator.plan import Plan, Section, Task
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.scene import Scene
from holdfast.lab.simulator.store import Wiring
from holdfast.lab.simulator.tasks import work_through

TELL_WITHIN = 0.02
"""How late a holder may learn that its lease has expired."""

PROBE = 1.0
"""The ttl with which a new client asks, after everything has healed."""

SLACK = 2.0
"""Added to every bound: failed tries, pauses, connecting."""


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a plan."""

    plan: Plan
    history: History
    findings: tuple[Finding, ...]
    faults: Counter[str]
    """How many of each kind happened: some wait for what never came."""

    @property
    def grants(self) -> int:
        """How often a lock was taken."""
        return len(self.history.of(Kind.GRANTED))


def play(plan: Plan) -> Run:
    """Play a plan."""
    simulation = Simulation(plan)
    try:
        return simulation.play()
    finally:
        for server in simulation.servers:
            server.close()


class Simulation:
    """The servers, the clients, the network and the faults of one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.engine = engine(plan.engine)
        self.timeline = Timeline(plan.seed)
        self.record = Record(self.timeline)
        self.network = Network(
            self.timeline,
            Random(plan.seed + 1),  # noqa: S311 - to be repeatable, not secret
            plan.tail,
        )
        self.servers = self.engine.servers.several(
            plan.nodes,
            self.timeline,
            durable=plan.durable,
            internal_error=self._internal_error,
        )
        self._wires: list[list[tuple[Wire, Wire]]] = []
        self.clients: list[Client] = []
        longest = plan.max_ttl + self.engine.drift(plan.max_ttl)
        self.quarantine = longest + 1.0 if plan.nodes > 1 and plan.guard else 0.0
        self.injector = FaultInjector(
            self.record,
            self.servers,
            self.clients,
            self._wires,
            self.quarantine,
            self.engine.lengthens,
        )
        scene = Scene(plan, self.record, self.servers, self.clients, self.injector)
        self.observer = Observer(scene)
        for _ in range(plan.clients):
            self._join()

    def play(self) -> Run:
        """From beginning to end."""
        plan, timeline = self.plan, self.timeline
        self.injector.arm(plan.faults)
        for task in plan.tasks:
            timeline.at(0.0, partial(self._begin, task))
        timeline.run(plan.seconds)
        self.observer.closing = True
        self.injector.heal()
        within = plan.max_ttl + self.quarantine + self.injector.set_back + SLACK
        work = max(section.work for task in plan.tasks for section in task.sections)
        self._wait_for_all(timeline.now + (within + work) * (1 + len(plan.tasks)))
        self.observer.check_all_ended()
        self._probe(within)
        left_for = max(plan.max_ttl * 1.02, self.engine.lingers)
        timeline.run(timeline.now + left_for + self.injector.set_back)
        self.observer.leftovers.check_all()
        history = self.record.history
        judged = [
            *overlaps(history),
            *disorder(history),
            *unnotified(history, TELL_WITHIN, timeline.now),
        ]
        return Run(plan, history, (*self.record.findings, *judged), self.injector.done)

    def _begin(self, task: Task) -> None:
        client = self.clients[task.client]
        if not client.crashed:
            client.start(work_through(self.observer, client, task))

    def _join(self) -> Client:
        number, plan = len(self.clients), self.plan
        wires = [(Wire(), Wire()) for _ in self.servers]
        wiring = Wiring(
            servers=self.servers,
            network=self.network,
            wires=wires,
            drift=self.engine.drift,
            max_ttl=plan.max_ttl,
            guard=plan.guard,
            sent=lambda requests: self.observer.sent(self.clients[number], requests),
        )
        engine = self.engine
        client = Client(f"c{number}", self.timeline, engine.drift, engine.min_ttl, engine.ttl_step)
        client.look, client.internal_error = self.observer.look_at, self._internal_error
        client.store = engine.store(client, wiring)
        self._wires.append(wires)
        self.clients.append(client)
        return client

    def _wait_for_all(self, until: float) -> None:
        """Let every task end, within a limit."""
        timeline = self.timeline
        while timeline.now < until and self.observer.working():
            timeline.run(timeline.now + 0.5)

    def _probe(self, within: float) -> None:
        """A new client must get every lock."""
        names = sorted({section.name for task in self.plan.tasks for section in task.sections})
        client = self._join()
        for name in names:
            section = Section(0.0, name, within, self.engine.ttl(PROBE), True, None, 0.0)
            self.observer.closing = False
            probing = client.start(work_through(self.observer, client, Task(0, (section,))))
            until = self.timeline.now + within + SLACK
            while not probing.done and self.timeline.now < until:
                self.timeline.run(self.timeline.now + 0.1)
            self.observer.probed(client, name)

    def _internal_error(self, text: str) -> None:
        self.record.find("internal error", text)
