"""What a holder does with its lease: extend it, give it back, leave its section."""

from collections.abc import Collection
from itertools import islice
from math import inf

from holdfast.core.backoff import backoff
from holdfast.core.effects import Ask, Steps, ask
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
from holdfast.core.tenure import EXPIRED, HELD, LOST, RELEASED, TAKEN, Claim, Tenure
from holdfast.core.world import World
from holdfast.errors import EngineUnavailable, LockLost
from holdfast.events import NotGivenBack

RETURN_AFTER, SELDOM = 0.5, 10.0
"""About when to try again to give back what could not be: less and less often, since what was said
to an engine that is only stopped will be carried out, however often."""

RETURN_PATIENCE = 0.5
"""How long to wait for the word that it was. (If that is late, it was given back all the same.)"""

LEISURE = 1.0
"""It is only tried if no lease needs the renewer for as long: connecting has a time of its own."""

RETURNS = 100
"""So many in one go."""


def extend(world: World, tenure: Tenure, ttl: float) -> Steps[None]:
    """Let the lease last at least `ttl` from now (but not beyond `max_hold`), or raise."""
    claim = tenure.claim
    with world.mutex:
        began = world.clock()
        tenure.require_held(began)
    ttl = max(min(ttl, tenure.hold_until - began), world.min_ttl)
    until = min(began + claim.patience, tenure.valid_until)
    [answer] = yield ask(Extend(claim.key, tenure.holder, ttl, tenure.fence), until)
    settle_extension(world, tenure, answer, began, ttl)
    with world.mutex:
        now = world.clock()
        tenure.require_held(now)
    if type(answer) is Failed:
        left = tenure.remaining(now)
        raise unavailable(
            f"{claim.name!r} was not extended; it is still yours for {left:.3f} s", answer
        )


def settle_extension(
    world: World, tenure: Tenure, answer: Answer, began: float, ttl: float
) -> None:
    """Draw the conclusion from what the engine said to an `Extend` that was asked at `began`."""
    with world.mutex:
        if tenure.state is not HELD:
            return
        if world.clock() >= tenure.valid_until:
            _lose(world, tenure, EXPIRED)
        elif type(answer) is NotYours:
            _lose(world, tenure, TAKEN)
        elif type(answer) is not Failed:
            tenure.prolong(min(began + ttl - world.drift(ttl), tenure.hold_until))


def lose(world: World, holders: Collection[str]) -> None:
    """The engine says, unasked, that the leases of these holders have ended."""
    with world.mutex:
        for tenure in list(world.schedule.held()):
            if tenure.holder in holders:
                _lose(world, tenure, TAKEN)


def release(world: World, tenure: Tenure) -> Steps[None]:
    """Give the lease back, or raise if it was not there to give back any more.

    A lost one is given back too: the engine may believe in it for longer than we do.
    """
    claim, was_mine = tenure.claim, False
    try:
        with world.mutex:
            was_mine = tenure.unsettled
            now = world.clock()
            ends_at = tenure.valid_until
            if tenure.state is HELD:
                if tenure.depth > 1:
                    tenure.depth -= 1
                    tenure.require_held(now)
                    return
                if now < ends_at:
                    tenure.let_go()
                else:
                    _lose(world, tenure, EXPIRED)
            elif tenure.state is not LOST:
                tenure.require_held(now)
        until = now + claim.patience
        [answer] = yield Ask((Release(claim.key, tenure.holder),), until)
        if type(answer) is Failed and world.clock() < until:
            # A connection was lost, and with it the word whether it arrived. If it did, the lock is
            # not ours now, and whoever has it has it by right.
            [again] = yield Ask((Release(claim.key, tenure.holder),), until)
            answer = again if type(again) is Failed else DONE
    except GeneratorExit:
        raise
    except BaseException:  # nobody knows whether it was sent, or arrived
        if was_mine and tenure.state is not HELD:
            yield from give_back(world, claim, tenure.holder, claim.patience)
        raise
    if type(answer) is NotYours and tenure.state is RELEASED:
        with world.mutex:
            _lose(world, tenure, TAKEN)
    if tenure.state is LOST:
        raise tenure.loss()
    if type(answer) is Failed:
        left = max(0.0, ends_at - world.clock())
        raise unavailable(
            f"{claim.name!r} is not yours any more, but the engine could not be told; "
            f"others get it when its time is over, in about {left:.3f} s",
            answer,
        )


def leave(world: World, tenure: Tenure, error: BaseException | None) -> Steps[None]:
    """Leave a `with` block. What the block itself raised goes first; a loss is noted on it."""
    if error is None and tenure.unsettled:
        return release(world, tenure)  # mostly, and then without a generator around it
    return _leave(world, tenure, error)


def _leave(world: World, tenure: Tenure, error: BaseException | None) -> Steps[None]:
    if not tenure.unsettled:
        return
    try:
        yield from release(world, tenure)
    except (LockLost, EngineUnavailable) as failure:
        if error is None:
            raise
        error.add_note(f"holdfast: {failure}")


