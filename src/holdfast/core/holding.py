"""What a holder does with its lease: extend it, give it back, leave its section."""

from collections.abc import Collection
from itertools import islice
from math import inf

from holdfast.core.backoff import backoff
from holdfast.core.effects import Ask, Steps, ask
from holdfast.core.lease_state import EXPIRED, HELD, LOST, RELEASED, TAKEN, LeaseState, LockSpec
from holdfast.core.messages import (
    DONE,
    Answer,
    Extend,
    Failed,
    Inspect,
    Listing,
    NotYours,
    Release,
)
from holdfast.core.runtime import Runtime
from holdfast.errors import EngineUnavailable, LockLost
from holdfast.events import ReleaseFailed

RETURN_AFTER, SELDOM = 0.5, 10.0
"""About when to try again to give back what could not be: less and less often, since what was said
to an engine that is only stopped will be carried out, however often."""

RETURN_PATIENCE = 0.5
"""How long to wait for the word that it was. (If that is late, it was given back all the same.)"""

LEISURE = 1.0
"""It is only tried if no lease needs the renewer for as long: connecting has a time of its own."""

RETURNS = 100
"""So many in one go."""


def extend(runtime: Runtime, tenure: LeaseState, ttl: float) -> Steps[None]:
    """Let the lease last at least `ttl` from now (but not beyond `max_hold`), or raise."""
    spec = tenure.spec
    with runtime.mutex:
        began = runtime.clock()
        tenure.require_held(began)
    ttl = max(min(ttl, tenure.hold_until - began), runtime.min_ttl)
    until = min(began + spec.request_timeout, tenure.valid_until)
    [answer] = yield ask(Extend(spec.key, tenure.holder, ttl, tenure.fence), until)
    settle_extension(runtime, tenure, answer, began, ttl)
    with runtime.mutex:
        now = runtime.clock()
        tenure.require_held(now)
    if type(answer) is Failed:
        left = tenure.remaining(now)
        raise unavailable(
            f"{spec.name!r} was not extended; it is still yours for {left:.3f} s", answer
        )


def settle_extension(
    runtime: Runtime, tenure: LeaseState, answer: Answer, began: float, ttl: float
) -> None:
    """Draw the conclusion from what the engine said to an `Extend` that was asked at `began`."""
    with runtime.mutex:
        if tenure.state is not HELD:
            return
        if runtime.clock() >= tenure.valid_until:
            _lose(runtime, tenure, EXPIRED)
        elif type(answer) is NotYours:
            _lose(runtime, tenure, TAKEN)
        elif type(answer) is not Failed:
            tenure.prolong(min(began + ttl - runtime.drift(ttl), tenure.hold_until))


def lose(runtime: Runtime, holders: Collection[str]) -> None:
    """The engine says, unasked, that the leases of these holders have ended."""
    with runtime.mutex:
        for tenure in list(runtime.schedule.held()):
            if tenure.holder in holders:
                _lose(runtime, tenure, TAKEN)


def release(runtime: Runtime, tenure: LeaseState) -> Steps[None]:
    """Give the lease back, or raise if it was not there to give back any more.

    A lost one is given back too: the engine may believe in it for longer than we do.
    """
    spec, was_mine = tenure.spec, False
    try:
        with runtime.mutex:
            was_mine = tenure.unsettled
            now = runtime.clock()
            ends_at = tenure.valid_until
            if tenure.state is HELD:
                if tenure.depth > 1:
                    tenure.depth -= 1
                    tenure.require_held(now)
                    return
                if now < ends_at:
                    tenure.mark_released()
                else:
                    _lose(runtime, tenure, EXPIRED)
            elif tenure.state is not LOST:
                tenure.require_held(now)
        until = now + spec.request_timeout
        [answer] = yield Ask((Release(spec.key, tenure.holder),), until)
        if type(answer) is Failed and runtime.clock() < until:
            # A connection was lost, and with it the word whether it arrived. If it did, the lock is
            # not ours now, and whoever has it has it by right.
            [again] = yield Ask((Release(spec.key, tenure.holder),), until)
            answer = again if type(again) is Failed else DONE
    except GeneratorExit:
        raise
    except BaseException:  # nobody knows whether it was sent, or arrived
        if was_mine and tenure.state is not HELD:
            yield from give_back(runtime, spec, tenure.holder, spec.request_timeout)
        raise
    if type(answer) is NotYours and tenure.state is RELEASED:
        with runtime.mutex:
            _lose(runtime, tenure, TAKEN)
    if tenure.state is LOST:
        raise tenure.loss()
    if type(answer) is Failed:
        left = max(0.0, ends_at - runtime.clock())
        raise unavailable(
            f"{spec.name!r} is not yours any more, but the engine could not be told; "
            f"others get it when its time is over, in about {left:.3f} s",
            answer,
        )


def leave(runtime: Runtime, tenure: LeaseState, error: BaseException | None) -> Steps[None]:
    """Leave a `with` block. What the block itself raised goes first; a loss is noted on it."""
    if error is None and tenure.unsettled:
        return release(runtime, tenure)  # mostly, and then without a generator around it
    return _leave(runtime, tenure, error)


def _leave(runtime: Runtime, tenure: LeaseState, error: BaseException | None) -> Steps[None]:
    if not tenure.unsettled:
        return
    try:
        yield from release(runtime, tenure)
    except (LockLost, EngineUnavailable) as failure:
        if error is None:
            raise
        error.add_note(f"holdfast: {failure}")


