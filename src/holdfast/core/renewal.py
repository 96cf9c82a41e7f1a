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
from holdfast.core.holding import apply_extension, cut_to_max_hold, mark_lost, wake_loops
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
    registry = runtime.registry
    try:
        while not runtime.closed:
            wake_at = _mark_expired(runtime)
            if wake_at == inf:
                return
            yield Wait(WATCHER, wake_at)
    finally:
        registry.watcher_looks_at = inf  # the next lease must start the loop again


def _mark_expired(runtime: Runtime) -> float:
    """Mark what has expired as lost, and give the instant of the next deadline."""
    registry = runtime.registry
    with runtime.mutex:
        now = runtime.clock()
        for lease in registry.held():
            if lease.valid_until <= now:
                mark_lost(runtime, lease, lease.why_expired())
        for lease in registry.dropped.copy():
            if lease.state is not HELD:
                registry.dropped.remove(lease)  # one at a time, since `Lease.__del__` has no mutex
        wake_at = _next_look(registry.watcher_looks_at, registry.next_deadline(), now)
        registry.watcher_looks_at = wake_at
        return wake_at


def renew_forever(runtime: Runtime) -> Steps[None]:
    """Renew what is due and send what is pending, until there is nothing left, or the client is
    closed."""
    registry = runtime.registry
    try:
        while not runtime.closed:
            due, may_wait_until = _due(runtime)
            if due:
                yield from _renew(runtime, due, may_wait_until)
                del due  # or this frame would keep a lease alive that the user has dropped
                continue  # another renewal may be due by now
            until = min(may_wait_until, runtime.clock() + PENDING_TIMEOUT)
            yield from send_pending(runtime, until)
            with runtime.mutex:
                due_at = min(registry.next_renewal(), runtime.pending.next_due())
                wake_at = _next_look(registry.renewer_looks_at, due_at, runtime.clock())
                registry.renewer_looks_at = wake_at
            if wake_at == inf:
                return
            if wake_at > runtime.clock() and not runtime.closed:
                yield Wait(RENEWER, wake_at)
    finally:
        registry.renewer_looks_at = inf  # the next lease must start the loop again


def _due(runtime: Runtime) -> tuple[list[LeaseState], float]:
    """The leases that must be renewed now, and until when the renewer may wait for an answer: half
    of the time of the next lease, from its own renewal on, or from now on if that is late."""
    with runtime.mutex:
        now = runtime.clock()
        leases = runtime.registry.to_renew()
    due = [lease for lease in leases[:BATCH] if lease.renew_at <= now]
    if len(due) == len(leases):
        return due, inf
    following = leases[len(due)]
    return due, (max(following.renew_at, now) + following.valid_until) / 2


def _next_look(planned: float, due_at: float, now: float) -> float:
    """When a loop looks again. A look that was planned stays planned, also if its lease has ended
    meanwhile: a loop that ends must be started by the next lease, which costs more than a look."""
    return min(planned, due_at) if planned > now else due_at


def _renew(runtime: Runtime, batch: list[LeaseState], may_wait_until: float) -> Steps[None]:
    began = runtime.clock()
    wanted = []
    for lease in batch:
        if lease.hold_until - began < runtime.min_ttl:
            lease.renew_at = inf
        else:
            wanted.append((lease, cut_to_max_hold(runtime, lease, lease.ttl, began)))
    if not wanted:
        return
    # An engine that answers one in time may need longer for a thousand.
    timeout = max(lease.spec.request_timeout for lease, _ in wanted)
    until = min(began + timeout * max(1.0, len(wanted) / MANY), may_wait_until)
    requests = tuple(
        Extend(lease.spec.key, lease.holder, ttl, lease.fence, lease.spec.shares)
        for lease, ttl in wanted
    )
    answers = yield Ask(requests, until)
    for (lease, ttl), answer in zip(wanted, answers, strict=True):
        apply_extension(runtime, lease, answer, began, ttl)
        if type(answer) is Failed:
            _retry(runtime, lease, answer)


def _retry(runtime: Runtime, lease: LeaseState, answer: Failed) -> None:
    interval = lease.ttl / 3
    with runtime.mutex:
        now = runtime.clock()
        if lease.dropped or not lease.is_held(now):
            lease.renew_at = inf  # the watcher reports the loss
            return
        lease.renew_at = now + runtime.uniform(interval / 20, interval / 10)
        wake_loops(runtime, lease)
    left = lease.remaining(now)
    runtime.emit(RenewalFailed(lease.spec.name, lease.holder, lease.fence, left, str(answer)))