def report_loss(tenure: Tenure, error: BaseException | None) -> None:
    """Leave a `with` block whose client was closed meanwhile: only a loss is left to tell."""
    if tenure.state is LOST:
        loss = tenure.loss()
        if error is None:
            raise loss
        error.add_note(f"holdfast: {loss}")


def explain_unguarded(world: World, tenure: Tenure) -> Steps[None]:
    """A transaction did not find the lease in its database: find out why, and raise that."""
    claim = tenure.claim
    [answer] = yield ask(Inspect(claim.key), world.clock() + claim.patience)
    if type(answer) is Failed:
        raise unavailable(
            f"the transaction does not see the lease on {claim.name!r}, and nobody could say why; "
            "roll it back",
            answer,
        )
    leases = answer.leases if isinstance(answer, Listing) else ()
    with world.mutex:
        if tenure.state is HELD and all(seen.holder != tenure.holder for seen in leases):
            _lose(world, tenure, TAKEN)
        tenure.require_held(world.clock())
    raise ValueError(
        f"connection: its transaction does not see the lease on {claim.name!r}, which is yours; "
        "it began before the lease, or leads to another database or schema; roll it back"
    )


def release_all(world: World) -> Steps[None]:
    """Give back every lease that is still held, in one go: the client is closing."""
    with world.mutex:
        tenures = list(world.schedule.held())
        for tenure in tenures:
            tenure.let_go()
        world.schedule.clear()
    if not tenures:
        return
    until = world.clock() + max(tenure.claim.patience for tenure in tenures)
    answers = yield Ask(tuple(Release(t.claim.key, t.holder) for t in tenures), until)
    for tenure, answer in zip(tenures, answers, strict=True):
        if type(answer) is Failed:
            world.emit(NotGivenBack(tenure.claim.name, str(answer)))


def give_back(world: World, claim: Claim, holder: str, patience: float) -> Steps[None]:
    """Tell the engine to forget this holder, as far as it can be told in that time."""
    until = world.clock() + patience
    [answer] = yield ask(Release(claim.key, holder), until)
    if type(answer) is Failed and world.clock() < until:
        [answer] = yield ask(Release(claim.key, holder), until)  # a connection was lost
    if type(answer) is Failed:
        world.emit(NotGivenBack(claim.name, str(answer)))
        _give_back_later(world, Release(claim.key, holder))


def _give_back_later(world: World, release: Release) -> None:
    """As soon as the engine can be told: a place in a queue that is nobody's keeps the lock from
    those behind it."""
    schedule = world.schedule
    with world.mutex:
        schedule.return_later(release)
        if schedule.return_at == inf:
            schedule.pauses = backoff(world.uniform, RETURN_AFTER, SELDOM)
            _return_by(world, world.clock() + next(schedule.pauses))


def hasten_returns(world: World) -> None:
    """The engine answers one who has to wait: perhaps behind what could not be given back."""
    with world.mutex:
        _return_by(world, world.schedule.tried_at + RETURN_AFTER)


def _return_by(world: World, at: float) -> None:
    schedule = world.schedule
    schedule.return_at = min(schedule.return_at, at)
    if schedule.return_at < schedule.asleep_until:
        world.rouse_renewer()


def give_back_again(world: World) -> Steps[None]:
    """Try once more to give back what could not be, if it is time to."""
    schedule = world.schedule
    with world.mutex:
        now = world.clock()
        if now < schedule.return_at:
            return
        if not schedule.unreturned:  # somebody has just hastened what is done already
            schedule.return_at = inf
            return
        schedule.return_at = now + next(schedule.pauses)
        if min(schedule.next_due(), schedule.first_deadline()) < now + LEISURE:
            return
        schedule.tried_at = now
        releases = tuple(islice(schedule.unreturned.values(), RETURNS))
    for some in (releases[:1], releases[1:]):  # one, to see whether the engine can be told
        if some:
            answers = yield Ask(some, world.clock() + RETURN_PATIENCE)
            with world.mutex:
                failed = schedule.returned(some, [type(answer) is not Failed for answer in answers])
            if failed:
                break
    else:
        with world.mutex:
            schedule.return_at = world.clock() if schedule.unreturned else inf


def disclaim(world: World, tenure: Tenure) -> Steps[None]:
    """Give back a lease that has not got to whom it was for."""
    with world.mutex:
        if tenure.state is not HELD:
            return
        tenure.let_go()
    yield from give_back(world, tenure.claim, tenure.holder, tenure.claim.patience)


def unavailable(message: str, answer: Answer) -> EngineUnavailable:
    """The error for an answer that is no answer."""
    return EngineUnavailable(message, dict(answer.nodes) if type(answer) is Failed else {})


def _lose(world: World, tenure: Tenure, why: str) -> None:
    tenure.lose(why)
    world.schedule.lost(tenure)
    world.rouse_renewer()
