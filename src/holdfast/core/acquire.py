"""Getting a lock: try, wait for a wake-up, try again, give up in time.

What can happen at any yield below, and what then:

- The reply is lost or late (`Failed`): the outcome is unknown, so the next try asks with the same
  holder id, which finds its own grant again. (Over a quorum each try releases its own; so each has
  its own id: see `messages.ATTEMPT`.)
- The grant arrives after its ttl: the same.
- The caller is interrupted or cancelled, or its client is closed: the holder id is abandoned, and
  all that the engine has of it is released (`release.abandon`).
- The engine fails until the end: the same, by `Contender.give_up`.
- A wake-up is lost: the wait ends when the holder's lease does. That costs time, not liveness.
- A wake-up comes just as the caller gives up: the release passes the offer on to the next waiter.
- The client is closed while the grant is on its way: it is not taken (`ClientClosed`).
"""

from dataclasses import dataclass
from math import inf

from holdfast.core.effects import (
    LONGEST_PAUSE,
    Ask,
    Sleep,
    Steps,
    Wait,
    ask,
    pause_after,
    spread,
)
from holdfast.core.holding import plan_renewal, release_later, unavailable, wake_loops
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.messages import OFFER, Acquire, Answer, Failed, Granted, Held, Release
from holdfast.core.release import abandon
from holdfast.core.runtime import Runtime
from holdfast.errors import ClientClosed, EngineUnavailable
from holdfast.events import Acquired, AcquireFailed, NotAcquired, Requested, Waiting

SHORTEST_WAIT = 0.001

FAILING_TIMEOUT = 0.1
"""How long to wait for the confirmation of a release by an engine that has not been answering."""

REPORT_AFTER = 1.0
"""How long an acquire fails before that is reported, from when its request left."""

ENOUGH_TIME = 0.25
"""If the last try had less time than this before the timeout, its failure proves nothing: the lock
counts as held by another client if it was before."""


def acquire(
    runtime: Runtime, spec: LockSpec, holder: str, timeout: float | None
) -> Steps[LeaseState | None]:
    """Get the lock; None if another holder has it until `timeout` (0: try once; None: no limit)."""
    contender = Contender(runtime, spec, holder, timeout)
    try:
        if runtime.joins_at_once and timeout != 0:
            contender.join()
        while True:
            [answer] = yield contender.request()
            outcome = contender.outcome(answer)
            if isinstance(outcome, LeaseState):
                return outcome
            if runtime.clock() < outcome.give_up_at:
                yield from contender.pause(outcome)
                if runtime.clock() < outcome.give_up_at:
                    continue
            yield from contender.give_up(outcome)
            contender.report_failure("timeout")
            return None
    except EngineUnavailable:
        contender.report_failure("unavailable")
        raise  # nothing is left, or the renewer knows of it
    except BaseException:
        abandon(runtime, spec, holder)
        contender.report_failure("interrupted")
        raise
    finally:
        if contender.queue:
            runtime.unsubscribe(holder)


@dataclass(slots=True)
class Busy:
    """Another client holds it. `until`: asking again before is pointless, unless notified."""

    until: float
    give_up_at: float


@dataclass(slots=True)
class Failing:
    """The engine did not answer, or not in time. `until`: when to try again."""

    until: float
    give_up_at: float
    answer: Answer


