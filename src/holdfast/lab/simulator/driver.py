"""The driver for virtual time: performs each effect of an algorithm on a `Timeline`.

A client is to the core what `Client` is: a runtime, two loops, notifications. Its algorithms run as
`Process`es, which can be cancelled (the algorithm ends, and its cleanup is performed); a client can
crash (nothing is cleaned up). The same seed gives the same run.
"""

from collections.abc import Callable
from contextlib import nullcontext
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any, Generic, TypeVar

from holdfast.core.effects import Ask, Effect, Steps, Wait
from holdfast.core.lease_state import LeaseState
from holdfast.core.renewal import renew_forever, watch_deadlines
from holdfast.core.runtime import RENEWER, Runtime

T = TypeVar("T")


class Timeline:
    """Virtual time: it moves when every process waits. Actions are scheduled on it."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)  # noqa: S311 - to be repeatable, not secret
        self.trace: list[str] = []
        """What happened, in order; equal for equal seeds."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = count()

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something at an instant; at once, if it has passed."""
        if instant < inf:
            heappush(self._heap, (max(instant, self.now), next(self._sequence), action))

    def note(self, text: str) -> None:
        """Write into the trace."""
        self.trace.append(f"{self.now:.6f} {text}")

    def run(self, until: float = inf) -> None:
        """Let time pass until that instant, or until nothing is left to happen."""
        while self._heap and self._heap[0][0] <= until:
            self.run_one()
        if until < inf:
            self.now = max(self.now, until)

    def run_one(self) -> None:
        """Let the next thing happen."""
        self.now, _, action = heappop(self._heap)
        action()


EPOCH = 1_700_000_000.0
"""The calendar time at the beginning of a run."""


class Clock:
    """The clock of a client or a node, which runs fast or slow and can be set."""

    __slots__ = ("_offset", "_rate", "_timeline")

    def __init__(self, timeline: Timeline, rate: float = 1.0, offset: float = 0.0) -> None:
        self._timeline = timeline
        self._rate = rate
        self._offset = offset

    def __call__(self) -> float:
        """Its time now."""
        return self._timeline.now * self._rate + self._offset

    def true(self, instant: float) -> float:
        """The true instant at which this clock shows that one, unless it is set before."""
        return (instant - self._offset) / self._rate

    def run_at(self, rate: float) -> None:
        """Run at this rate from now on."""
        self._offset += self._timeline.now * (self._rate - rate)
        self._rate = rate

    def jump(self, by: float) -> None:
        """Be set forward, or back."""
        self._offset += by


class CancelledError(BaseException):
    """Thrown into a cancelled process; as in asyncio, not an `Exception`."""


class Process(Generic[T]):
    """One algorithm in progress."""

    def __init__(self, client: "BaseClient", steps: Steps[T]) -> None:
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
        """Throw `CancelledError` in, wherever it is; its cleanup is performed."""
        if not self.done:
            self._waiting += 1
            self._go_on(lambda: self.steps.throw(CancelledError()))

    def crash(self) -> None:
        """End it at once; no cleanup is performed."""
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
        except BaseException as error:  # noqa: BLE001 - kept in `error`
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


class BaseClient:
    """A client on a timeline. A subclass has the connection to its engine."""

    def __init__(
        self, name: str, timeline: Timeline, drift: Callable[[float], float], min_ttl: float
    ) -> None:
        self.name = name
        self.timeline = timeline
        self.calendar = 0.0
        """By how many seconds its wall clock is wrong."""
        self.crashed = False
        self.processes: list[Process[Any]] = []
        self.notifications: dict[str, Callable[[object], None] | bool] = {}
        """For each waiter id: how the waiter goes on, or whether it was notified meanwhile."""
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

    @property
    def number(self) -> int:
        """Which client it is: 2 for c2."""
        return int(self.name[1:])

    def clock(self) -> float:
        """The time of its clock."""
        return self.timeline.now

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something at an instant of its clock."""
        self.timeline.at(instant, action)

    def arrives(self, action: Callable[[], None]) -> Callable[[], None]:
        """Wrap a message: it is read now, or when the client can."""
        return action

    def fails(self, error: Exception) -> None:
        """Report an error that must not happen."""
        raise error

    def ask(self, ask: Ask, resume: "Resumption") -> None:
        """Ask the engine."""
        raise NotImplementedError

    def start(self, steps: Steps[T]) -> Process[T]:
        """Set an algorithm going."""
        return Process(self, steps)

    def ended(self, process: Process[Any]) -> None:
        """An algorithm has ended."""
        self.processes.remove(process)

    def crash(self) -> None:
        """Stop everything at once; nothing is cleaned up, nothing more is received."""
        self.timeline.note(f"{self.name} crashes")
        self.crashed = True
        self.notifications.clear()
        for process in list(self.processes):
            process.crash()

    def cancel_one(self) -> None:
        """Cancel its oldest algorithm, the renewer and the watcher aside."""
        for process in self.processes:
            if process not in self.loops.values():
                process.cancel()
                return

    def perform(self, effect: Effect, resume: Resumption) -> None:
        """Perform an effect, and call `resume` with its result."""
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

    def notify(self, waiter_id: str, answer: object = None) -> None:
        """Wake the waiter with this id."""
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
            # Like a thread or a task: it begins when the process that woke it waits.
            self.at(self.clock(), lambda: self._start_loop(loop))
        else:
            self.at(self.clock(), lambda: self.notify(loop))

    def _start_loop(self, loop: str) -> None:
        if (loop not in self.loops or self.loops[loop].done) and not self.crashed:
            self._subscribe(loop)
            steps = renew_forever if loop == RENEWER else watch_deadlines
            self.loops[loop] = self.start(steps(self.runtime))

    def _new_holder(self, label: str = "") -> str:
        self._holders += 1
        return f"{self.name}/{self._holders}"

    def _emit(self, event: object) -> None:
        self.events.append(event)
        self.timeline.note(f"{self.name}: {event}")
