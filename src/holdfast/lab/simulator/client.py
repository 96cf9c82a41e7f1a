"""A client of virtual servers, on a clock of its own; it can be paused."""

from collections.abc import Callable
from math import inf
from typing import Any

from holdfast.core.effects import Ask, Effect, Sleep, Steps
from holdfast.core.lease_state import LeaseState
from holdfast.core.release import lose_all, send_last
from holdfast.lab.simulator.driver import (
    BaseClient,
    CancelledError,
    Clock,
    Process,
    Resumption,
)
from holdfast.lab.simulator.engines import SimulatedEngine
from holdfast.lab.simulator.store import Wiring

CLOSE_TIMEOUT = 10.0
"""Seconds for the last releases of a client that is closed, as in the drivers."""

LOOK_AGAIN = 0.05
"""Seconds until a client that is closed looks again whether its tasks have ended."""

NEVER_EARLY = 1e-9
"""So that a timer never comes before its time, however instants are rounded."""


class Client(BaseClient):
    """One process of a user's."""

    def __init__(
        self,
        name: str,
        engine: SimulatedEngine,
        wiring: Wiring,
        look: Callable[["Client"], None],
        internal_error: Callable[[str], None],
    ) -> None:
        self.own_clock = Clock(wiring.network.timeline)
        self.engine = engine
        super().__init__(name, wiring.network.timeline, engine.drift, engine.min_ttl)
        self.runtime.ttl_step = engine.ttl_step
        self.leases: dict[str, LeaseState] = {}
        """Its leases, by the hold's name in the history."""
        self.beliefs: dict[str, float] = {}
        """The end of each lease, as of the last step."""
        self._look = look
        self._internal_error = internal_error
        self.pauses = 0
        """How many faults pause it now."""
        self.resumed_at = -inf
        """When it last went on after a pause."""
        self._timers: list[Callable[[], None]] = []
        self._arrivals: list[Callable[[], None]] = []
        self.store = engine.store(self, wiring)

    def next_holder(self) -> str:
        """The holder id that will be used next. No two clients have the same secret."""
        return f"{self.name}/1/lab/{self.number:016x}{self._holders + 1:016x}"

    def _new_holder(self, label: str = "") -> str:
        holder = self.next_holder()
        self._holders += 1
        return holder

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.pauses > 0

    def clock(self) -> float:
        """The time of its clock."""
        return self.own_clock()

    def at(self, instant: float, action: Callable[[], None]) -> None:
        """Do something at an instant of its clock, or when it resumes after that."""
        true = self.own_clock.true(instant) + NEVER_EARLY
        self.timeline.at(true, lambda: self._do(action, self._timers))

    def arrives(self, action: Callable[[], None]) -> Callable[[], None]:
        """Wrap a message: it is read now, or when the client resumes."""
        return lambda: self._do(action, self._arrivals)

    def ask(self, ask: Ask, resume: Resumption) -> None:
        """Ask the nodes."""
        self.store.ask(ask.requests, ask.until, resume)

    def perform(self, effect: Effect, resume: Resumption) -> None:
        """Check the leases after each step; then perform the effect."""
        self._look(self)
        super().perform(effect, resume)

    def ended(self, process: Process[Any]) -> None:
        """Check the leases, and report an error that no algorithm may raise."""
        super().ended(process)
        if self.crashed:
            return
        self._look(self)
        if process.error is not None and not isinstance(process.error, CancelledError):
            self._internal_error(f"{self.name}: {process.error!r}")

    def fails(self, error: Exception) -> None:
        """Report an error that must not happen."""
        self._internal_error(f"{self.name}: {error!r}")

    def pause(self) -> None:
        """Pause: timers and messages wait."""
        self.pauses += 1

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
        """Stop everything at once; the kernel closes its connections."""
        super().crash()
        self.store.crash()

    def close(self) -> None:
        """Close it: its leases are lost, what is under way ends, and then its connections."""
        if self.crashed or self.runtime.closed:
            return
        lose_all(self.runtime)
        for loop in self.loops:
            self.notify(loop)
        for process in self._tasks():
            process.cancel()
        self.start(self._finish(self._tasks()))

    def _finish(self, tasks: list[Process[Any]]) -> Steps[None]:
        while any(not task.done for task in tasks):
            yield Sleep(self.clock() + LOOK_AGAIN)
        yield from send_last(self.runtime, self.clock() + CLOSE_TIMEOUT)
        self.store.close()

    def _tasks(self) -> list[Process[Any]]:
        return [process for process in self.processes if process not in self.loops.values()]

    def _do(self, action: Callable[[], None], missed: list[Callable[[], None]]) -> None:
        if self.crashed:
            return
        if self.pauses:
            missed.append(action)
        else:
            action()
