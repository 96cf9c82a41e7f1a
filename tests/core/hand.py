"""A runtime in one's hand: its clock stands until it is set, and a test answers each effect."""

from contextlib import nullcontext
from math import inf
from typing import Any

from holdfast.core.effects import Steps
from holdfast.core.holding import wake_loops
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.messages import Answer, Failed, Release
from holdfast.core.runtime import Runtime

NOW = 100.0
TTL, DRIFT, PATIENCE, RETRY = 15.0, 0.25, 2.0, 1.0
MIN_TTL = 0.5
BROKEN = Failed.at("node", "the connection was closed")


class Hand:
    """The surroundings of one client. Chance always draws the greatest number."""

    def __init__(self) -> None:
        self.now = NOW
        self.events: list[object] = []
        self.subscribed: list[str] = []
        self.unsubscribed: list[str] = []
        self.woken: list[str] = []
        """The loops that were woken, in order."""
        self.lost: list[LeaseState] = []
        self._leases: list[LeaseState] = []  # what nobody can reach is not renewed
        self.runtime = Runtime(
            clock=lambda: self.now,
            uniform=lambda low, high: high,
            new_holder=lambda _: "me",
            emit=self.events.append,
            mutex=nullcontext(),
            drift=lambda ttl: DRIFT,
            min_ttl=MIN_TTL,
            ttl_step=0.0,
            subscribe=self.subscribed.append,
            unsubscribe=self.unsubscribed.append,
            wake=self.woken.append,
            notify_lost=self.lost.append,
        )

    def play(self, steps: Steps[Any]) -> "Play":
        """Begin an algorithm."""
        return Play(self, steps)

    def lease(
        self,
        until: float = NOW + TTL,
        hold_until: float = NOW + 1000,
        renew_at: float = inf,
        holder: str = "me",
        **asked: Any,
    ) -> LeaseState:
        """A lease that is held, and registered."""
        made = LeaseState(spec(**asked), holder, 7, until, hold_until)
        made.renew_at = renew_at
        self._leases.append(made)
        self.runtime.registry.add(made)
        wake_loops(self.runtime, made)
        return made

    @property
    def pending(self) -> list[Release]:
        """The releases that the renewer would send now."""
        return self.runtime.pending.due(self.now, 1000)


class Play:
    """One algorithm under way: `effect` is what it wants; `result` or `error`, what it came to."""

    def __init__(self, hand: Hand, steps: Steps[Any]) -> None:
        self._hand, self._steps = hand, steps
        self.effect: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self._over = False
        self.goes_on(None)

    def hears(self, *answers: Answer, at: float | None = None) -> "Play":
        """The engine answers, at that instant."""
        return self.goes_on(list(answers), at=at)

    def goes_on(self, result: object = None, *, at: float | None = None) -> "Play":
        """What it wanted has been done, by that instant."""
        if at is not None:
            self._hand.now = at
        return self._step(lambda: self._steps.send(result))

    def interrupt(self, error: BaseException) -> "Play":
        """Throw something in."""
        return self._step(lambda: self._steps.throw(error))

    def _step(self, step: Any) -> "Play":
        assert not self._over, "it wants nothing any more"
        try:
            self.effect = step()
        except StopIteration as stop:
            self._over, self.effect, self.result = True, None, stop.value
        except BaseException as error:
            self._over, self.effect, self.error = True, None, error
        return self


def spec(
    name: str = "job",
    ttl: float = TTL,
    *,
    renew: bool = True,
    max_hold: float | None = None,
    request_timeout: float = PATIENCE,
) -> LockSpec:
    """What a `Lock` would ask for."""
    return LockSpec(f"p:{name}", "p:", ttl, renew, max_hold, RETRY, request_timeout)
