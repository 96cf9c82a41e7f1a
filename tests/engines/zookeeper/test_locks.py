"""The steps of an exchange one by one, where no real server would stop between two of them."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from holdfast.core.messages import NOT_YOURS, Extend, Failed
from holdfast.engines.zookeeper.commands import Tree
from holdfast.engines.zookeeper.locks import Locks
from holdfast.engines.zookeeper.registry import Claim, Move, Registry

LONGER: Any = SimpleNamespace(ttl=60.0, id=2)
SHORTER: Any = SimpleNamespace(ttl=10.0, id=1)


@pytest.fixture
def claim() -> Claim:
    claim = Registry(lambda holder: None).open("job", "ann", SHORTER)
    assert claim is not None
    claim.place, claim.owner, claim.ends_at = "/job/here", 1, 10.0
    return claim


@pytest.fixture
def locks() -> Locks:
    sessions: Any = SimpleNamespace(of=lambda ttl: LONGER)
    return Locks(Tree("/"), sessions, Registry(lambda holder: None), lambda: 0.0, Random(1))


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