class Contender:
    """One caller that wants the lock."""

    tries = 0
    began = -inf
    """When the last try left."""
    queue = False
    """Whether to ask for a place in the queue."""
    is_waiting = False
    """Whether it was given a place in the queue."""
    needs_cleanup = False
    """Whether the engine may have something of ours: a place in the queue, or an unknown grant."""
    was_busy = False
    """Whether another client had the lock, by the last answer that counts (see `ENOUGH_TIME`)."""
    failing_since = inf
    """When the engine began to fail; infinite if it does not fail."""
    failures = 0
    """In a row."""

    def __init__(
        self, runtime: Runtime, spec: LockSpec, holder: str, timeout: float | None
    ) -> None:
        self.runtime = runtime
        self.spec = spec
        self.holder = holder
        self.timeout = timeout
        self.asked_at = runtime.clock()
        self.give_up_at = inf if timeout is None else self.asked_at + timeout
        self.is_reported = runtime.has_hooks
        """Whether there are hooks that wait for the end of this."""
        if self.is_reported:
            runtime.emit(Requested(spec.name, holder, spec.shares, timeout))

    def join(self) -> None:
        """Ask for a place in the queue from now on."""
        self.queue = True
        self.runtime.subscribe(self.holder)

    def request(self) -> Ask:
        """The next try."""
        spec = self.spec
        self.began = self.runtime.clock()
        until = self.began + spec.request_timeout
        if self.timeout:
            until = min(until, self.give_up_at)
        request = Acquire(
            spec.key,
            self.holder,
            spec.ttl,
            queue=self.queue,
            tries=self.tries,
            once=self.timeout == 0,
            shares=spec.shares,
        )
        self.tries += 1
        return Ask((request,), until)

    def outcome(self, answer: Answer) -> LeaseState | Busy | Failing:
        """What the answer to that try means."""
        if type(answer) is Granted:
            lease = self._take(answer)
            if lease is not None:
                return lease
            took = self.runtime.clock() - self.began
            answer = Failed.at("engine", f"took {took:.3f} s to answer")
        if type(answer) is Held:
            return self._busy(answer)
        return self._failing(answer)

    def _take(self, granted: Granted) -> LeaseState | None:
        """The lease for a grant; None if the grant came too late."""
        runtime, spec, began = self.runtime, self.spec, self.began
        ttl = granted.ttl or spec.ttl
        hold_until = inf if spec.max_hold is None else began + spec.max_hold
        valid_until = min(began + ttl - runtime.drift(ttl), hold_until)
        lease = LeaseState(
            spec,
            granted.holder or self.holder,
            granted.fence,
            valid_until,
            hold_until,
            ttl,
        )
        plan_renewal(lease, began)
        with runtime.mutex:
            if runtime.closed:
                raise ClientClosed
            now = runtime.clock()
            if now >= valid_until:
                return None
            if spec.min_hold:
                lease.keep_until = now + spec.min_hold
            runtime.registry.add(lease)
            wake_loops(runtime, lease)
        if self.is_reported:
            self.is_reported = False
            lease.acquired_at = now
            waited = now - self.asked_at
            runtime.emit(Acquired(spec.name, lease.holder, lease.fence, spec.shares, waited))
        return lease

    def _busy(self, held: Held) -> Busy:
        self.was_busy, self.failing_since, self.failures = True, inf, 0
        now = self.runtime.clock()
        if not self.queue:
            if self.give_up_at > now:
                self.join()
            return Busy(now, self.give_up_at)  # ask again at once, for a place in the queue
        if not self.is_waiting:
            self.is_waiting = self.needs_cleanup = True
            if self.is_reported:
                self.runtime.emit(Waiting(self.spec.name, self.holder, held.remaining))
        pause = held.remaining
        if not held.wakes:
            pause = min(pause, spread(self.spec.retry, self.runtime.uniform))
        return Busy(now + max(pause, SHORTEST_WAIT), self.give_up_at)

    def _failing(self, answer: Answer) -> Failing:
        now = self.runtime.clock()
        self.needs_cleanup = True
        if self.give_up_at - self.began >= ENOUGH_TIME:
            self.was_busy = False
        self.failing_since = min(self.failing_since, now)
        heals_in = answer.heals_in if isinstance(answer, Failed) else None
        if heals_in == inf:
            return Failing(now, now, answer)
        give_up_at = self.give_up_at
        if self.timeout is None:
            heals_at = now + heals_in if heals_in else self.failing_since
            give_up_at = heals_at + self.spec.ttl
        if now - min(self.failing_since, self.began) >= REPORT_AFTER and now < give_up_at:
            self.runtime.emit(AcquireFailed(self.spec.name, give_up_at - now, str(answer)))
        # A waiter asks again before an offer to it would lapse.
        longest = OFFER / 2 if self.is_waiting else LONGEST_PAUSE
        pause = pause_after(self.failures, self.runtime.uniform, longest=longest)
        self.failures += 1
        return Failing(now + pause, give_up_at, answer)

    def report_failure(self, why: str) -> None:
        """The lock was not acquired."""
        if self.is_reported:
            waited = self.runtime.clock() - self.asked_at
            self.runtime.emit(NotAcquired(self.spec.name, self.holder, waited, why))

    def pause(self, outcome: Busy | Failing) -> Steps[None]:
        """Wait until it is time to ask again, or for a notification. While the engine fails, a
        notification ends nothing: each failure may wake all waiters."""
        until = min(outcome.until, outcome.give_up_at)
        if self.runtime.clock() < until:
            is_notified = self.queue and isinstance(outcome, Busy)
            yield Wait(self.holder, until) if is_notified else Sleep(until)

    def give_up(self, outcome: Busy | Failing) -> Steps[None]:
        """Leave nothing behind; raise if the engine did not answer in the end.

        The release is sent at once: an engine that only hangs carries it out after the request. If
        the engine fails, its answer is not awaited for long, and the renewer sends it again.
        """
        runtime, spec = self.runtime, self.spec
        failing = isinstance(outcome, Failing)
        if self.needs_cleanup:
            timeout = (
                min(spec.request_timeout, FAILING_TIMEOUT) if failing else spec.request_timeout
            )
            release = Release(spec.key, self.holder, shares=spec.shares)
            [answer] = yield ask(release, runtime.clock() + timeout)
            if type(answer) is Failed:
                with runtime.mutex:
                    release_later(runtime, spec, self.holder)
        if isinstance(outcome, Failing) and not self.was_busy:
            refused = isinstance(outcome.answer, Failed) and outcome.answer.heals_in == inf
            state = "cannot be used like this" if refused else "is unreachable"
            raise unavailable(
                f"{spec.name!r} was not acquired, since the engine ({runtime.engine}) {state}; "
                "`holdfast doctor` examines it",
                outcome.answer,
            )
