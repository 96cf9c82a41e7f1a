"""What goes wrong in a run, as data (so that it can be printed, left out, and played again), and
what each fault does to the clients, the servers and the network."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf

from holdfast.core.effects import Steps
from holdfast.core.queries import break_lock, inspect
from holdfast.errors import EngineUnavailable
from holdfast.lab.history import Kind
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.network import LATEST
from holdfast.lab.simulator.record import Record, When
from holdfast.lab.simulator.server import BaseServer

AFTERMATH = 0.5
"""How long a fault disturbs a run after its end: connections are opened again, and so on."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, at an instant."""

    when: When

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        """Steps that do it, yield how long it lasts (None: it does not disturb the run), and undo
        it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Reset(Fault):
    """Connections break. The client connects again; with `ghost`, what was in flight on the old
    one is still executed, in any order with what is sent on the new one."""

    client: int
    nodes: tuple[int, ...]
    ghost: bool
    late: float = 0.0
    """How much later the ghost arrives."""

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        for node in self.nodes:
            link = run.clients[self.client].store.connections[node]
            link.reset(ghost=self.ghost, late=self.late)
            run.note(f"c{self.client}", "the connection breaks", f"n{node}")
        yield self.late


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """Messages are held up: to the nodes, back from them, or both."""

    client: int
    nodes: tuple[int, ...]
    lasting: float
    to: bool = True
    back: bool = True

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        client, nodes = run.clients[self.client], [f"n{node}" for node in self.nodes]
        pairs = [client.wires[node] for node in self.nodes]
        there, back = [wire for wire, _ in pairs], [wire for _, wire in pairs]
        wires = (there if self.to else []) + (back if self.back else [])
        cuts = [(client.name, ", ".join(nodes))] if self.to else []
        cuts += [(node, client.name) for node in nodes if self.back]
        for wire in wires:
            wire.cuts += 1
        for who, peer in cuts:
            run.record.add(who, Kind.CUT, peer=peer)
        yield self.lasting
        for who, peer in cuts:
            run.record.add(who, Kind.HEALED, peer=peer)
        for wire in wires:
            wire.mend()


@dataclass(frozen=True, slots=True)
class Outage(Fault):
    """Something happens to nodes for a while."""

    nodes: tuple[int, ...]
    lasting: float


@dataclass(frozen=True, slots=True)
class Freeze(Outage):
    """Nodes are paused, and go on where they were."""

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        for node in self.nodes:
            run.servers[node].freeze()
            run.record.add(f"n{node}", Kind.PAUSED)
        yield self.lasting
        for node in self.nodes:
            run.record.add(f"n{node}", Kind.RESUMED)
            run.servers[node].thaw()


@dataclass(frozen=True, slots=True)
class Refuse(Fault):
    """Nodes answer requests with an error, and do nothing: all requests, or a share of them."""

    nodes: tuple[int, ...]
    error: int
    """Which of the errors that the engine's servers have."""
    share: float
    lasting: float

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        refusal = self.error, self.share
        for node in self.nodes:
            run.servers[node].refusals.append(refusal)
            run.note(f"n{node}", "answers with errors")
        yield self.lasting
        for node in self.nodes:
            run.servers[node].refusals.remove(refusal)
            run.note(f"n{node}", "answers as before")


@dataclass(frozen=True, slots=True)
class Isolate(Outage):
    """Nodes are cut off from the other nodes, and not from their clients."""

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        for node in self.nodes:
            run.servers[node].isolate()
            run.note(f"n{node}", "is cut off from the other nodes")
        yield self.lasting
        for node in self.nodes:
            run.note(f"n{node}", "is not cut off any more")
            run.servers[node].reconnect()


@dataclass(frozen=True, slots=True)
class Crash(Fault):
    """Nodes go down, and restart after a while, with or without their data."""

    nodes: tuple[int, ...]
    lasting: float
    loses_data: bool

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        down = [node for node in self.nodes if run.servers[node].up]
        for node in down:
            run.record.add(f"n{node}", Kind.CRASHED)
            run.servers[node].crash()
        run.disturb(self.lasting + run.quarantine)
        yield self.lasting
        for node in down:
            run.servers[node].restart(loses_data=self.loses_data)
            note = "without its data" if self.loses_data else ""
            run.record.add(f"n{node}", Kind.STARTED, note=note)


@dataclass(frozen=True, slots=True)
class Jump(Fault):
    """The clock of a node is set."""

    node: int
    by: float

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        run.servers[self.node].clock.jump(self.by)
        run.set_back += min(max(0.0, -self.by), run.lengthens)
        run.record.add(f"n{self.node}", Kind.JUMPED, note=f"{self.by:+.4f} s")
        yield min(abs(self.by), run.lengthens)


@dataclass(frozen=True, slots=True)
class Drift(Fault):
    """The clock of a node runs fast or slow."""

    node: int
    rate: float

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        run.servers[self.node].clock.run_at(self.rate)
        run.note(f"n{self.node}", f"its clock runs at {self.rate:.5f}")
        yield None


@dataclass(frozen=True, slots=True)
class Skew(Fault):
    """The clock of a client runs fast or slow; its wall clock is wrong by `calendar` seconds."""

    client: int
    rate: float
    calendar: float

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        client = run.clients[self.client]
        client.own_clock.run_at(self.rate)
        client.calendar = self.calendar
        run.note(client.name, f"clock at {self.rate:.5f}, calendar {self.calendar:+.3f} s")
        yield None


