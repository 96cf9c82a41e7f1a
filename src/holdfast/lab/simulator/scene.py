"""What an observer looks at: the parts of a run, one turn of a client under a lock, and what is
left of it when it is over."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.ports import node_timeout
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.engines import SimulatedEngine
from holdfast.lab.simulator.faults import FaultInjector
from holdfast.lab.simulator.plan import Plan, Section
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.server import BaseServer

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
        self,
        client: Client,
        section: Section,
        simulated: SimulatedEngine,
        servers: Sequence[BaseServer],
        number: int,
    ) -> None:
        self.client = client
        self.section = section
        self.spec = spec_of(section, simulated, len(servers))
        self.hold = f"{client.name}#{number}"
        self.asked_at = client.timeline.now
        self.holder = client.next_holder()
        self.breaks = [connection.breaks for connection in client.store.connections]
        """For each node, how often the connection to it had broken when the turn began."""
        self.runs = [server.run for server in servers]
        """For each node, which of its runs it was."""
        self.refused = [server.refused for server in servers]
        """For each node, how many requests it had answered with an error."""
        self.lease: LeaseState | None = None
        self.ended_at = inf


def spec_of(section: Section, simulated: SimulatedEngine, nodes: int) -> LockSpec:
    """What a `Lock` would ask for."""
    timeout = node_timeout if nodes == 1 else simulated.request_timeout
    return LockSpec(
        key=section.name,
        prefix="",
        ttl=section.ttl,
        renew=section.renew,
        max_hold=section.max_hold,
        retry=RETRY,
        request_timeout=timeout(section.ttl),
        shares=section.shares,
    )


LEFT_BEHIND = "lock left behind"

TIDY_AFTER = 0.3
"""How soon after a turn nothing of it may be left on a node that has answered everything."""


class Leftovers:
    """Nothing of a lock may be left on a node, or in a client, after a turn or at the end."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._find = scene, scene.record.find
        self._timeline = scene.record.timeline

    def check_later(self, turn: Turn) -> None:
        """Check the nodes soon after a turn."""
        turn.ended_at = min(turn.ended_at, self._timeline.now)
        self._timeline.at(self._timeline.now + TIDY_AFTER, lambda: self._check(turn))

    def check_all(self) -> None:
        """At the end: no lock on any node, no waiter, no renewer that failed."""
        for server in self._scene.servers:
            for left in server.leftovers():
                self._find(LEFT_BEHIND, f"{server.name}: {left}", server.name)
        for client in self._scene.clients:
            if client.crashed:
                continue
            for loop, process in client.loops.items():
                if process.error is not None:
                    self._find("internal error", f"the {loop} is dead", client.name)
            for waiter_id in client.notifications:
                if waiter_id not in client.loops:
                    self._find(LEFT_BEHIND, f"a waiter: {waiter_id}", client.name)

    def _check(self, turn: Turn) -> None:
        """Nothing may be left on a node that has answered every message of the turn. Over a quorum,
        a minority may have refused to release the lock: there it expires."""
        if turn.client.crashed:
            return
        if _is_pending(turn):
            if self._timeline.now < turn.ended_at + turn.spec.ttl - TIDY_AFTER:
                self.check_later(turn)
            return  # else it is not sent again, and expires
        later, refused = False, list[str]()
        for index, server in enumerate(self._scene.servers):
            connection = turn.client.store.connections[index]
            if connection.breaks != turn.breaks[index] or server.run != turn.runs[index]:
                continue  # what was left there expires
            if not connection.is_idle:
                later = True
                continue
            for left in server.remains(turn.spec.key, turn.holder):
                what = left.holder if left.has_turn else "a place in the queue"
                if server.refused == turn.refused[index]:
                    self._find(LEFT_BEHIND, f"{server.name}: {what}", server.name)
                else:
                    refused.append(f"{server.name}: {what}")
        if len(refused) >= self._scene.plan.quorum:
            self._find(LEFT_BEHIND, ", ".join(refused))
        if later:
            self.check_later(turn)


def _is_pending(turn: Turn) -> bool:
    """Whether the client has yet to send its release: behind another one, which waits for nodes
    that do not answer."""
    holder = turn.holder if turn.lease is None else turn.lease.holder
    return turn.client.runtime.pending.find(holder) is not None
