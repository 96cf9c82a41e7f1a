"""Getting a lock: try, wait for a wake-up, try again, give up in time, leave nothing behind.

What can happen at any yield below, and what then:

- The reply is lost or late (`Failed`): nobody knows whether the lock was granted, so the next try
  asks with the same holder id, which finds its own grant again; the last one gives it back.
- The grant took so long to arrive that it is not worth anything: the same.
- We are cancelled, interrupted or closed: whatever was asked for is given back before that goes on.
- A wake-up is lost: the wait ends when the present holder's time does, so it costs time, not life.
- A wake-up comes just as we give up: giving back passes the offer on to the next in the queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from holdfast.core.backoff import backoff, spread
from holdfast.core.effects import Listen, Sleep, Steps, Wait, ask
from holdfast.core.holding import give_back, unavailable
from holdfast.core.messages import Acquire, Answer, Failed, Granted, Held
from holdfast.core.renewal import plan_renewal
from holdfast.core.tenure import Claim, Tenure
from holdfast.core.world import World
from holdfast.errors import EngineUnavailable

SHORTEST_WAIT = 0.001


@dataclass(slots=True)
class Footprint:
    """What one acquire has to tidy up."""

    holder: str
    untidy: bool = False
    """The engine may have something of ours: a grant, an offer, a place in the queue."""
    listening: bool = False


def acquire(world: World, claim: Claim, timeout: float | None) -> Steps[Tenure | None]:
    """Get the lock; None if somebody else has it until `timeout` (0: ask once; None: for ever)."""
    footprint = Footprint(world.new_holder())
    try:
        return (yield from _try_until_granted(world, claim, timeout, footprint))
    except GeneratorExit:
        footprint.untidy = False  # nobody performs anything for us any more
        raise
    finally:
        try:
            if footprint.untidy:
                yield from give_back(world, claim, footprint.holder)
        finally:
            if footprint.listening:
                world.unlisten(footprint.holder)


def _try_until_granted(
    world: World, claim: Claim, timeout: float | None, footprint: Footprint
) -> Steps[Tenure | None]:
    holder = footprint.holder
    began = world.clock()
    give_up_at = inf if timeout is None else began + timeout
    until = began + claim.patience
    if timeout:
        until = min(until, give_up_at)
    failing_since = inf
    pauses: Iterator[float] | None = None
    while True:
        footprint.untidy = True
        request = Acquire(claim.key, holder, claim.ttl, footprint.listening)
        answer: Answer
        [answer] = yield ask(request, until)
        now = world.clock()
        if type(answer) is Granted:
            tenure = _begin(claim, holder, answer.fence, began)
            if now < tenure.valid_until:
                _hand_to_renewer(world, tenure)
                footprint.untidy = False
                return tenure
            answer = Failed.at("engine", f"took {now - began:.3f} s to answer")

        if type(answer) is Held:
            failing_since = inf
            footprint.untidy = footprint.listening
            if now >= give_up_at:
                return None
            if footprint.listening:
                yield Wait(holder, min(now + _pause(world, claim, answer), give_up_at))
            else:
                footprint.listening = True
                yield Listen(holder)
        else:
            failing_since = min(failing_since, began)
            hopeless = timeout is None and now - failing_since >= claim.ttl
            if hopeless or now >= give_up_at:
                raise _unavailable(claim, answer)
            pauses = pauses or backoff(world.uniform)
            yield Sleep(min(now + next(pauses), give_up_at))

        began = world.clock()
        until = min(began + claim.patience, give_up_at)
        if began >= give_up_at:
            if type(answer) is Held:
                return None
            raise _unavailable(claim, answer)


def _begin(claim: Claim, holder: str, fence: int, began: float) -> Tenure:
    hold_until = inf if claim.max_hold is None else began + claim.max_hold
    tenure = Tenure(claim, holder, fence, min(began + claim.validity, hold_until), hold_until)
    plan_renewal(tenure, began)
    return tenure


def _hand_to_renewer(world: World, tenure: Tenure) -> None:
    with world.mutex:
        sooner = world.schedule.put(tenure)
    if sooner:
        world.rouse_renewer()


def _pause(world: World, claim: Claim, held: Held) -> float:
    """How long asking again is pointless, unless we are woken."""
    pause = (
        held.remaining if held.wakes else min(held.remaining, spread(claim.retry, world.uniform))
    )
    return max(pause, SHORTEST_WAIT)


def _unavailable(claim: Claim, answer: Answer) -> EngineUnavailable:
    return unavailable(
        f"{claim.name!r} was not acquired, since the engine could not be asked", answer
    )
