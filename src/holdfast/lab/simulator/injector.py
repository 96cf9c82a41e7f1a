"""Applies the faults of a plan to the servers, the clients and the network of a run."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from holdfast.lab.history import Kind
from holdfast.lab.simulator.client import Client
from holdfast.lab.simulator.faults import (
    Cancel,
    Close,
    Crash,
    Cut,
    Double,
    Drift,
    Fault,
    Freeze,
    Isolate,
    Jump,
    Kill,
    Lose,
    Pause,
    Reset,
    Skew,
    Slow,
    name_of,
)
from holdfast.lab.simulator.network import Wire
from holdfast.lab.simulator.record import Record
from holdfast.lab.simulator.server import BaseServer

AFTERMATH = 0.5
"""How long a fault without a duration disturbs a run: connections are opened again, and so on."""


class FaultInjector:
    """Applies faults, and undoes each when its time is over; `heal` undoes all that are left."""

    def __init__(
        self,
        record: Record,
        servers: Sequence[BaseServer],
        clients: Sequence[Client],
        wires: Sequence[Sequence[tuple[Wire, Wire]]],
        quarantine: float,
        lengthens: float,
    ) -> None:
        """`lengthens`: by how much, at the most, a lease lasts longer if a clock is set back."""
        self._record, self._timeline = record, record.timeline
        self._servers, self._clients, self._wires = servers, clients, wires
        self._quarantine, self._lengthens = quarantine, lengthens
        self._undo: dict[int, Callable[[], None]] = {}
        self._numbers = count()
        self.done: Counter[str] = Counter()
        """How many faults of each kind there were."""
        self.disturbed_until = 0.0
        """Until when the faults so far disturb the run."""
        self.set_back = 0.0
        """By how much longer leases last, since clocks of nodes were set back."""
        self._healed = False

    def arm(self, faults: Sequence[Fault]) -> None:
        """Let each happen when it is due."""
        for fault in faults:
            self._record.when(fault.when, partial(self._apply, fault))

    def heal(self) -> None:
        """Undo everything, and do no more."""
        self._healed = True
        for number in list(self._undo):
            self._undo.pop(number)()
        for pair in (pair for wires in self._wires for pair in wires):
            for wire in pair:
                wire.doomed, wire.doubled = False, 0
        self._record.add("", Kind.HEALED)

    def _apply(self, fault: Fault) -> None:
        if self._healed:
            return
        self.done[name_of(fault)] += 1
        match fault:
            case Slow() | Cut() | Freeze() | Isolate() | Crash() | Pause():
                self._last(fault)
            case Lose(client=client, node=node, back=back):
                self._wires[client][node][back].doomed = True
                self._note(f"c{client}", "the next message is lost", f"n{node}")
                self._disturb(AFTERMATH * 4)
            case Reset(client=client, nodes=nodes, ghost=ghost, late=late):
                self._reset(client, nodes, ghost=ghost, late=late)
            case Double(client=client, nodes=nodes):
                for node in nodes:
                    self._wires[client][node][0].doubled = 1
                self._reset(client, nodes, ghost=True)
                self._disturb(AFTERMATH * 2)
            case Jump(node=node, by=by):
                self._servers[node].clock.jump(by)
                self.set_back += min(max(0.0, -by), self._lengthens)
                self._record.add(f"n{node}", Kind.JUMPED, note=f"{by:+.4f} s")
                self._disturb(AFTERMATH + min(abs(by), self._lengthens))
            case Drift(node=node, rate=rate):
                self._servers[node].clock.run_at(rate)
                self._note(f"n{node}", f"its clock runs at {rate:.5f}")
            case Skew(client=client, rate=rate, calendar=calendar):
                self._clients[client].own_clock.run_at(rate)
                self._clients[client].calendar = calendar
                self._note(f"c{client}", f"clock at {rate:.5f}, calendar {calendar:+.3f} s")
            case Kill(client=client) | Close(client=client):
                self._end(self._clients[client], closes=isinstance(fault, Close))
            case Cancel(client=client):
                self._clients[client].cancel_one()
                self._note(f"c{client}", "is cancelled")

    def _reset(
        self, client: int, nodes: tuple[int, ...], *, ghost: bool, late: float = 0.0
    ) -> None:
        store = self._clients[client].store
        for node in nodes:
            store.connections[node].reset(ghost=ghost, late=late)
            self._note(f"c{client}", "the connection breaks", f"n{node}")
        self._disturb(AFTERMATH + late)

    def _last(self, fault: Slow | Cut | Freeze | Isolate | Crash | Pause) -> None:
        """Begin a fault that lasts."""
        match fault:
            case Slow(client=client, nodes=nodes):
                undo = self._slow(client, nodes)
            case Cut():
                undo = self._cut(fault)
            case Freeze(nodes=nodes):
                undo = self._freeze(nodes)
            case Isolate(nodes=nodes):
                undo = self._isolate(nodes)
            case Crash(nodes=nodes, loses_data=loses_data):
                undo = self._crash(nodes, loses_data=loses_data)
                self._disturb(fault.lasting + self._quarantine)
            case Pause():
                undo = self._pause(fault)
        number = next(self._numbers)
        self._undo[number] = undo
        end = self._timeline.now + fault.lasting
        self._timeline.at(end, lambda: self._undo.pop(number, lambda: None)())
        self._disturb(fault.lasting + AFTERMATH)

    def _slow(self, client: int, nodes: tuple[int, ...]) -> Callable[[], None]:
        wires = [wire for node in nodes for wire in self._wires[client][node]]
        for wire in wires:
            wire.slow += 1
        self._note(f"c{client}", f"slow to {_listed(nodes)}")

        def undo() -> None:
            for wire in wires:
                wire.slow -= 1
            self._note(f"c{client}", f"not slow any more to {_listed(nodes)}")

        return undo

    def _cut(self, cut: Cut) -> Callable[[], None]:
        ends: list[tuple[Wire, str, str]] = []
        for node in cut.nodes:
            there, back = self._wires[cut.client][node]
            ends += [(there, f"c{cut.client}", f"n{node}")] * cut.to
            ends += [(back, f"n{node}", f"c{cut.client}")] * cut.back
        for wire, who, peer in ends:
            wire.cuts += 1
            self._record.add(who, Kind.CUT, peer=peer)

        def undo() -> None:
            for wire, who, peer in ends:
                self._record.add(who, Kind.HEALED, peer=peer)
                wire.mend()

        return undo

    def _freeze(self, nodes: tuple[int, ...]) -> Callable[[], None]:
        for node in nodes:
            self._servers[node].freeze()
            self._record.add(f"n{node}", Kind.PAUSED)

        def undo() -> None:
            for node in nodes:
                self._record.add(f"n{node}", Kind.RESUMED)
                self._servers[node].thaw()

        return undo

    def _isolate(self, nodes: tuple[int, ...]) -> Callable[[], None]:
        for node in nodes:
            self._servers[node].isolate()
            self._note(f"n{node}", "is cut off from the other nodes")

        def undo() -> None:
            for node in nodes:
                self._note(f"n{node}", "is not cut off any more")
                self._servers[node].reconnect()

        return undo

    def _crash(self, nodes: tuple[int, ...], *, loses_data: bool) -> Callable[[], None]:
        down = [node for node in nodes if self._servers[node].up]
        for node in down:
            self._record.add(f"n{node}", Kind.CRASHED)
            self._servers[node].crash()

        def undo() -> None:
            for node in down:
                self._servers[node].restart(loses_data=loses_data)
                note = "without its data" if loses_data else ""
                self._record.add(f"n{node}", Kind.STARTED, note=note)

        return undo

    def _pause(self, pause: Pause) -> Callable[[], None]:
        client = self._clients[pause.client]
        client.pause()
        self._record.add(client.name, Kind.PAUSED)

        def undo() -> None:
            if client.pauses == 1:
                self._record.add(client.name, Kind.RESUMED)
            client.go_on(timers_first=pause.timers_first)

        return undo

    def _end(self, client: Client, *, closes: bool) -> None:
        self._disturb(AFTERMATH)
        if closes:
            self._note(client.name, "is closed")
            client.arrives(client.close)()
        elif not client.crashed:
            self._record.add(client.name, Kind.CRASHED)
            client.crash()

    def _disturb(self, seconds: float) -> None:
        self.disturbed_until = max(self.disturbed_until, self._timeline.now + seconds)

    def _note(self, who: str, note: str, peer: str = "") -> None:
        self._record.add(who, Kind.NOTED, peer=peer, note=note)


def _listed(nodes: tuple[int, ...]) -> str:
    return ", ".join(f"n{node}" for node in nodes)
