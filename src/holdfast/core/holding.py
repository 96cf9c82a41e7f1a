"""What a holder does with its lease while it has it: extend it, and learn of its loss."""

from collections.abc import Collection
from contextlib import suppress
from math import ceil, inf

from holdfast.core.effects import Sleep, Steps, ask
from holdfast.core.lease_state import HELD, RELEASED, TAKEN, LeaseState, LockSpec
from holdfast.core.messages import Answer, Extend, Failed, Inspect, Listing, NotYours, Release
from holdfast.core.runtime import RENEWER, WATCHER, Runtime
from holdfast.errors import EngineUnavailable
from holdfast.events import Released, Renewed

LONGEST_PLACE = 4.0
"""How long an engine may keep what a waiter with a short ttl has: one that polls a database has its
place for 2 s after it last asked, and an offer for as long."""

GRID = 10
"""Grid points to an interval between two renewals."""


def plan_renewal(lease: LeaseState, began: float) -> None:
    """Set the instant of the next renewal: a third of the ttl after the last one began, moved back
    to a common grid, so that leases of one ttl are renewed together."""
    if lease.spec.renew and not lease.dropped and lease.valid_until < lease.hold_until:
        interval = lease.ttl / 3
        step = interval / GRID
        lease.renew_at = began // step * step + interval
    else:
        lease.renew_at = inf


def wake_loops(runtime: Runtime, lease: LeaseState) -> None:
    """Wake the loops that would sleep beyond the next renewal or the end of a lease. Needs the
    mutex."""
    registry = runtime.registry
    if lease.renew_at < registry.renewer_looks_at:
        runtime.wake(RENEWER)
        registry.renewer_looks_at = lease.renew_at
    if lease.valid_until < registry.watcher_looks_at:
        runtime.wake(WATCHER)
        registry.watcher_looks_at = lease.valid_until


def extend(runtime: Runtime, lease: LeaseState, ttl: float) -> Steps[None]:
    """Let the lease last at least `ttl` from now (but not beyond `max_hold`), or raise."""
    spec = lease.spec
    with runtime.mutex:
        began = runtime.clock()
        lease.require_held(began)
        ttl = cut_to_max_hold(runtime, lease, ttl, began)
        lease.asked_ttl = max(lease.asked_ttl, ttl)
    until = min(began + spec.request_timeout, lease.valid_until)
    [answer] = yield ask(Extend(spec.key, lease.holder, ttl, lease.fence, spec.shares), until)
    apply_extension(runtime, lease, answer, began, ttl)
    with runtime.mutex:
        now = runtime.clock()
        lease.require_held(now)
    if type(answer) is Failed:
        left = lease.remaining(now)
        raise unavailable(
            f"{spec.name!r} was not extended; it is still yours for {left:.3f} s", answer
        )


def wait_min_hold(runtime: Runtime, lease: LeaseState) -> Steps[None]:
    """Before a release: wait until `min_hold` is over, or until the lease is lost. (That is noticed
    when its time is over, at the latest.)"""
    while lease.depth == 1 and (now := runtime.clock()) < lease.keep_until and lease.is_held(now):
        yield Sleep(min(lease.keep_until, lease.valid_until))


def cut_to_max_hold(runtime: Runtime, lease: LeaseState, ttl: float, now: float) -> float:
    """A ttl that ends with `max_hold`, as nearly as the engine can: rounded up to its step."""
    left = lease.hold_until - now + runtime.drift(ttl)
    if left >= ttl:
        return ttl
    step = runtime.ttl_step
    return max(ceil(left / step) * step if step else left, runtime.min_ttl)


