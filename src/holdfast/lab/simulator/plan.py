"""A run, before it happens: what clients want, and what goes wrong. The same seed is the same plan,
and the same plan is the same run."""

from dataclasses import dataclass, replace
from random import Random

from holdfast.lab.simulator.attacks import (
    ALSO,
    ANYWHERE,
    KINDS,
    MARKS,
    OF_VOTES,
    OVER_A_QUORUM,
    Target,
)
from holdfast.lab.simulator.faults import Drift, Fault, Jump, Skew
from holdfast.lab.simulator.record import Mark, When
from holdfast.lab.simulator.store import engine


@dataclass(frozen=True, slots=True)
class Setup:
    """What plans are drawn for. Beyond what the algorithm assumes, promises are broken."""

    nodes: int | None = None
    """How many; None: each plan another number."""
    clients: int | None = None
    seconds: float | None = None
    """How long faults happen; then everything heals. None: as long as suits the engine."""
    guard: bool = True
    """Whether the restart guard is on."""
    drift: float = 1.0
    """How far clocks drift apart, as a multiple of what is allowed for."""
    engine: str = "redis"
    shared: bool = False
    """Whether locks are shared: with readers, semaphores and exclusive holders. Of Redis there is
    one node unless more are given, and a quorum has no semaphores."""


