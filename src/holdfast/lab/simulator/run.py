"""One run of a plan: servers, clients and their tasks, a network, and the faults between them.

At the end: runs of many seeds on many cores, and the smallest part of a plan that still fails.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from random import Random
from typing import Self

from holdfast.core.acquire import acquire
from holdfast.core.effects import Sleep, Steps
from holdfast.core.holding import extend
from holdfast.core.lease_state import LeaseState
from holdfast.core.release import begin_leave, deliver, finish_leave
from holdfast.errors import EngineUnavailable, LockError, LockLost, NotHeld
from holdfast.lab.checkers import disorder, overlaps, unnotified
from holdfast.lab.history import Finding, History, Kind
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.driver import CancelledError, Timeline
from holdfast.lab.simulator.faults import FaultInjector
from holdfast.lab.simulator.network import LATEST, Network, Wire
from holdfast.lab.simulator.observer import Observer, Turn
from holdfast.lab.simulator.plan import Plan, Section, Setup, Task, draw
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.store import Scene, engine

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
            internal_error=self.record.fails,
        )
        self.clients: list[Client] = []
        longest = plan.max_ttl + self.engine.drift(plan.max_ttl)
        self.quarantine = longest + 1.0 if plan.nodes > 1 and plan.guard else 0.0
        self.injector = FaultInjector(
            self.record, self.servers, self.clients, self.quarantine, self.engine.lengthens
        )
        self.observer = Observer(plan, self.injector)
        for _ in range(plan.clients):
            self._join()

    def play(self) -> Run:
        plan, timeline = self.plan, self.timeline
        self.injector.arm(plan.faults)
        for task in plan.tasks:
            timeline.at(0.0, partial(self._begin, task))
        timeline.run(plan.seconds)
        self.observer.closing = True
        self.injector.heal()
        self.network.tail = 0.0  # or the probe, too, might wait for messages for seconds
        within = plan.max_ttl + self.quarantine + self.injector.set_back + SLACK
        work = max(section.work for task in plan.tasks for section in task.sections)
        self._wait_for_all(timeline.now + (within + work) * (1 + len(plan.tasks)))
        self.observer.check_all_ended()
        self._probe(within)
        left_for = LATEST + max(plan.max_ttl * 1.02, self.engine.lingers)
        timeline.run(timeline.now + left_for + self.injector.set_back)
        self.observer.check_leftovers()
        history = self.record.history
        judged = [
            *overlaps(history, self.injector.broken_at),
            *disorder(history, self.injector.broken_at),
            *unnotified(history, TELL_WITHIN, timeline.now),
        ]
        return Run(plan, history, (*self.record.findings, *judged), self.injector.done)

    def _begin(self, task: Task) -> None:
        client = self.clients[task.client]
        if not client.crashed:
            client.start(work_through(self.observer, client, task))

    def _join(self) -> Client:
        name, engine, observer = f"c{len(self.clients)}", self.engine, self.observer
        client = Client(name, self.timeline, engine.drift, engine.min_ttl, engine.ttl_step)
        client.runtime.joins_at_once = len(self.servers) in engine.joins_at_once
        client.wires = [(Wire(), Wire()) for _ in self.servers]
        client.look, client.sent = partial(observer.look_at, client), partial(observer.sent, client)
        client.internal_error = self.record.fails
        scene = Scene(self.servers, self.network, self.plan.max_ttl, self.plan.guard)
        client.store = engine.store(client, scene)
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


def work_through(observer: Observer, client: Client, task: Task) -> Steps[None]:
    """Do one section after the other, until the run closes."""
    for section in task.sections:
        yield Sleep(client.clock() + section.rest)
        if observer.closing:
            return
        yield from take(observer, client, section)


def take(observer: Observer, client: Client, section: Section) -> Steps[None]:
    """Take the lock, and if it is granted, work."""
    turn = observer.asked(client, section)
    holder = client.runtime.new_holder("")
    try:
        lease = yield from acquire(client.runtime, turn.spec, holder, section.timeout)
    except EngineUnavailable:
        observer.refused(turn, "unavailable")
        return
    except CancelledError:
        # As the drivers do after an interruption: try once to deliver the release.
        observer.interrupted(turn)
        yield from deliver(client.runtime, turn.spec, holder)
        observer.refused(turn, "cancelled")
        raise
    if lease is None:
        observer.refused(turn, "held")
        return
    observer.granted(turn, lease)
    try:
        yield from _work(observer, turn, lease)
    except LockLost as loss:
        return (yield from _leave(observer, turn, lease, loss))
    except CancelledError as cancelled:
        yield from _leave(observer, turn, lease, cancelled)
        raise
    yield from _leave(observer, turn, lease, None)


def _work(observer: Observer, turn: Turn, lease: LeaseState) -> Steps[None]:
    client, section = turn.client, turn.section
    yield Sleep(client.clock() + section.work / 2)
    if section.extend_to is not None:
        # An error means that the lease is lost, or still what it was.
        with suppress(LockError):
            yield from extend(client.runtime, lease, section.extend_to)
            if not lease.is_held(client.clock()):
                observer.find("loss not reported", "extended, and not held", client.name)
    if section.again and lease.is_held(client.clock()):
        yield from _reenter(client, lease, section.work / 2)
    else:
        yield Sleep(client.clock() + section.work / 2)


def _reenter(client: Client, lease: LeaseState, seconds: float) -> Steps[None]:
    """Take it again for a while, as a reentrant `Lock` does. Leaving that releases nothing."""
    lease.depth += 1
    error: CancelledError | None = None
    try:
        yield Sleep(client.clock() + seconds)
    except CancelledError as cancelled:
        error = cancelled
        raise
    finally:
        if begin_leave(client.runtime, lease, error) is not None:
            client.fails(AssertionError("the inner block has released the lease"))


def _leave(
    observer: Observer, turn: Turn, lease: LeaseState, error: BaseException | None
) -> Steps[None]:
    client = turn.client
    observer.leaving(turn, lease)
    was_lost = lease.is_lost(client.clock())
    reported = False
    try:
        release = begin_leave(client.runtime, lease, error)
        if release is not None:
            yield from finish_leave(client.runtime, lease, release, error)
    except LockLost:
        reported = True
    except EngineUnavailable as unavailable:
        observer.add(turn, Kind.NOTED, note=str(unavailable))  # it expires, and its holder knows
    except NotHeld as wrong:
        client.fails(wrong)
    except CancelledError:
        observer.interrupted(turn)
        yield from deliver(client.runtime, turn.spec, lease.holder)
        observer.left(turn, lease, lost=was_lost)
        raise
    if was_lost and not reported and error is None:
        observer.find("loss not reported", "left a lost lease without an error", client.name)
    observer.left(turn, lease, lost=reported or was_lost)


def breaks(label: str) -> Callable[[Plan], bool]:
    """A test whether a plan still breaks this promise."""
    return lambda plan: any(finding.label == label for finding in play(plan).findings)


def smaller(plan: Plan) -> Iterator[Plan]:
    """The same without one of its faults, or without one of several tasks."""
    faults, tasks = plan.faults, plan.tasks
    for at in range(len(faults)):
        yield replace(plan, faults=faults[:at] + faults[at + 1 :])
    for at in range(len(tasks) if len(tasks) > 1 else 0):
        yield replace(plan, tasks=tasks[:at] + tasks[at + 1 :])


def shrink(plan: Plan, still: Callable[[Plan], bool]) -> Plan:
    """The smallest part of a plan that still fails: nothing more can be left out."""
    while (part := next(filter(still, smaller(plan)), None)) is not None:
        plan = part
    return plan


BLOCK = 100
"""How many seeds a process plays before it reports."""


@dataclass(slots=True)
class Tally:
    """What came of some seeds."""

    seeds: int = 0
    grants: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """In how many seeds each thing went wrong."""
    failed: list[int] = field(default_factory=list)
    """The seeds that failed."""

    @classmethod
    def of(cls, run: Run) -> Self:
        broken = Counter({finding.label for finding in run.findings})
        return cls(1, run.grants, run.faults, broken, [run.plan.seed] if broken else [])

    def add(self, other: "Tally") -> None:
        self.seeds += other.seeds
        self.grants += other.grants
        self.faults.update(other.faults)
        self.broken.update(other.broken)
        self.failed = sorted(self.failed + other.failed)


def campaign(
    seeds: Sequence[int], setup: Setup, report: Callable[[Tally], None] = lambda tally: None
) -> Tally:
    """Play them all, on all cores if they are many. `report` gets the tally as it grows."""
    blocks = [seeds[first : first + BLOCK] for first in range(0, len(seeds), BLOCK)]
    if len(blocks) == 1:
        return _play(setup, seeds)
    total = Tally()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_play, setup, block) for block in blocks]):
            total.add(done.result())
            report(total)
    return total


def _play(setup: Setup, seeds: Sequence[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(Tally.of(play(draw(seed, setup))))
    return tally