def report_loss(tenure: LeaseState, error: BaseException | None) -> None:
    """Leave a `with` block whose client was closed meanwhile: only a loss is left to tell."""
    if tenure.state is LOST:
        loss = tenure.loss()
        if error is None:
            raise loss
        error.add_note(f"holdfast: {loss}")


def explain_unguarded(runtime: Runtime, tenure: LeaseState) -> Steps[None]:
    """A transaction did not find the lease in its database: find out why, and raise that."""
    spec = tenure.spec
    [answer] = yield ask(Inspect(spec.key), runtime.clock() + spec.request_timeout)
    if type(answer) is Failed:
        raise unavailable(
            f"the transaction does not see the lease on {spec.name!r}, and nobody could say why; "
            "roll it back",
            answer,
        )
    leases = answer.leases if isinstance(answer, Listing) else ()
    with runtime.mutex:
        if tenure.state is HELD and all(seen.holder != tenure.holder for seen in leases):
            _lose(runtime, tenure, TAKEN)
        tenure.require_held(runtime.clock())
    raise ValueError(
        f"connection: its transaction does not see the lease on {spec.name!r}, which is yours; "
        "it began before the lease, or leads to another database or schema; roll it back"
    )


def release_all(runtime: Runtime) -> Steps[None]:
    """Give back every lease that is still held, in one go: the client is closing."""
    with runtime.mutex:
        tenures = list(runtime.schedule.held())
        for tenure in tenures:
            tenure.mark_released()
        runtime.schedule.clear()
    if not tenures:
        return
    until = runtime.clock() + max(tenure.spec.request_timeout for tenure in tenures)
    answers = yield Ask(tuple(Release(t.spec.key, t.holder) for t in tenures), until)
    for tenure, answer in zip(tenures, answers, strict=True):
        if type(answer) is Failed:
            runtime.emit(ReleaseFailed(tenure.spec.name, str(answer)))


def give_back(runtime: Runtime, spec: LockSpec, holder: str, request_timeout: float) -> Steps[None]:
    """Tell the engine to forget this holder, as far as it can be told in that time."""
    until = runtime.clock() + request_timeout
    [answer] = yield ask(Release(spec.key, holder), until)
    if type(answer) is Failed and runtime.clock() < until:
        [answer] = yield ask(Release(spec.key, holder), until)  # a connection was lost
    if type(answer) is Failed:
        runtime.emit(ReleaseFailed(spec.name, str(answer)))
        _give_back_later(runtime, Release(spec.key, holder))


def _give_back_later(runtime: Runtime, release: Release) -> None:
    """As soon as the engine can be told: a place in a queue that is nobody's keeps the lock from
    those behind it."""
    schedule = runtime.schedule
    with runtime.mutex:
        schedule.return_later(release)
        if schedule.return_at == inf:
            schedule.pauses = backoff(runtime.uniform, RETURN_AFTER, SELDOM)
            _return_by(runtime, runtime.clock() + next(schedule.pauses))


def hasten_returns(runtime: Runtime) -> None:
    """The engine answers one who has to wait: perhaps behind what could not be given back."""
    with runtime.mutex:
        _return_by(runtime, runtime.schedule.tried_at + RETURN_AFTER)


def _return_by(runtime: Runtime, at: float) -> None:
    schedule = runtime.schedule
    schedule.return_at = min(schedule.return_at, at)
    if schedule.return_at < schedule.asleep_until:
        runtime.wake_renewer()


def give_back_again(runtime: Runtime) -> Steps[None]:
    """Try once more to give back what could not be, if it is time to."""
    schedule = runtime.schedule
    with runtime.mutex:
        now = runtime.clock()
        if now < schedule.return_at:
            return
        if not schedule.pending_releases:  # somebody has just hastened what is done already
            schedule.return_at = inf
            return
        schedule.return_at = now + next(schedule.pauses)
        if min(schedule.next_due(), schedule.first_deadline()) < now + LEISURE:
            return
        schedule.tried_at = now
        releases = tuple(islice(schedule.pending_releases.values(), RETURNS))
    for some in (releases[:1], releases[1:]):  # one, to see whether the engine can be told
        if some:
            answers = yield Ask(some, runtime.clock() + RETURN_PATIENCE)
            with runtime.mutex:
                failed = schedule.returned(some, [type(answer) is not Failed for answer in answers])
            if failed:
                break
    else:
        with runtime.mutex:
            schedule.return_at = runtime.clock() if schedule.pending_releases else inf


def release_undelivered(runtime: Runtime, tenure: LeaseState) -> Steps[None]:
    """Give back a lease that has not got to whom it was for."""
    with runtime.mutex:
        if tenure.state is not HELD:
            return
        tenure.mark_released()
    yield from give_back(runtime, tenure.spec, tenure.holder, tenure.spec.request_timeout)


def unavailable(message: str, answer: Answer) -> EngineUnavailable:
    """The error for an answer that is no answer."""
    return EngineUnavailable(message, dict(answer.nodes) if type(answer) is Failed else {})


def _lose(runtime: Runtime, tenure: LeaseState, why: str) -> None:
    tenure.lose(why)
    runtime.schedule.lost(tenure)
    runtime.wake_renewer()
