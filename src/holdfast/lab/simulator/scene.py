"""What an observer looks at: the parts of a run, and one turn of a client under a lock."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.lease_state import LockSpec, node_timeout
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.faults import FaultInjector
from holdfast.lab.simulator.plan import Plan, Section
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.server import BaseServer
from holdfast.lab.simulator.simulated import SimulatedEngine

RETRY = 0.1


@dataclass(frozen=True, slots=True)
class Scene:
    """The parts of a run."""

    plan: Plan
    record: Record
    servers: Sequence[BaseServer]
    clients: Sequence[Client]
    injector: FaultInjector


class Turn:
    """One section in progress."""

    def __init__(
        self, client: Client, section: Section, servers: Sequence[BaseServer], number: int
    ) -> None:
        self.client = client
        self.section = section
        self.spec = spec_of(section, client.engine, len(servers))
        self.hold = f"{client.name}#{number}"
        self.asked_at = client.timeline.now
        self.holder = client.next_holder()
        self.breaks = [connection.breaks for connection in client.store.connections]
        """For each node, how often the connection to it had broken when the turn began."""
        self.runs = [server.run for server in servers]
        """For each node, which of its runs it was."""


def spec_of(section: Section, engine: SimulatedEngine, nodes: int) -> LockSpec:
    """What a `Lock` would ask for."""
    timeout = node_timeout if nodes == 1 else engine.request_timeout
    return LockSpec(
        name=section.name,
        prefix="",
        ttl=section.ttl,
        renew=section.renew,
        max_hold=section.max_hold,
        retry=RETRY,
        request_timeout=timeout(section.ttl),
    )
