"""The driver for virtual time: performs each effect on a `Timeline`, over a network that fails.

A `VirtualClient` is to the core what `Client` is: a world, a renewer, tickets. Its algorithms run
as `Process`es, which can be cancelled (the algorithm cleans up); a client can crash (nothing does).
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.core.effects import Announce, Ask, Effect, Listen, Sleep, Steps, Wait
from holdfast.core.messages import Acquire, Answer, Failed, Request
from holdfast.core.ports import Engine
from holdfast.core.renewal import RENEWER, renew_for_ever
from holdfast.core.schedule import Schedule
from holdfast.core.tenure import Claim, node_timeout
from holdfast.core.world import World
from holdfast.engines.memory import Table
from holdfast.lab.timeline import Timeline

T = TypeVar("T")


class CancelledError(BaseException):
    """What a cancelled process is thrown; as in asyncio, not an `Exception`."""


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

    def execute(self, requests: tuple[Request, ...], ring: Callable[[str], None]) -> list[Answer]:
        """Carry out requests at the present instant."""
        answers: list[Answer] = []
        for request in requests:
            self.asked.append(request)
            if isinstance(request, Acquire) and request.queue:
                self.bells[request.holder] = ring
            answers.append(self.table.answer(request, self.timeline.now))
            self.timeline.note(f"{request} -> {answers[-1]}")
        for holder in self.table.to_wake:
            bell = self.bells[holder]
            Link(self.network).send(lambda bell=bell, holder=holder: bell(holder))  # type: ignore[misc]
        self.table.to_wake.clear()
        return answers


class Process(Generic[T]):
    """One algorithm under way."""

    def __init__(self, client: "VirtualClient", steps: Steps[T]) -> None:
        self.client = client
        self.steps = steps
        self.result: T | None = None
        self.error: BaseException | None = None
        self.done = False
        self.effects = 0
        """How many effects it has yielded so far."""
        self._waiting = 0
        client.processes.append(self)
        self._go_on(lambda: steps.send(None))

    def cancel(self) -> None:
        """Throw `CancelledError` in, wherever it stands; its cleanup is performed."""
        if not self.done:
            self._waiting += 1
            self._go_on(lambda: self.steps.throw(CancelledError()))

    def crash(self) -> None:
        """End it without performing anything that it still wants."""
        self.steps.close()
        self._end()

    def resume(self) -> Callable[[object], None]:
        """A function that goes on with a result, once, unless the process has moved on since."""
        waiting = self._waiting

        def go_on(result: object) -> None:
            if waiting == self._waiting and not self.done:
                self._waiting += 1
                self._go_on(lambda: self.steps.send(result))

        return go_on

    def _go_on(self, step: Callable[[], Effect]) -> None:
        effect = self._step(step)
        if effect is not None:
            self.effects += 1
            self.client.perform(effect, self.resume())

    def _step(self, step: Callable[[], Effect]) -> Effect | None:
        try:
            return step()
        except StopIteration as stop:
            self.result = stop.value
        except BaseException as error:  # noqa: BLE001 - kept for whoever looks at the process
            self.error = error
        self._end()
        return None

    def _end(self) -> None:
        self.done = True
        self.client.processes.remove(self)


class VirtualClient:
    """A client on a timeline."""

    def __init__(self, name: str, node: VirtualNode, engine: Engine) -> None:
        timeline = node.timeline
        self.name = name
        self.node = node
        self.timeline = timeline
        self.crashed = False
        self.processes: list[Process[Any]] = []
        self.tickets: dict[str, Callable[[object], None] | bool] = {}
        self.renewer: Process[None] | None = None
        self.events: list[object] = []
        self._requests, self._replies = Link(node.network), Link(node.network)
        self._holders = 0
        self.world = World(
            clock=lambda: timeline.now,
            uniform=timeline.random.uniform,
            new_holder=self._new_holder,
            emit=self._emit,
            mutex=nullcontext(),
            drift=engine.drift,
            min_ttl=engine.guarantees.min_ttl,
            unlisten=self._unlisten,
            rouse_renewer=self._rouse_renewer,
            schedule=Schedule(),
        )

    def start(self, steps: Steps[T]) -> Process[T]:
        """Set an algorithm going."""
        return Process(self, steps)

    def crash(self) -> None:
        """Stop everything at once; nothing is cleaned up, nothing more is heard."""
        self.timeline.note(f"{self.name} crashes")
        self.crashed = True
        self.tickets.clear()
        for process in list(self.processes):
            process.crash()

    def cancel_one(self) -> None:
        """Cancel whatever it has been doing for longest, the renewer aside."""
        for process in self.processes:
            if process is not self.renewer:
                process.cancel()
                return

    def perform(self, effect: Effect, resume: Callable[[object], None]) -> None:
        """Arrange for `resume` to be called with the effect's result."""
        if isinstance(effect, Ask):
            self._ask(effect, resume)
        elif isinstance(effect, Wait):
            self._wait(effect, resume)
        elif isinstance(effect, Sleep):
            self.timeline.at(effect.until, lambda: resume(None))
        elif isinstance(effect, Listen):
            self.tickets[effect.ticket] = False
            resume(None)
        else:
            self._announce(effect)
            resume(None)

    def _ask(self, ask: Ask, resume: Callable[[object], None]) -> None:
        def arrive() -> None:
            if self.node.up:
                answers = self.node.execute(ask.requests, self._ring)
                self._replies.send(lambda: resume(answers))

        def give_up() -> None:
            resume([Failed.at("node", "no answer")] * len(ask.requests))

        self._requests.send(arrive)
        self.timeline.at(ask.until, give_up)

    def _wait(self, wait: Wait, resume: Callable[[object], None]) -> None:
        def time_out() -> None:
            if self.tickets.get(wait.ticket) is resume:
                self.tickets[wait.ticket] = False
            resume(False)

        if self.tickets[wait.ticket] is True:
            self.tickets[wait.ticket] = False
            resume(True)
        else:
            self.tickets[wait.ticket] = resume
            self.timeline.at(wait.until, time_out)

    def _ring(self, ticket: str) -> None:
        waiter = self.tickets.get(ticket)
        if callable(waiter):
            self.tickets[ticket] = False
            waiter(True)
        elif waiter is False:
            self.tickets[ticket] = True

    def _unlisten(self, ticket: str) -> None:
        self.tickets.pop(ticket, None)

    def _announce(self, effect: Announce) -> None:
        for watcher in effect.watchers:
            watcher()

    def _rouse_renewer(self) -> None:
        if self.crashed:
            return
        if self.renewer is None:
            # Like a thread or a task: it begins when whoever roused it has gone on to wait.
            self.timeline.at(self.timeline.now, self._start_renewer)
        else:
            self.timeline.at(self.timeline.now, lambda: self._ring(RENEWER))

    def _start_renewer(self) -> None:
        if self.renewer is None and not self.crashed:
            self.renewer = self.start(renew_for_ever(self.world))

    def _new_holder(self) -> str:
        self._holders += 1
        return f"{self.name}/{self._holders}"

    def _emit(self, event: object) -> None:
        self.events.append(event)
        self.timeline.note(f"{self.name}: {event}")


def claim(name: str, ttl: float, *, renew: bool = True, max_hold: float | None = None) -> Claim:
    """What a `Lock` would ask for."""
    return Claim(name, "", ttl, renew, max_hold, 0.1, node_timeout(ttl), ttl)