@dataclass(frozen=True, slots=True)
class Pause(Fault):
    """A client is paused, as by a long garbage collection; its clock runs on."""

    client: int
    lasting: float
    timers_first: bool
    """What it does first when it resumes: run its timers, or read what has arrived."""

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        client = run.clients[self.client]
        client.pauses += 1
        run.record.add(client.name, Kind.PAUSED)
        yield self.lasting
        if client.pauses == 1:
            run.record.add(client.name, Kind.RESUMED)
        client.go_on(timers_first=self.timers_first)


@dataclass(frozen=True, slots=True)
class Kill(Fault):
    """A client crashes. Nothing is cleaned up."""

    client: int

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        client = run.clients[self.client]
        if not client.crashed:
            run.record.add(client.name, Kind.CRASHED)
            client.crash()
        yield 0.0


@dataclass(frozen=True, slots=True)
class Close(Fault):
    """A client is closed, whatever it does."""

    client: int

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        client = run.clients[self.client]
        run.note(client.name, "is closed")
        run.disturb(0.0)  # its leases are lost before this returns, for this reason
        client.arrives(client.close)()
        yield 0.0


@dataclass(frozen=True, slots=True)
class Cancel(Fault):
    """The oldest algorithm of a client is cancelled."""

    client: int

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        run.clients[self.client].cancel_one()
        run.note(f"c{self.client}", "is cancelled")
        yield None


@dataclass(frozen=True, slots=True)
class Break(Fault):
    """An operator breaks a lock, by way of a client: for all its holders, or for the first one."""

    client: int
    name: str
    whole: bool

    def begin(self, run: "FaultInjector") -> Iterator[float | None]:
        client = run.clients[self.client]
        if client.crashed or client.runtime.closed:
            yield None
            return
        run.broken_at = min(run.broken_at, run.record.timeline.now)
        run.note(client.name, f"breaks {self.name}")

        def start() -> None:
            if not client.runtime.closed:  # perhaps meanwhile
                client.start(self._break(run, client))

        client.arrives(start)()
        yield LATEST  # it may be carried out so late, and then another lease is broken

    def _break(self, run: "FaultInjector", client: Client) -> Steps[None]:
        timeline, until = run.record.timeline, inf
        with suppress(EngineUnavailable):
            seen = yield from inspect(client.runtime, "", self.name)
            if seen is None:
                return
            run.breaking += 1
            try:
                holder = "" if self.whole else seen.holder
                yield from break_lock(client.runtime, "", self.name, holder)
                until = timeline.now
            finally:
                run.breaking -= 1
                run.broken_until = max(run.broken_until, until)
                if until == inf:
                    run.disturb(LATEST)  # it may be carried out so late


class FaultInjector:
    """What faults act on. It ends each when its time is over; `heal` ends all that are left."""

    def __init__(
        self,
        record: Record,
        servers: Sequence[BaseServer],
        clients: Sequence[Client],
        quarantine: float,
        lengthens: float,
    ) -> None:
        """`lengthens`: by how much, at most, a lease lasts longer if a clock is set back."""
        self.record, self._timeline = record, record.timeline
        self.servers, self.clients = servers, clients
        self.quarantine, self.lengthens = quarantine, lengthens
        self._under_way: dict[Iterator[float | None], None] = {}
        self.done: Counter[str] = Counter()
        """How many faults of each kind there were."""
        self.disturbed_until = 0.0
        """Until when the faults so far disturb the run."""
        self.set_back = 0.0
        """By how much longer leases last, since clocks of nodes were set back."""
        self.broken_at = inf
        """When an operator first broke a lock: from then on, leases may overlap."""
        self.broken_until = -inf
        """When the last answer came to a request to break a lock; `inf`: one had no answer, and may
        still be carried out."""
        self.breaking = 0
        """How many locks are being broken."""
        self._healed = False

    def arm(self, faults: Sequence[Fault]) -> None:
        """Let each happen when it is due."""
        for fault in faults:
            self.record.when(fault.when, partial(self._begin, fault))

    def heal(self) -> None:
        """End everything, and do no more."""
        self._healed = True
        for steps in list(self._under_way):
            self._end(steps)
        self.record.add("", Kind.HEALED)

    def disturb(self, seconds: float) -> None:
        """For that long, clients may have reasons to fail."""
        self.disturbed_until = max(self.disturbed_until, self._timeline.now + seconds)

    def note(self, who: str, note: str, peer: str = "") -> None:
        """Something worth a line."""
        self.record.add(who, Kind.NOTED, peer=peer, note=note)

    def _begin(self, fault: Fault) -> None:
        if self._healed:
            return
        self.done[type(fault).__name__] += 1
        steps = fault.begin(self)
        lasting = next(steps)
        if lasting is not None:
            self._under_way[steps] = None
            self.disturb(lasting + AFTERMATH)
            self._timeline.at(self._timeline.now + lasting, partial(self._end, steps))

    def _end(self, steps: Iterator[float | None]) -> None:
        if steps in self._under_way:
            del self._under_way[steps]
            next(steps, None)
