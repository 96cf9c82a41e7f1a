"""The driver for virtual time: performs each effect on a `Timeline`, over a network that fails.

A `VirtualClient` is to the core what `Client` is: a runtime, two loops, notifications. Its
algorithms run as `Process`es, which can be cancelled (the algorithm ends, and what it left is
released); a client can crash (nothing is).
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.core.effects import Ask, Effect, Steps, Wait
from holdfast.core.lease_state import LeaseState, LockSpec, node_timeout
from holdfast.core.messages import Acquire, Answer, Failed, Request
from holdfast.core.ports import Engine
from holdfast.core.renewal import renew_forever, watch_deadlines
from holdfast.core.runtime import RENEWER, Runtime
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

    def execute(self, requests: tuple[Request, ...], notify: Callable[[str], None]) -> list[Answer]:
        """Carry out requests at the present instant."""
        answers: list[Answer] = []
        for request in requests:
            self.asked.append(request)
            if isinstance(request, Acquire) and request.queue:
                self.bells[request.holder] = notify
            answers.append(self.table.answer(request, self.timeline.now))
            self.timeline.note(f"{request} -> {answers[-1]}")
        for holder in self.table.to_wake:
            bell = self.bells[holder]
            Link(self.network).send(lambda bell=bell, holder=holder: bell(holder))  # type: ignore[misc]
        self.table.to_wake.clear()
        return answers


class Process(Generic[T]):
    """One algorithm under way."""

    def __init__(self, client: "Body", steps: Steps[T]) -> None:
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

    def resume(self) -> "Resumption":
        """How to go on with a result, once, unless the process has moved on since."""
        return Resumption(self, self._waiting)

    def awaits(self, waiting: int) -> bool:
        """Whether it still waits for what it waited for then."""
        return waiting == self._waiting and not self.done

    def go_on(self, result: object) -> None:
        """Send a result in."""
        self._waiting += 1
        self._go_on(lambda: self.steps.send(result))

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
        self.client.ended(self)


class Resumption:
    """How a process goes on with the result of an effect, if it still wants it."""

    __slots__ = ("_process", "_waiting")

    def __init__(self, process: Process[Any], waiting: int) -> None:
        self._process = process
        self._waiting = waiting

    @property
    def wanted(self) -> bool:
        """Whether the process has not moved on, by being cancelled."""
        return self._process.awaits(self._waiting)

    def __call__(self, result: object) -> None:
        """Go on with it."""
        if self.wanted:
            self._process.go_on(result)


class Body:
    """A client on a timeline, but for the way to its engine."""

    def __init__(
        self, name: str, timeline: Timeline, drift: Callable[[float], float], min_ttl: float
    ) -> None:
        self.name = name
        self.timeline = timeline
        self.crashed = False
        self.processes: list[Process[Any]] = []
        self.notifications: dict[str, Callable[[object], None] | bool] = {}
        """For each waiter id: who waits, or whether it was notified meanwhile."""
        self.loops: dict[str, Process[None]] = {}
        self.events: list[object] = []
        self._holders = 0
        self.runtime = Runtime(
            clock=self.clock,
            uniform=timeline.random.uniform,
            new_holder=self._new_holder,
            emit=self._emit,
            mutex=nullcontext(),
            drift=drift,
            min_ttl=min_ttl,
            ttl_step=0.0,
            subscribe=self._subscribe,
            unsubscribe=self._unsubscribe,
            wake=self._wake,
            notify_lost=self._notify_lost,
        )

    def clock(self) -> float:
        """What its clock says."""
        return self.timeline.now

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something when its clock says so."""
        self.timeline.at(instant, action)

    def ask(self, ask: Ask, resume: "Resumption") -> None:
        """Ask the engine."""
        raise NotImplementedError

    def start(self, steps: Steps[T]) -> Process[T]:
        """Set an algorithm going."""
        return Process(self, steps)

    def ended(self, process: Process[Any]) -> None:
        """An algorithm has come to its end."""
        self.processes.remove(process)

    def crash(self) -> None:
        """Stop everything at once; nothing is cleaned up, nothing more is heard."""
        self.timeline.note(f"{self.name} crashes")
        self.crashed = True
        self.notifications.clear()
        for process in list(self.processes):
            process.crash()

    def cancel_one(self) -> None:
        """Cancel whatever it has been doing for longest, the renewer aside."""
        for process in self.processes:
            if process not in self.loops.values():
                process.cancel()
                return

    def perform(self, effect: Effect, resume: Resumption) -> None:
        """Arrange for `resume` to be called with the effect's result."""
        if isinstance(effect, Ask):
            self.ask(effect, resume)
        elif isinstance(effect, Wait):
            self._wait(effect, resume)
        else:
            self.at(effect.until, lambda: resume(None))

    def _wait(self, wait: Wait, resume: Resumption) -> None:
        def time_out() -> None:
            if self.notifications.get(wait.waiter_id) is resume:
                self.notifications[wait.waiter_id] = False
            resume(False)

        if self.notifications[wait.waiter_id]:
            self.notifications[wait.waiter_id] = False
            resume(True)
        else:
            self.notifications[wait.waiter_id] = resume
            self.at(wait.until, time_out)

    def notify(self, waiter_id: str, word: object = None) -> None:
        """Wake whoever waits with this id."""
        waiter = self.notifications.get(waiter_id)
        if callable(waiter):
            self.notifications[waiter_id] = False
            waiter(True)
        elif waiter is not None:
            self.notifications[waiter_id] = True

    def _subscribe(self, waiter_id: str) -> None:
        self.notifications[waiter_id] = False

    def _unsubscribe(self, waiter_id: str) -> None:
        self.notifications.pop(waiter_id, None)

    def _notify_lost(self, lease: LeaseState) -> None:
        for callback in lease.callbacks:
            callback()

    def _wake(self, loop: str) -> None:
        if self.crashed:
            return
        if loop not in self.loops or self.loops[loop].done:
            # Like a thread or a task: it begins when whoever woke it has gone on to wait.
            self.at(self.clock(), lambda: self._start_loop(loop))
        else:
            self.at(self.clock(), lambda: self.notify(loop))

    def _start_loop(self, loop: str) -> None:
        if (loop not in self.loops or self.loops[loop].done) and not self.crashed:
            self._subscribe(loop)
            steps = renew_forever if loop == RENEWER else watch_deadlines
            self.loops[loop] = self.start(steps(self.runtime))

    def _new_holder(self) -> str:
        self._holders += 1
        return f"{self.name}/{self._holders}"

    def _emit(self, event: object) -> None:
        self.events.append(event)
        self.timeline.note(f"{self.name}: {event}")


class VirtualClient(Body):
    """A client of one virtual node."""

    def __init__(self, name: str, node: VirtualNode, engine: Engine) -> None:
        super().__init__(name, node.timeline, engine.drift, engine.guarantees.min_ttl)
        self.node = node
        self._requests, self._replies = Link(node.network), Link(node.network)

    def ask(self, ask: Ask, resume: Resumption) -> None:
        """Ask the node, which may not hear it, or not be heard."""

        def arrive() -> None:
            if self.node.up:
                answers = self.node.execute(ask.requests, self.notify)
                self._replies.send(lambda: resume(answers))

        def give_up() -> None:
            resume([Failed.at("node", "no answer")] * len(ask.requests))

        self._requests.send(arrive)
        self.timeline.at(ask.until, give_up)


def spec(name: str, ttl: float, *, renew: bool = True, max_hold: float | None = None) -> LockSpec:
    """What a `Lock` would ask for."""
    return LockSpec(name, "", ttl, renew, max_hold, 0.1, node_timeout(ttl))
