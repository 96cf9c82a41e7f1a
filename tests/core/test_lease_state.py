"""The life of one lease, as its holder knows it."""

from collections.abc import Callable

import pytest

from holdfast.core.holding import mark_lost
from holdfast.core.lease_state import INHERITED, TAKEN, LeaseState
from holdfast.core.ports import NODE_TIMEOUT, node_timeout
from holdfast.errors import LockLost, NotHeld
from tests.core.hand import NOW, TTL, Hand, spec

ENDS_AT = NOW + TTL


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def lease(hand: Hand) -> LeaseState:
    return hand.lease()


def test_it_is_held_until_its_end_and_lost_from_then_on(lease: LeaseState) -> None:
    before = ENDS_AT - 0.001
    assert (lease.is_held(before), lease.is_lost(before)) == (True, False)
    assert (lease.is_held(ENDS_AT), lease.is_lost(ENDS_AT)) == (False, True)
    lease.require_held(before)
    with pytest.raises(LockLost, match="not renewed in time"):
        lease.require_held(ENDS_AT)


def test_what_remains_is_never_negative(lease: LeaseState) -> None:
    assert [lease.remaining(ENDS_AT + late) for late in (-6.0, 0.0, 1.0)] == [6.0, 0.0, 0.0]


def test_released_it_is_neither_held_nor_lost(lease: LeaseState) -> None:
    lease.mark_released()
    for now in (NOW, ENDS_AT + 1):
        assert (lease.is_held(now), lease.is_lost(now)) == (False, False)
        assert lease.remaining(now) == 0.0
        with pytest.raises(NotHeld, match="released already") as raised:
            lease.require_held(now)
        assert type(raised.value) is NotHeld


def test_lost_it_stays_lost_whatever_its_end_was(lease: LeaseState) -> None:
    lease.mark_lost(TAKEN)
    assert (lease.is_held(NOW), lease.is_lost(NOW)) == (False, True)
    assert lease.remaining(NOW) == 0.0
    with pytest.raises(LockLost) as raised:
        lease.require_held(NOW)
    assert (raised.value.name, raised.value.fence, raised.value.why) == ("job", 7, TAKEN)


def test_its_end_moves_on_and_never_back(lease: LeaseState) -> None:
    lease.prolong(ENDS_AT - 2)
    assert lease.valid_until == ENDS_AT
    lease.prolong(ENDS_AT + 2)
    assert lease.valid_until == ENDS_AT + 2


def test_at_max_hold_that_is_the_reason(hand: Hand) -> None:
    lease = hand.lease(until=NOW + 5, hold_until=NOW + 5, max_hold=5.0)
    with pytest.raises(LockLost, match="its max_hold of 5 s is over"):
        lease.require_held(NOW + 5)


class TestForks:
    @pytest.mark.parametrize("is_lost", [False, True])
    def test_in_the_child_it_is_neither_held_nor_lost(
        self, hand: Hand, lease: LeaseState, is_lost: bool
    ) -> None:
        if is_lost:
            mark_lost(hand.runtime, lease, TAKEN)
        hand.runtime.forked(hand.runtime.mutex)
        assert lease.state is INHERITED
        facts: list[Callable[[float], object]] = [lease.is_held, lease.is_lost, lease.remaining]
        for now in (NOW, ENDS_AT + 1):
            assert [fact(now) for fact in facts] == [False, False, 0.0]
            with pytest.raises(NotHeld, match="forked") as raised:
                lease.require_held(now)
            assert type(raised.value) is NotHeld

    def test_the_childs_own_leases_are_its_own_but_not_its_childs(self, hand: Hand) -> None:
        hand.runtime.forked(hand.runtime.mutex)
        lease = hand.lease()
        assert lease.is_held(NOW)
        hand.runtime.forked(hand.runtime.mutex)
        assert not lease.is_held(NOW)

    def test_the_child_has_nothing_of_its_parents_to_renew_release_or_lose(
        self, hand: Hand, lease: LeaseState
    ) -> None:
        hand.runtime.forked(hand.runtime.mutex)
        assert hand.runtime.registry.held() == []
        assert hand.runtime.registry.find(lease.holder) is None
        assert hand.runtime.registry.to_renew() == []
        assert hand.pending == []


def test_a_lock_is_asked_for_under_its_name_with_the_prefix() -> None:
    asked = spec("job")
    assert (asked.name, asked.key) == ("job", "p:job")


def test_a_node_has_a_third_of_the_ttl_and_no_longer_than_that() -> None:
    assert [node_timeout(ttl) for ttl in (3.0, 15.0, 60.0)] == [1.0, 5.0, NODE_TIMEOUT]