def apply_extension(
    runtime: Runtime, lease: LeaseState, answer: Answer, began: float, ttl: float
) -> None:
    """Act on the engine's answer to an `Extend` that was sent at `began`. If the lease has ended
    meanwhile, it is lost, whatever the answer."""
    with runtime.mutex:
        if lease.state is not HELD:
            return
        now = runtime.clock()
        if now >= lease.valid_until:
            mark_lost(runtime, lease, lease.why_expired())
        elif type(answer) is NotYours:
            mark_lost(runtime, lease, TAKEN)
        elif type(answer) is not Failed:
            margin = lease.valid_until - now
            lease.prolong(min(began + ttl - runtime.drift(ttl), lease.hold_until))
            if runtime.has_hooks:
                left = lease.remaining(now)
                runtime.emit(Renewed(lease.spec.name, lease.holder, lease.fence, margin, left))
            if ttl >= lease.ttl or lease.valid_until >= lease.hold_until:
                plan_renewal(lease, began)  # a shorter extension puts no renewal off
            wake_loops(runtime, lease)


def lose(runtime: Runtime, holders: Collection[str]) -> None:
    """The engine reports, unasked, that the leases of these holders have ended."""
    with runtime.mutex:
        for holder in holders:
            lease = runtime.registry.find(holder)
            if lease is not None:
                mark_lost(runtime, lease, TAKEN)


def mark_lost(runtime: Runtime, lease: LeaseState, why: str) -> None:
    """The lease is lost: notify its holder, once, and release it on the engine, where it may last
    longer. Needs the mutex."""
    if lease.state is not HELD and lease.state is not RELEASED:
        return
    lease.mark_lost(why)
    runtime.registry.add(lease)  # where it stays, for a forked child: see `Registry.inherit`
    runtime.notify_lost(lease)
    release_later(runtime, lease.spec, lease.holder, lease)


def mark_released(runtime: Runtime, lease: LeaseState) -> None:
    """Its holder has released it; it may still be on the engine. Needs the mutex."""
    lease.mark_released()
    runtime.registry.remove(lease)
    if runtime.has_hooks:
        held = runtime.clock() - lease.acquired_at
        runtime.emit(Released(lease.spec.name, lease.holder, lease.fence, held))


def release_later(
    runtime: Runtime, spec: LockSpec, holder: str, lease: LeaseState | None = None
) -> None:
    """Have the renewer release all that this holder has: its lease, or what it may have been
    granted. Needs the mutex."""
    now = runtime.clock()
    if lease is None:
        expires_at = now + max(spec.ttl, LONGEST_PLACE)
    else:
        expires_at = max(now, lease.valid_until) + lease.asked_ttl
    release = Release(spec.key, holder, shares=spec.shares)
    runtime.pending.add(release, expires_at, not_before=now, was_held=lease is not None)
    wake_for_pending(runtime)


def wake_for_pending(runtime: Runtime) -> None:
    """Have the renewer look at the pending releases. If it cannot be started, because no more
    threads can be, they wait for the next lease, or for closing. Needs the mutex."""
    with suppress(RuntimeError):
        runtime.wake(RENEWER)


def explain_unguarded(runtime: Runtime, lease: LeaseState) -> Steps[None]:
    """A transaction did not find the lease in its database: find out why, and raise that."""
    spec = lease.spec
    [answer] = yield ask(Inspect(spec.key), runtime.clock() + spec.request_timeout)
    if type(answer) is Failed:
        raise unavailable(
            f"the transaction does not see the lease on {spec.name!r}, and the reason is unknown; "
            "roll it back",
            answer,
        )
    leases = answer.leases if isinstance(answer, Listing) else ()
    with runtime.mutex:
        if lease.state is HELD and all(seen.holder != lease.holder for seen in leases):
            mark_lost(runtime, lease, TAKEN)
        lease.require_held(runtime.clock())
    raise ValueError(
        f"connection: its transaction does not see the lease on {spec.name!r}, which is yours; "
        "it began before the lease, or leads to another database or schema; roll it back"
    )


def unavailable(message: str, answer: Answer) -> EngineUnavailable:
    """The error for a request that failed."""
    return EngineUnavailable(message, dict(answer.nodes) if type(answer) is Failed else {})
