"""The two loops of a client, for all its leases.

The *renewer* sends: renewals, and, when none is due, pending releases.

1. A lease is renewed a third of its ttl after the last renewal, so two may fail before it is late.
2. Renewals of one ttl fall on a common grid, so that they go out together, in one batch.
3. A failed renewal is tried again until the deadline; "not yours" is a loss at once.
4. No answer is awaited for longer than the next lease can wait for its own renewal.
5. `max_hold` ends renewal: the last one is cut to what is left.

The *watcher* waits for deadlines, and sends nothing. So a lease is lost at the very instant when
its time is over, also while the renewer waits for a slow engine.
"""

from math import inf

from holdfast.core.effects import Ask, Steps, Wait
from holdfast.core.holding import cut_to, mark_lost, plan, settle_extension
from holdfast.core.lease_state import HELD, LeaseState
from holdfast.core.messages import Extend, Failed
from holdfast.core.release import PENDING_TIMEOUT, send_pending
from holdfast.core.runtime import RENEWER, WATCHER, Runtime
from holdfast.events import RenewalFailed

MANY = 200
"""Up to this many renewals together get the time of one; more get more, in proportion."""

BATCH = 1000
"""Renewals in one request; more would hold up those behind it."""


def watch_deadlines(runtime: Runtime) -> Steps[None]:
    """Mark each lease as lost at its deadline, until there is none, or the client is closed."""
    deadlines = runtime.registry.deadlines
    try:
        _plan_all(runtime)
        while not runtime.closed:
            wake_at = _mark_expired(runtime)
            if wake_at == inf:
                return
            yield Wait(WATCHER, wake_at)
    finally:
        deadlines.asleep_until = inf  # the next lease must start the loop again


def _mark_expired(runtime: Runtime) -> float:
    """Mark what has expired as lost, and give the instant of the next deadline."""
    registry = runtime.registry
    with runtime.mutex:
        registry.deadlines.asleep_until = -inf
        for lease in registry.expired(runtime.clock()):
            mark_lost(runtime, lease, lease.why_expired())
        registry.dropped = [lease for lease in registry.dropped if lease.state is HELD]
        return registry.deadlines.fall_asleep()


def renew_forever(runtime: Runtime) -> Steps[None]:
    """Renew what is due and send what is pending, until there is nothing left, or the client is
    closed."""
    renewals = runtime.registry.renewals
    try:
        _plan_all(runtime)
        while not runtime.closed:
            with runtime.mutex:
                renewals.asleep_until = -inf
                due = runtime.registry.due_renewals(runtime.clock(), BATCH)
            if due:
                yield from _renew(runtime, due)
                del due  # or this frame would keep a lease alive that the user has dropped
                continue  # another renewal may be due by now
            until = min(_may_wait_until(runtime), runtime.clock() + PENDING_TIMEOUT)
            yield from send_pending(runtime, until)
            with runtime.mutex:
                wake_at = renewals.fall_asleep(runtime.pending.next_due())
            if wake_at == inf:
                return
            if wake_at > runtime.clock() and not runtime.closed:
                yield Wait(RENEWER, wake_at)
    finally:
        renewals.asleep_until = inf  # the next lease must start the loop again


def _plan_all(runtime: Runtime) -> None:
    """Plan again what a loop that failed had in hand."""
    with runtime.mutex:
        for lease in runtime.registry.held():
            plan(runtime, lease)


def _may_wait_until(runtime: Runtime) -> float:
    """Until when the renewer may wait for an answer: the next lease can be renewed as late as two
    thirds of its ttl after its last renewal."""
    with runtime.mutex:
        first = runtime.registry.renewals.first()
        return inf if first is None else first.renew_at + first.ttl / 3


def _renew(runtime: Runtime, batch: list[LeaseState]) -> Steps[None]:
    began = runtime.clock()
    wanted = []
    for lease in batch:
        if lease.hold_until - began < runtime.min_ttl:
            lease.renew_at = inf
        else:
            wanted.append((lease, cut_to(runtime, lease, lease.ttl, began)))
    if not wanted:
        return
    # An engine that answers one in time may need longer for a thousand.
    timeout = max(lease.spec.request_timeout for lease, _ in wanted)
    until = min(began + timeout * max(1.0, len(wanted) / MANY), _may_wait_until(runtime))
    requests = tuple(
        Extend(lease.spec.key, lease.holder, ttl, lease.fence) for lease, ttl in wanted
    )
    answers = yield Ask(requests, until)
    for (lease, ttl), answer in zip(wanted, answers, strict=True):
        settle_extension(runtime, lease, answer, began, ttl)
        if type(answer) is Failed:
            _retry(runtime, lease, answer)


def _retry(runtime: Runtime, lease: LeaseState, answer: Failed) -> None:
    interval = lease.ttl / 3
    with runtime.mutex:
        now = runtime.clock()
        if lease.dropped or not lease.is_held(now):
            return  # the watcher reports the loss
        lease.renew_at = now + runtime.uniform(interval / 20, interval / 10)
        plan(runtime, lease)
    left = lease.remaining(now)
    runtime.emit(RenewalFailed(lease.spec.name, lease.fence, left, str(answer)))
