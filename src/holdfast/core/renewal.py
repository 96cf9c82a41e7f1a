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

from holdfast.core.effects import Announce, Ask, Listen, Steps, Wait
from holdfast.core.holding import give_back_again, settle_extension
from holdfast.core.messages import Answer, Extend, Failed
from holdfast.core.tenure import EXPIRED, Tenure
from holdfast.core.world import World
from holdfast.events import Lost, RenewalFailed

RENEWER = "renewer"
"""The renewer's own ticket for wake-ups."""

GRID = 10
"""Grid points to an interval between two renewals."""

MANY = 200
"""So many renewals together may take as long as one, and more in proportion."""

BATCH = 1000
"""Renewals in one request; more would hold up those behind it."""


def renew_for_ever(world: World) -> Steps[None]:
    """Renew what is due, tell of what is lost, sleep until there is more to do."""
    schedule = world.schedule
    try:
        yield Listen(RENEWER)
        with world.mutex:
            schedule.put_back()  # what an earlier renewer, that failed, had in hand
        while True:
            yield from _look_once(world)
    finally:
        schedule.asleep_until = inf  # whoever takes a lease now must start another renewer


def _look_once(world: World) -> Steps[None]:
    schedule = world.schedule
    with world.mutex:
        now = world.clock()
        schedule.asleep_until = -inf
        due = [t for t in schedule.due(now, BATCH) if not _ended(world, t, now)]
    yield from _tell(world)
    if due:
        yield from _renew(world, due)
    del due  # or this frame would keep an abandoned lease alive
    with world.mutex:
        schedule.put_back()
    yield from give_back_again(world)
    with world.mutex:
        wake_at = schedule.fall_asleep()
    if wake_at > world.clock():
        yield Wait(RENEWER, wake_at)


def plan_renewal(tenure: Tenure, began: float) -> None:
    """Set the instant of the next renewal, given when the last one began."""
    claim = tenure.claim
    if claim.renew and tenure.valid_until < tenure.hold_until:
        interval = claim.ttl / 3
        tenure.renew_at = _grid_point(began // (interval / GRID), interval)
    else:
        tenure.renew_at = inf


@lru_cache(64)
def _grid_point(number: float, interval: float) -> float:
    """An interval after a point of the grid: one object, for all leases that are renewed then."""
    return number * (interval / GRID) + interval


def _ended(world: World, tenure: Tenure, now: float) -> bool:
    if now < tenure.valid_until:
        return False
    tenure.lose(EXPIRED)
    world.schedule.lost(tenure)
    return True


def _tell(world: World) -> Steps[None]:
    untold = world.schedule.untold
    while untold:
        tenure = untold.popleft()
        world.emit(Lost(tenure.claim.name, tenure.fence, tenure.why))
        if tenure.watchers:
            yield Announce(tenure.watchers)


def _renew(world: World, batch: list[Tenure]) -> Steps[None]:
    began = world.clock()
    asked = [(tenure, _extension(world, tenure, began)) for tenure in batch]
    wanted = [(tenure, ttl) for tenure, ttl in asked if ttl > 0]
    if wanted:
        # A node that answers one in time may need longer for a thousand.
        patience = max(tenure.claim.patience for tenure, _ in wanted)
        until = began + patience * max(1.0, len(wanted) / MANY)
        with world.mutex:
            until = min(until, world.schedule.first_deadline())
        requests = tuple(Extend(t.claim.key, t.holder, ttl, t.fence) for t, ttl in wanted)
        answers = yield Ask(requests, until)
        for (tenure, ttl), answer in zip(wanted, answers, strict=True):
            settle_extension(world, tenure, answer, began, ttl)
            _plan(world, tenure, answer, began)


def _extension(world: World, tenure: Tenure, now: float) -> float:
    """For how long to renew; 0 for not at all."""
    if now < tenure.renew_at:
        return 0.0  # its end has been moved since it was put on the schedule
    left = tenure.hold_until - now
    if left >= tenure.claim.ttl:
        return tenure.claim.ttl
    if left < world.min_ttl:
        tenure.renew_at = inf
        return 0.0
    return left


def _plan(world: World, tenure: Tenure, answer: Answer, began: float) -> None:
    if type(answer) is not Failed:
        plan_renewal(tenure, began)
        return
    now = world.clock()
    interval = tenure.claim.ttl / 3
    tenure.renew_at = now + world.uniform(interval / 20, interval / 10)
    left = tenure.remaining(now)
    world.emit(RenewalFailed(tenure.claim.name, tenure.fence, left, str(answer)))
