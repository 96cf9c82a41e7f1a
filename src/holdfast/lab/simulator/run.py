"""One run of a plan: servers, clients, a network, and what goes wrong among them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random

from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import Repair, ToNode
from holdfast.core.records import LeaseInfo
from holdfast.engines.redis import drift
from holdfast.lab.checkers import disorder, overlaps, stale_writes
from holdfast.lab.history import Finding, History, Kind
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.mischief import Mischief
from holdfast.lab.simulator.network import Network, Wire
from holdfast.lab.simulator.plan import Plan, Section, Task
from holdfast.lab.simulator.record import PLAIN, Record, Registers
from holdfast.lab.simulator.server import Server
from holdfast.lab.simulator.store import Way
from holdfast.lab.simulator.watch import Scene, Watch
from holdfast.lab.simulator.work import Turn, work_through
from holdfast.lab.timeline import Timeline

PROBE = 1.0
"""The ttl with which a newcomer asks, after everything has healed."""

SLACK = 2.0
"""What may be added to every bound: tries in vain, pauses, connecting."""


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
    """Let it happen."""
    return Simulation(plan).play()


class Simulation:
    """The servers, the clients, the network and the faults of one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.timeline = Timeline(plan.seed)
        self.record = Record(self.timeline)
        self.network = Network(
            self.timeline,
            Random(plan.seed + 1),  # noqa: S311 - to be repeatable, not secret
            plan.tail,
        )
        self.servers = [
            Server(f"n{index}", self.timeline, durable=plan.durable, defect=self._defect)
            for index in range(plan.nodes)
        ]
        self._wires: list[list[tuple[Wire, Wire]]] = []
        self._holds = count(1)
        self.clients: list[Client] = []
        longest = plan.max_ttl + drift(plan.max_ttl)
        self.quarantine = longest + 1.0 if plan.nodes > 1 and plan.guard else 0.0
        self.mischief = Mischief(
            self.record, self.servers, self.clients, self._wires, self.quarantine
        )
        self.watch = Watch(Scene(plan, self.record, self.servers, self.clients, self.mischief))
        self.registers = Registers(self.record, self.network)
        self.closing = False
        for _ in range(plan.clients):
            self._join()

    def play(self) -> Run:
        """From beginning to end."""
        plan, timeline = self.plan, self.timeline
        self.mischief.arm(plan.faults)
        for task in plan.tasks:
            timeline.at(0.0, partial(self._begin, task))
        timeline.run(plan.seconds)
        self.closing = True
        self.mischief.heal()
        request_timeout = plan.max_ttl + self.quarantine + self.mischief.set_back + SLACK
        self._wait_for_all(timeline.now + request_timeout * (1 + len(plan.tasks)))
        self.watch.nobody_works_on()
        self._probe(request_timeout)
        timeline.run(timeline.now + plan.max_ttl * 1.02 + self.mischief.set_back)
        self.watch.nothing_is_left()
        history = self.record.history
        plain = {event.name for event in history.of(Kind.WROTE) if event.name.endswith(PLAIN)}
        judged = [*overlaps(history), *disorder(history), *stale_writes(history, plain)]
        return Run(plan, history, (*self.record.findings, *judged), self.mischief.done)

    def _begin(self, task: Task) -> None:
        client = self.clients[task.client]
        if not client.crashed:
            client.start(work_through(self, client, task))

    def new_hold(self, client: Client) -> str:
        """A name for an acquisition."""
        return f"{client.name}#{next(self._holds)}"

    def asked(self, turn: Turn) -> None:
        """Somebody wants a lock."""
        self._add(turn, Kind.ASKED)
        self.watch.asked(turn)

    def refused(self, turn: Turn, why: str) -> None:
        """Somebody does not get it."""
        self._add(turn, Kind.REFUSED, note=why)
        self.watch.refused(turn, why)

    def granted(self, turn: Turn, tenure: LeaseState) -> None:
        """Somebody gets it."""
        client = turn.client
        until = client.own_clock.true(tenure.valid_until)
        tenure.callbacks = (lambda: self._told(turn),)
        client.leases[turn.hold] = tenure
        client.beliefs[turn.hold] = until
        self.watch.granted(turn, tenure, until)
        self._add(turn, Kind.GRANTED, fence=tenure.fence, until=until)

    def leaving(self, turn: Turn, tenure: LeaseState) -> None:
        """Somebody works no more."""
        client = turn.client
        self.watch.leaving(turn)
        del client.leases[turn.hold], client.beliefs[turn.hold]
        if tenure.is_held(client.clock()):
            self._add(turn, Kind.RELEASING)

    def left(self, turn: Turn, *, lost: bool) -> None:
        """Somebody has given it back, or learned that it was lost."""
        if lost and not self.watch.was_told(turn.hold):
            self._told(turn)
        if not lost:
            self._add(turn, Kind.RELEASED)
        self.watch.left(turn)

    def looked(self, turn: Turn, tenure: LeaseState, found: LeaseInfo | None) -> None:
        """Somebody who holds the lock has asked who holds it."""
        self.watch.looked(turn, tenure, found)

    def note(self, turn: Turn, text: str) -> None:
        """Something worth a line."""
        self._add(turn, Kind.NOTED, note=text)

    def write(self, turn: Turn, tenure: LeaseState) -> None:
        """Somebody who believes that it holds the lock writes."""
        if tenure.is_held(turn.client.clock()):
            self.registers.write(turn.client.name, turn.section.name, turn.hold, tenure.fence)

    def _told(self, turn: Turn) -> None:
        self.watch.told(turn)
        self._add(turn, Kind.LOST)

    def _look_at(self, client: Client) -> None:
        """See whether a client believes in something else than before."""
        for hold, tenure in client.leases.items():
            until = client.own_clock.true(tenure.valid_until)
            before = client.beliefs[hold]
            if abs(until - before) > 1e-9:
                client.beliefs[hold] = until
                self.watch.extended(client, hold, tenure, before, until)
                self.record.add(
                    client.name,
                    Kind.EXTENDED,
                    number=self._number(client),
                    name=tenure.spec.name,
                    hold=hold,
                    until=until,
                )

    def _add(
        self,
        turn: Turn,
        kind: Kind,
        *,
        fence: int | None = None,
        until: float = float("inf"),
        note: str = "",
    ) -> None:
        self.record.add(
            turn.client.name,
            kind,
            number=self._number(turn.client),
            name=turn.section.name,
            hold=turn.hold,
            fence=fence,
            until=until,
            note=note,
        )

    def _sent(self, number: int, requests: Sequence[ToNode]) -> None:
        self.record.sent(type(requests[0]).__name__, number)
        self.watch.sent(self.clients[number], type(requests[0]))
        for request in requests:
            if isinstance(request, Repair):
                self.watch.repairs(self.clients[number], request)

    def _number(self, client: Client) -> int:
        return int(client.name[1:])

    def _join(self) -> Client:
        number, plan = len(self.clients), self.plan
        wires = [(Wire(), Wire()) for _ in self.servers]
        way = Way(
            servers=self.servers,
            network=self.network,
            there=[there for there, _ in wires],
            back=[back for _, back in wires],
            drift=drift,
            max_ttl=plan.max_ttl,
            guard=plan.guard,
            sent=lambda requests: self._sent(number, requests),
        )
        client = Client(f"c{number}", way, self._look_at, self._defect)
        self._wires.append(wires)
        self.clients.append(client)
        return client

    def _wait_for_all(self, until: float) -> None:
        """Let everybody come to an end, but not for ever."""
        timeline = self.timeline
        while timeline.now < until and self.watch.working():
            timeline.run(timeline.now + 0.5)

    def _probe(self, request_timeout: float) -> None:
        """A newcomer must get every lock."""
        names = sorted({section.name for task in self.plan.tasks for section in task.sections})
        client = self._join()
        for name in names:
            section = Section(0.0, name, request_timeout, PROBE, True, None, 0.0)
            self.closing = False
            probing = client.start(work_through(self, client, Task(0, (section,))))
            until = self.timeline.now + request_timeout + SLACK
            while not probing.done and self.timeline.now < until:
                self.timeline.run(self.timeline.now + 0.1)
            self.watch.probed(client, name)

    def _defect(self, text: str) -> None:
        self.record.find("no defects", text)
