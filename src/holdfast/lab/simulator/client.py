"""A client on virtual time: to the core it is what `Client` is, a runtime, two loops and
notifications. It has a clock of its own, and can be paused, closed and crashed."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import inf
from typing import Any, TypeVar

from holdfast.core.effects import Ask, Effect, Sleep, Steps, Wait
from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import Acquire, Extend, holder_of
from holdfast.core.release import lose_all, send_last
from holdfast.core.renewal import renew_forever, watch_deadlines
from holdfast.core.runtime import RENEWER, Runtime
from holdfast.lab.simulator.driver import CancelledError, Clock, Process, Resumption, Timeline
from holdfast.lab.simulator.network import Wire

T = TypeVar("T")

CLOSE_TIMEOUT = 10.0
"""Seconds for the last releases of a client that is closed, as in the drivers."""

LOOK_AGAIN = 0.05
"""Seconds until a client that is closed looks again whether its tasks have ended."""

NEVER_EARLY = 1e-9
"""So that a timer never comes before its time, however instants are rounded."""


class Client:
    """One process of a user's."""

    store: Any
    """What it asks, and its connections: a `Store`."""

    def __init__(
        self,
        name: str,
        timeline: Timeline,
        drift: Callable[[float], float],
        min_ttl: float,
        ttl_step: float = 0.0,
    ) -> None:
        self.name = name
        self.timeline = timeline
        self.own_clock = Clock(timeline)
        self.calendar = 0.0
        """By how many seconds its wall clock is wrong."""
        self.crashed = False
        self.pauses = 0
        """How many faults pause it now."""
        self.resumed_at = -inf
        """When it last went on after a pause."""
        self.processes: list[Process[Any]] = []
        self.notifications: dict[str, Callable[[object], None] | bool] = {}
        """For each waiter id: how the waiter goes on, or whether it was notified meanwhile."""
        self.loops: dict[str, Process[None]] = {}
        self.events: list[object] = []
        self.wires: list[tuple[Wire, Wire]] = []
        """To each server, and back."""
        self.look: Callable[[], None] = lambda: None
        """Called after each step."""
        self.sent: Callable[[Sequence[Any]], None] = lambda requests: None
        """Called with the requests that it sends."""
        self.asked_at: dict[tuple[str, type], float] = {}
        """By holder and kind of request, when it last asked its store."""
        self.internal_error: Callable[[str], None] = lambda text: None
        """Called with what must not happen."""
        self._holders = 0
        self._timers: list[Callable[[], None]] = []
        self._arrivals: list[Callable[[], None]] = []
        self.runtime = Runtime(
            clock=self.clock,
            uniform=timeline.random.uniform,
            new_holder=self._new_holder,
            emit=self.events.append,
            mutex=nullcontext(),
            drift=drift,
            min_ttl=min_ttl,
            ttl_step=ttl_step,
            subscribe=self._subscribe,
            unsubscribe=self._unsubscribe,
            wake=self._wake,
            notify_lost=self._notify_lost,
        )

    @property
    def number(self) -> int:
        """Which client it is: 2 for c2."""
        return int(self.name[1:])

    @property
    def tasks(self) -> list[Process[Any]]:
        """Its algorithms, the renewer and the watcher aside; the oldest first."""
        return [process for process in self.processes if process not in self.loops.values()]

    def next_holder(self) -> str:
        """The holder id that will be used next. No two clients have the same secret."""
        return f"{self.name}/1/lab/{self.number:016x}{self._holders + 1:016x}"

    def clock(self) -> float:
        return self.own_clock()

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something at an instant of its clock, or when it resumes after that."""
        true = self.own_clock.true(instant) + NEVER_EARLY
        self.timeline.at(true, lambda: self._do(action, self._timers))

    def arrives(self, action: Callable[[], None]) -> Callable[[], None]:
        """Wrap a message: it is read now, or when the client resumes."""
        return lambda: self._do(action, self._arrivals)

    def start(self, steps: Steps[T]) -> Process[T]:
        process = Process(steps, self.perform, self.ended)
        self.processes.append(process)
        process.begin()
        return process

    def ended(self, process: Process[Any]) -> None:
        """An algorithm has ended. Check the leases, and report an error that none may raise."""
        self.processes.remove(process)
        if self.crashed:
            return
        self.look()
        if process.error is not None and not isinstance(process.error, CancelledError):
            self.fails(process.error)

    def fails(self, error: BaseException) -> None:
        self.internal_error(f"{self.name}: {error!r}")

    def cancel_one(self) -> None:
        for process in self.tasks[:1]:
            process.cancel()

    def go_on(self, *, timers_first: bool) -> None:
        """Resume: run the timers and read the messages that waited."""
        self.pauses -= 1
        if self.pauses:
            return
        self.resumed_at = self.timeline.now
        timers, self._timers = self._timers, []
        arrivals, self._arrivals = self._arrivals, []
        for action in (*timers, *arrivals) if timers_first else (*arrivals, *timers):
            self._do(action, self._timers)

    def crash(self) -> None:
        """Stop everything at once: nothing is cleaned up, nothing more is received, and the kernel
        closes its connections."""
        self.crashed = True
        self.notifications.clear()
        for process in list(self.processes):
            process.crash()
        self.store.crash()

    def close(self) -> None:
        """Close it: its leases are lost, what is under way ends, and then its connections."""
        if self.crashed or self.runtime.closed:
            return
        lose_all(self.runtime)
        for loop in self.loops:
            self.notify(loop)
        for process in self.tasks:
            process.cancel()
        self.start(self._finish(self.tasks))

    def _finish(self, tasks: list[Process[Any]]) -> Steps[None]:
        while any(not task.done for task in tasks):
            yield Sleep(self.clock() + LOOK_AGAIN)
        yield from send_last(self.runtime, self.clock() + CLOSE_TIMEOUT)
        self.store.close()

    def perform(self, effect: Effect, resume: Resumption) -> None:
        """Check the leases after each step; then perform an effect, and call `resume` with its
        result."""
        self.look()
        if isinstance(effect, Ask):
            self.ask(effect, resume)
        elif isinstance(effect, Wait):
            self._wait(effect, resume)
        else:
            self.at(effect.until, lambda: resume(None))

    def ask(self, ask: Ask, resume: Resumption) -> None:
        for request in ask.requests:
            if isinstance(request, (Acquire, Extend)):
                self.asked_at[holder_of(request.holder), type(request)] = self.timeline.now
        self.store.ask(ask.requests, ask.until, resume)

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

    def notify(self, waiter_id: str) -> None:
        """Wake the waiter with this id."""
        waiter = self.notifications.get(waiter_id)
        if callable(waiter):
            self.notifications[waiter_id] = False
            waiter(True)
        elif waiter is not None:
            self.notifications[waiter_id] = True

    def notify_all(self) -> None:
        """Wake every waiter."""
        for waiter_id in list(self.notifications):
            self.notify(waiter_id)

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
        holder = self.next_holder()
        self._holders += 1
        return holder

    def _do(self, action: Callable[[], None], missed: list[Callable[[], None]]) -> None:
        if self.crashed:
            return
        if self.pauses:
            missed.append(action)
        else:
            action()
