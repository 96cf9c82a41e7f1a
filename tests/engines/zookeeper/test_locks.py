"""The steps of an exchange one by one, where no real server would stop between two of them."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from holdfast.core.messages import NOT_YOURS, Acquire, Extend, Failed, Held
from holdfast.engines.zookeeper.commands import Tree, name_of
from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Claim, Move, Registry

LONGER: Any = SimpleNamespace(ttl=60.0, id=2)
SHORTER: Any = SimpleNamespace(ttl=10.0, id=1)


@pytest.fixture
def registry() -> Registry:
    return Registry(lambda holder: None)


@pytest.fixture
def claim(registry: Registry) -> Claim:
    claim = registry.open("job", "ann", SHORTER)
    assert claim is not None
    claim.place, claim.owner, claim.ends_at = "/job/here", 1, 10.0
    return claim


@pytest.fixture
def locks(registry: Registry) -> Locks:
    sessions: Any = SimpleNamespace(of=lambda ttl: LONGER if ttl > SHORTER.ttl else SHORTER)
    return Locks(Tree("/"), sessions, registry, lambda: 0.0, Random(1))


def test_a_renewal_during_a_move_to_another_session_is_no_loss(locks: Locks, claim: Claim) -> None:
    renewing = locks.extend([Extend("job", "ann", 10.0, 7)], [claim], 0.0)
    next(renewing)
    claim.moved(Move(LONGER, 2, "/job/there", b""))
    with pytest.raises(StopIteration) as end:
        renewing.send([NoNodeError()])
    [answer] = end.value.value
    assert isinstance(answer, Failed)


def test_one_move_at_a_time(locks: Locks, claim: Claim) -> None:
    first = locks.lengthen(Extend("job", "ann", 60.0, 7), claim, 0.0)
    next(first)
    with pytest.raises(StopIteration) as end:
        next(locks.lengthen(Extend("job", "ann", 50.0, 7), claim, 0.0))
    [answer] = end.value.value
    assert isinstance(answer, Failed)
    first.close()
    next(locks.lengthen(Extend("job", "ann", 50.0, 7), claim, 0.0))


def test_a_lease_that_is_being_released_is_not_moved_to_another_session(
    locks: Locks, claim: Claim
) -> None:
    """Its release deletes the place that it knows, and would leave the new one behind."""
    steps = locks.lengthen(Extend("job", "ann", 60.0, 7), claim, 0.0)
    next(steps)  # the longer session is being connected
    claim.pending_release = True
    with pytest.raises(StopIteration) as end:
        steps.send([])
    assert end.value.value == [NOT_YOURS]
    assert claim.move is None


def test_a_try_whose_reply_was_lost_learns_that_the_lock_is_held(
    locks: Locks, claim: Claim, registry: Registry
) -> None:
    """The age of the place before is told by when its own was made, also if that was found."""
    claim.place, claim.asked = "", True  # the reply to the join was lost
    steps = locks.acquire(Acquire("job", "ann", 10.0, once=True), 0.0)
    first, mine = (name_of(1, holder, number, 1) for number, holder in enumerate(("ben", "ann")))
    a_minute_later: Any = SimpleNamespace(czxid=7, ctime=61_000)
    next(steps)
    steps.send([None, [first, mine]])  # it is found
    steps.send([a_minute_later, [first, mine]])
    steps.send([SimpleNamespace(ctime=1_000)])
    with pytest.raises(StopIteration) as end:
        steps.send([None])
    [answer] = end.value.value
    assert isinstance(answer, Held)
