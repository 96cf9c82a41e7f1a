"""The steps of an exchange one by one, where no real server would stop between two of them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Extend,
    Failed,
    Release,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.commands import Call, Calls, KeepAlives
from holdfast.engines.etcd.locks import Locks
from holdfast.engines.etcd.protocol import messages
from holdfast.engines.etcd.registry import Claim, Registry
from holdfast.engines.etcd.waiters import Watches
from tests.engines.meanwhile import meanwhile

NO_KEYS = SimpleNamespace(keys=())
HOST = StoreHost(lambda: 0.0, lambda holder: None, lambda event: None)


@pytest.fixture
def registry() -> Registry:
    return Registry(HOST, {})


@pytest.fixture
def locks(registry: Registry) -> Locks:
    return Locks(registry, Watches(HOST.notify), HOST)


@pytest.fixture
def claim(registry: Registry) -> Claim:
    claim = registry.claim(Acquire("door", "ben", 4.0), 4)
    claim.ends_at, claim.session.granted = 4.0, True
    return claim


RELEASES = [Release("door", "ben")]
DELETED = messages["TxnResponse"](
    succeeded=True, responses=[{"response_delete_range": {"deleted": 1}}]
)
NOT_DELETED = messages["TxnResponse"]()


def end_of(steps: Calls[list[Answer]], reply: Any) -> Answer:
    while True:  # an etcd lease that is not needed any more is revoked
        try:
            steps.send([reply])
        except StopIteration as end:
            [answer] = end.value
            assert isinstance(answer, Answer)
            return answer


def test_a_release_is_not_confirmed_by_another_one_that_may_fail(
    locks: Locks, claim: Claim
) -> None:
    """After an interruption, the caller and the background task release at the same time."""
    first, second = locks.release(RELEASES, set()), locks.release(RELEASES, set())
    next(first)
    assert next(second), "it is sent, too"
    first.close()  # its connection was lost
    third = locks.release(RELEASES, set())
    assert next(third), "the claim is still there"
    assert end_of(second, DELETED) == DONE
    assert end_of(third, NOT_DELETED) == DONE, "the second one has deleted it"
    with pytest.raises(StopIteration):
        next(locks.release(RELEASES, set()))


def test_of_two_releases_both_are_confirmed(locks: Locks, claim: Claim, registry: Registry) -> None:
    claim.revision = 7
    first, second = locks.release(RELEASES, set()), locks.release(RELEASES, set())
    next(first)
    [late] = cast("list[Call]", next(second))
    assert end_of(first, DELETED) == DONE
    again = registry.claim(Acquire("door", "cleo", 4.0), 4)
    assert again.place == claim.place, "the name is used again"
    assert late.request.compare[0].create_revision == 7, "the late one leaves that alone"
    assert end_of(second, NOT_DELETED) == DONE
    assert registry.claims == {"cleo": again}


def test_a_release_is_sent_again_though_the_lease_ends_meanwhile(
    locks: Locks, claim: Claim, registry: Registry
) -> None:
    """It is not taken for a loss: the servers may have the place for longer."""
    claim.session.ttl = 8
    first = locks.release(RELEASES, set())
    assert next(first)
    registry.expire(5.0)  # another exchange comes by
    first.close()
    again = locks.release(RELEASES, set())
    assert next(again), "the claim is still there"
    assert end_of(again, DELETED) == DONE


@pytest.mark.parametrize("move", ["none", "done", "on its way", "in doubt"])
@pytest.mark.parametrize("begins", ["before", "in the middle"])
def test_a_renewal_during_a_move_to_another_session_is_no_loss(
    registry: Registry, locks: Locks, claim: Claim, move: str, begins: str
) -> None:
    """Also where it asks about both sessions, and the move comes in between."""
    if begins == "in the middle":
        registry.session_for(claim, 60).granted = True
    renewing = locks.extend([Extend("door", "ben", 4, 7)], 1)
    sessions = len(cast(KeepAlives, next(renewing)).leases)
    renewing.send([4] * sessions)
    if move != "none":
        longer = registry.session_for(claim, 60)
    if move == "done":
        registry.move(claim, longer)
    elif move == "on its way":
        registry.begin_move(claim, object())
    with pytest.raises(StopIteration) as end:
        renewing.send([NO_KEYS] * sessions)
    [answer] = end.value.value
    if move == "none" or (move == "in doubt" and begins == "in the middle"):
        assert answer == NOT_YOURS, "it is attached to none of the sessions"
    else:
        assert isinstance(answer, Failed)


def move(locks: Locks, claim: Claim, ttl: float) -> Calls[list[Answer]]:
    """An extension that knows that the place is there, and is about to move it."""
    steps = locks.extend([Extend("door", "ben", ttl, 7)], 1)
    next(steps)
    steps.send([4])
    return steps


@pytest.mark.parametrize("line", range(12))
def test_of_two_moves_that_begin_at_once_one_waits(locks: Locks, claim: Claim, line: int) -> None:
    """The last one would decide, and end the lease of the other before its time."""
    moves = [move(locks, claim, ttl) for ttl in (50, 60)]
    refused: list[Answer] = []

    def go_on(steps: Calls[list[Answer]]) -> None:
        try:
            steps.send([SimpleNamespace(keys=[claim.place])])
        except StopIteration as end:
            refused.extend(end.value)

    with meanwhile(line, ("_extend", "begin_move"), lambda: go_on(moves[1])):
        go_on(moves[0])
    assert [type(each) for each in refused] == [Failed]


def test_a_move_that_comes_after_a_longer_one_does_not_undo_it(
    registry: Registry, locks: Locks, claim: Claim
) -> None:
    shorter = move(locks, claim, 50)
    registry.move(claim, registry.session_for(claim, 60))
    assert isinstance(end_of(shorter, SimpleNamespace(keys=[claim.place])), Failed)
    assert claim.session.ttl == 60