@dataclass(frozen=True, slots=True)
class Section:
    """One turn: rest, acquire a lock, work, release it."""

    rest: float
    name: str
    timeout: float | None
    ttl: float
    renew: bool
    max_hold: float | None
    work: float
    extend_to: float | None = None
    """Halfway through its work, extend the lease to this ttl."""
    shares: int = 1
    """How many may hold the lock at once; 0: any number."""
    again: bool = False
    """For the second half of its work, take the lock again: it is reentrant."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one task of a client does, one after the other."""

    client: int
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is decided before a run."""

    seed: int
    nodes: int
    clients: int
    seconds: float
    max_ttl: float
    guard: bool
    durable: bool
    """Whether the nodes write everything to disk before they answer."""
    tail: float
    """How many messages are late, all the time."""
    tasks: tuple[Task, ...]
    faults: tuple[Fault, ...]
    engine: str

    @property
    def shared(self) -> bool:
        """Whether some locks have several holders."""
        return any(section.shares != 1 for task in self.tasks for section in task.sections)

    @property
    def quorum(self) -> int:
        """How many nodes are a majority."""
        return self.nodes // 2 + 1


NAMES = ("job", "a {b}%")
LONGEST_REST = 3.0
"""So that no task sleeps beyond the end of its run."""

SHARES = (1, 0, 0, 2, 2)
"""Exclusive, readers, a semaphore; a quorum has no semaphores."""

TAILS = (0.0, 0.0, 0.0, 0.0, 0.02, 0.2)
RATE = 0.01
"""By how much clocks may differ, as a share of the time."""

SHARE_OF_DRIFT = 0.45
"""How much of the drift allowed for each of two clocks may have: the rest is for what rounds."""

SMALL_JUMP = 0.0005


USUAL = Setup()


def draw(seed: int, setup: Setup = USUAL) -> Plan:
    """The plan of this seed."""
    random = Random(seed)  # noqa: S311 - to be repeatable, not secret
    simulated = engine(setup.engine)
    seconds = setup.seconds or simulated.seconds
    one = setup.shared and setup.engine == "redis" and not setup.nodes
    nodes = 1 if one else setup.nodes or random.choice(simulated.sizes)
    clients = setup.clients or random.choice((2, 3, 3, 4))
    ttl = random.choice(simulated.ttls)
    careful = setup.guard and (nodes == 1 or random.random() < 0.3)
    durable = careful or not simulated.loses_data
    is_quorum = setup.engine == "redis" and nodes > 1
    shares = (SHARES[:3] if is_quorum else SHARES) if setup.shared else SHARES[:1]
    kinds = (*KINDS, *ALSO.get(setup.engine, ()))
    marks = (*MARKS, *OF_VOTES) if is_quorum else MARKS
    target = Target(
        random, simulated, kinds, shares, marks, NAMES, nodes, clients, ttl, seconds, not durable
    )
    faults = _clocks(target, setup)
    attacks = OVER_A_QUORUM if is_quorum else ANYWHERE
    for _ in range(random.choice((0, 1, 1, 2, 2, 3))):
        faults += random.choice(attacks)(target)
    return Plan(
        seed=seed,
        nodes=nodes,
        clients=clients,
        seconds=seconds,
        max_ttl=simulated.max_ttl,
        guard=setup.guard and simulated.loses_data,
        durable=durable,
        tail=random.choice(TAILS),
        tasks=_tasks(target),
        faults=tuple(faults),
        engine=setup.engine,
    )


def _clocks(target: Target, setup: Setup) -> list[Fault]:
    """Clocks that are wrong, by as much as is allowed for."""
    random, simulated, start = target.random, target.engine, When(Mark.START)
    faults: list[Fault] = []
    if random.random() < 0.3 and setup.drift == 1.0:
        return faults
    # The allowance is for a ttl; for a short one, relatively more, which is not relied on.
    most = RATE * SHARE_OF_DRIFT * setup.drift
    calendar = simulated.max_ttl * 0.4 if target.may_lose_data else 30.0
    for node in range(target.nodes):
        faults.append(
            Drift(start, node, 1 + random.choice((most, -most, random.uniform(-most, most))))
        )
        if simulated.lengthens and random.random() < 0.1:
            by = random.choice((SMALL_JUMP, -SMALL_JUMP, -random.uniform(0, 1)))
            faults.append(Jump(target.moment(), node, by))
    for client in range(target.clients):
        rate = 1 + random.choice((most, -most, random.uniform(-most, most)))
        faults.append(Skew(start, client, rate, random.uniform(-calendar, calendar)))
    return faults


def _tasks(target: Target) -> tuple[Task, ...]:
    random, clients = target.random, range(target.clients)
    tasks = [Task(client, _sections(target, NAMES[0])) for client in clients]
    while random.random() < target.engine.busy:
        name = random.choice(NAMES)
        tasks.append(Task(random.choice(clients), _sections(target, name)))
    return tuple(tasks)


def _sections(target: Target, name: str) -> tuple[Section, ...]:
    # Some come late, and meet nodes for the first time that have restarted before.
    random, seconds = target.random, target.seconds
    late = random.uniform(0, seconds) if random.random() < 0.2 else 0.0
    sections: list[Section] = []
    busy = late
    while busy < seconds:
        section = _section(target, name)
        if late and not sections:
            section = replace(section, rest=late)
        sections.append(section)
        busy += section.rest + max(section.work, 0.3)
    return tuple(sections)


def _section(target: Target, name: str) -> Section:
    random, ttl, simulated = target.random, target.ttl, target.engine
    longer = min(random.expovariate(1.0), LONGEST_REST)
    rest = random.choice((0.0, random.uniform(0, 0.05), longer))
    timeout = random.choice((None, None, 0.0, random.uniform(0, ttl), 2 * ttl))
    work = random.choice(
        (0.0, 0.003, random.uniform(0.01, 0.3), random.uniform(0.5, 1.2) * ttl, 2.2 * ttl)
    )
    renew = random.random() < 0.75
    longest = max(random.uniform(0.3, 2) * ttl, simulated.min_ttl)
    max_hold = longest if random.random() < 0.1 else None
    choices = (simulated.ttl(ttl / 2), ttl, simulated.max_ttl)
    extend_to = random.choice(choices) if random.random() < 0.25 else None
    own = simulated.ttl(min(ttl, max_hold) if max_hold else ttl)
    shares = random.choice(target.shares)
    again = random.random() < 0.15
    return Section(rest, name, timeout, own, renew, max_hold, work, extend_to, shares, again)
