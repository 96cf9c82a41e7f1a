"""How a lease ends: released by its holder, abandoned by a caller that was interrupted, or with its
client.

Each release has two parts. `begin_…` changes the state, enters the release into the pending
releases, and raises what the holder must know; it needs no engine. `finish_…` sends the release. An
interruption between the two, or in the second, loses nothing: the renewer sends what is pending.
"""

from holdfast.core.effects import Ask, Steps
from holdfast.core.holding import (
    mark_lost,
    mark_released,
    release_later,
    unavailable,
    wake_for_pending,
)
from holdfast.core.lease_state import CLOSED, HELD, LOST, TAKEN, LeaseState, LockSpec
from holdfast.core.messages import DONE, Failed, NotYours, Release
from holdfast.core.runtime import Runtime
from holdfast.errors import EngineUnavailable, LockLost
from holdfast.events import ReleaseFailed

BATCH = 100
"""Pending releases in one request."""

PENDING_TIMEOUT = 1.0
"""How long to wait for the confirmation of pending releases. One that is confirmed later is sent
once more, which does nothing."""


def begin_release(runtime: Runtime, lease: LeaseState) -> Release | None:
    """End the lease, or raise if it is not held; gives the release that is to be sent now."""
    with runtime.mutex:
        now = runtime.clock()
        if not lease.is_held(now):
            if lease.state is HELD:
                mark_lost(runtime, lease, lease.why_expired())
            lease.require_held(now)
        if lease.depth > 1:
            lease.depth -= 1
            return None
        release = Release(lease.spec.key, lease.holder, shares=lease.spec.shares)
        runtime.pending.add(  # before the state changes: a Ctrl-C between the two loses no release
            release,
            expires_at=lease.valid_until + lease.asked_ttl,  # an extension may be on its way
            not_before=now + 2 * lease.spec.request_timeout,  # `finish_release` may ask twice
            was_held=True,
        )
        mark_released(runtime, lease)
        return release


def finish_release(runtime: Runtime, lease: LeaseState, release: Release) -> Steps[None]:
    """Send a release that has begun; raise if the engine did not confirm it, or if the lease was
    lost before."""
    spec, holder = lease.spec, lease.holder
    until = runtime.clock() + spec.request_timeout
    sending = Ask((release,), until)
    try:
        [answer] = yield sending
        if type(answer) is Failed and runtime.clock() < until:
            # The connection was lost, and the outcome is unknown. If the first request was carried
            # out, the second finds the lock free, or held by another client: that is no loss.
            [again] = yield sending
            answer = again if type(again) is Failed else DONE
    except BaseException:
        _leave_to_renewer(runtime, holder)
        raise
    if type(answer) is Failed:
        _leave_to_renewer(runtime, holder)
        left = max(0.0, lease.valid_until - runtime.clock())
        raise unavailable(
            f"release of {spec.name!r} failed, since the engine is unreachable; you do not hold it "
            f"any more; retrying in the background until it expires in {left:.3f} s",
            answer,
        )
    with runtime.mutex:
        runtime.pending.confirm(holder)
        if type(answer) is NotYours:
            mark_lost(runtime, lease, TAKEN)
    if lease.state is LOST:
        raise lease.loss()


def _leave_to_renewer(runtime: Runtime, holder: str) -> None:
    with runtime.mutex:
        runtime.pending.hasten(holder, runtime.clock())
        wake_for_pending(runtime)


def interrupt_release(runtime: Runtime, lease: LeaseState, depth: int = 1) -> None:
    """Its holder was interrupted at any point of a release, perhaps before `begin_release`: do what
    that has not done yet, and leave the rest to the renewer. `depth`: how often the lease was taken
    when the release began (a reentrant lock); only the last release ends it."""
    with runtime.mutex:
        if lease.is_held(runtime.clock()) and lease.depth == depth:
            if depth > 1:
                lease.depth -= 1
                return
            mark_released(runtime, lease)
            release_later(runtime, lease.spec, lease.holder, lease)
        _leave_to_renewer(runtime, lease.holder)


def begin_leave(runtime: Runtime, lease: LeaseState, error: BaseException | None) -> Release | None:
    """Leave a `with` block; gives the release that is to be sent now. What the block itself raised
    goes first; a loss is noted on it."""
    if lease.state is not HELD and lease.state is not LOST:
        return None
    try:
        return begin_release(runtime, lease)
    except LockLost as loss:
        if error is None:
            raise
        error.add_note(f"holdfast: {loss}")
        return None


def finish_leave(
    runtime: Runtime, lease: LeaseState, release: Release, error: BaseException | None
) -> Steps[None]:
    """Send the release, as `finish_release` does; a failure is noted on what the block raised."""
    try:
        yield from finish_release(runtime, lease, release)
    except (LockLost, EngineUnavailable) as failure:
        if error is None:
            raise
        error.add_note(f"holdfast: {failure}")


def abandon(runtime: Runtime, spec: LockSpec, holder: str) -> None:
    """The caller of an acquire was interrupted: the renewer releases all that this holder has, or
    may yet be granted."""
    with runtime.mutex:
        lease = runtime.registry.find(holder)
        if lease is not None:
            mark_released(runtime, lease)
        release_later(runtime, spec, holder, lease)


def deliver(runtime: Runtime, spec: LockSpec, *holders: str) -> Steps[None]:
    """After an interruption: send the pending releases of these holders once, so that a program
    which ends now leaves nothing behind. If this is interrupted, too, they stay pending, and the
    renewer sends them."""
    found = map(runtime.pending.find, holders)
    releases = tuple(release for release in found if release is not None)
    if not releases:
        return
    answers = yield Ask(releases, runtime.clock() + spec.request_timeout)
    with runtime.mutex:
        for release, answer in zip(releases, answers, strict=True):
            if type(answer) is not Failed:
                runtime.pending.confirm(release.holder)


def lose_all(runtime: Runtime) -> None:
    """The client is closing: nothing is acquired any more, and every lease is lost."""
    with runtime.mutex:
        runtime.closed = True
        now = runtime.clock()
        for lease in runtime.registry.held():
            mark_lost(runtime, lease, lease.why_expired() if lease.is_lost(now) else CLOSED)


def send_pending(runtime: Runtime, until: float) -> Steps[Failed | None]:
    """Send the pending releases that are due, some at a time, for as long as they are confirmed;
    gives the failure that ended it."""
    while True:
        with runtime.mutex:
            now = runtime.clock()
            releases = runtime.pending.due(now, BATCH)
        if not releases or now >= until:
            return None
        answers = yield Ask(tuple(releases), min(now + PENDING_TIMEOUT, until))
        failure: Failed | None = None
        with runtime.mutex:
            for release, answer in zip(releases, answers, strict=True):
                if type(answer) is Failed:
                    failure = answer
                    runtime.pending.failed(release.holder, runtime.clock(), runtime.uniform)
                else:
                    runtime.pending.confirm(release.holder)
        if failure is not None:
            return failure


def send_last(runtime: Runtime, until: float) -> Steps[None]:
    """The client is closing: send all that is pending, once."""
    with runtime.mutex:
        runtime.pending.hasten_all(runtime.clock())
    failure = yield from send_pending(runtime, until)
    if failure is not None and runtime.pending.keys():
        runtime.emit(ReleaseFailed(runtime.pending.keys(), str(failure)))
