"""The renewer: one endless algorithm for all leases of a client.

1. A lease is renewed a third of its ttl after the last renewal, so two may fail before it is late.
2. Renewals of one ttl fall on a common grid, so that they go out together, in one batch.
3. No request is waited for beyond the first deadline of *any* lease: its holder is told there and
   then, not when a slow engine has answered about another one.
4. A failed renewal is tried again until the deadline; "not yours" is a loss at once.
5. `max_hold` ends renewal: the last one is cut to what is left.
6. What could not be given back is tried again, now and then, until the client is closed.
"""

from functools import lru_cache
from math import inf

from holdfast.core.effects import Ask, NotifyLost, Steps, Subscribe, Wait
from holdfast.core.holding import give_back_again, settle_extension
from holdfast.core.lease_state import EXPIRED, LeaseState
from holdfast.core.messages import Answer, Extend, Failed
from holdfast.core.runtime import Runtime
from holdfast.events import Lost, RenewalFailed

RENEWER = "renewer"
"""The renewer's own ticket for wake-ups."""

GRID = 10
"""Grid points to an interval between two renewals."""

MANY = 200
"""So many renewals together may take as long as one, and more in proportion."""

BATCH = 1000
"""Renewals in one request; more would hold up those behind it."""


def renew_for_ever(runtime: Runtime) -> Steps[None]:
    """Renew what is due, tell of what is lost, sleep until there is more to do."""
    schedule = runtime.schedule
    try:
        yield Subscribe(RENEWER)
        with runtime.mutex:
            schedule.put_back()  # what an earlier renewer, that failed, had in hand
        while True:
            yield from _look_once(runtime)
    finally:
        schedule.asleep_until = inf  # whoever takes a lease now must start another renewer


def _look_once(runtime: Runtime) -> Steps[None]:
    schedule = runtime.schedule
    with runtime.mutex:
        now = runtime.clock()
        schedule.asleep_until = -inf
        due = [t for t in schedule.due(now, BATCH) if not _ended(runtime, t, now)]
    yield from _tell(runtime)
    if due:
        yield from _renew(runtime, due)
    del due  # or this frame would keep an abandoned lease alive
    with runtime.mutex:
        schedule.put_back()
    yield from give_back_again(runtime)
    with runtime.mutex:
        wake_at = schedule.fall_asleep()
    if wake_at > runtime.clock():
        yield Wait(RENEWER, wake_at)


def plan_renewal(tenure: LeaseState, began: float) -> None:
    """Set the instant of the next renewal, given when the last one began."""
    spec = tenure.spec
    if spec.renew and tenure.valid_until < tenure.hold_until:
        interval = spec.ttl / 3
        tenure.renew_at = _grid_point(began // (interval / GRID), interval)
    else:
        tenure.renew_at = inf


@lru_cache(64)
def _grid_point(number: float, interval: float) -> float:
    """An interval after a point of the grid: one object, for all leases that are renewed then."""
    return number * (interval / GRID) + interval


def _ended(runtime: Runtime, tenure: LeaseState, now: float) -> bool:
    if now < tenure.valid_until:
        return False
    tenure.lose(EXPIRED)
    runtime.schedule.lost(tenure)
    return True


def _tell(runtime: Runtime) -> Steps[None]:
    unnotified = runtime.schedule.unnotified
    while unnotified:
        tenure = unnotified.popleft()
        runtime.emit(Lost(tenure.spec.name, tenure.fence, tenure.why))
        if tenure.watchers:
            yield NotifyLost(tenure.watchers)


def _renew(runtime: Runtime, batch: list[LeaseState]) -> Steps[None]:
    began = runtime.clock()
    asked = [(tenure, _extension(runtime, tenure, began)) for tenure in batch]
    wanted = [(tenure, ttl) for tenure, ttl in asked if ttl > 0]
    if wanted:
        # A node that answers one in time may need longer for a thousand.
        request_timeout = max(tenure.spec.request_timeout for tenure, _ in wanted)
        until = began + request_timeout * max(1.0, len(wanted) / MANY)
        with runtime.mutex:
            until = min(until, runtime.schedule.first_deadline())
        requests = tuple(Extend(t.spec.key, t.holder, ttl, t.fence) for t, ttl in wanted)
        answers = yield Ask(requests, until)
        for (tenure, ttl), answer in zip(wanted, answers, strict=True):
            settle_extension(runtime, tenure, answer, began, ttl)
            _plan(runtime, tenure, answer, began)


def _extension(runtime: Runtime, tenure: LeaseState, now: float) -> float:
    """For how long to renew; 0 for not at all."""
    if now < tenure.renew_at:
        return 0.0  # its end has been moved since it was put on the schedule
    left = tenure.hold_until - now
    if left >= tenure.spec.ttl:
        return tenure.spec.ttl
    if left < runtime.min_ttl:
        tenure.renew_at = inf
        return 0.0
    return left


def _plan(runtime: Runtime, tenure: LeaseState, answer: Answer, began: float) -> None:
    if type(answer) is not Failed:
        plan_renewal(tenure, began)
        return
    now = runtime.clock()
    interval = tenure.spec.ttl / 3
    tenure.renew_at = now + runtime.uniform(interval / 20, interval / 10)
    left = tenure.remaining(now)
    runtime.emit(RenewalFailed(tenure.spec.name, tenure.fence, left, str(answer)))
