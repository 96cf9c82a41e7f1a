"""The life of one lease, as its holder knows it."""

import pytest

from holdfast.core.lease_state import (
    NODE_TIMEOUT,
    TAKEN,
    LeaseState,
    LockSpec,
    node_timeout,
    validity,
)
from holdfast.core.ports import same_clock
from holdfast.errors import LockLost, NotHeld
from tests.core.hand import spec

ENDS_AT = 10.0


@pytest.fixture
def tenure() -> LeaseState:
    return LeaseState(spec(), "me", 7, ENDS_AT, 1000.0)


def test_it_is_held_until_its_end_and_lost_from_then_on(tenure: LeaseState) -> None:
    assert (tenure.is_held(9.999), tenure.is_lost(9.999)) == (True, False)
    assert (tenure.is_held(ENDS_AT), tenure.is_lost(ENDS_AT)) == (False, True)
    tenure.require_held(9.999)
    with pytest.raises(LockLost, match="ran out unrenewed"):
        tenure.require_held(ENDS_AT)


def test_what_remains_is_never_negative(tenure: LeaseState) -> None:
    assert [tenure.remaining(now) for now in (4.0, ENDS_AT, 11.0)] == [6.0, 0.0, 0.0]


def test_released_it_is_neither_held_nor_lost(tenure: LeaseState) -> None:
    tenure.mark_released()
    for now in (0.0, 11.0):
        assert (tenure.is_held(now), tenure.is_lost(now)) == (False, False)
        assert tenure.remaining(now) == 0.0
        with pytest.raises(NotHeld, match="released already") as raised:
            tenure.require_held(now)
        assert type(raised.value) is NotHeld
    assert not tenure.unsettled


def test_lost_it_stays_so_whatever_its_end_was(tenure: LeaseState) -> None:
    tenure.lose(TAKEN)
    assert (tenure.is_held(0.0), tenure.is_lost(0.0)) == (False, True)
    assert tenure.remaining(0.0) == 0.0
    assert tenure.unsettled
    with pytest.raises(LockLost) as raised:
        tenure.require_held(0.0)
    assert (raised.value.name, raised.value.fence, raised.value.why) == ("job", 7, TAKEN)


def test_its_end_moves_on_and_never_back(tenure: LeaseState) -> None:
    tenure.prolong(8.0)
    assert tenure.valid_until == ENDS_AT
    tenure.prolong(12.0)
    assert tenure.valid_until == 12.0


def test_a_claim_is_on_the_name_with_the_prefix() -> None:
    asked: LockSpec = spec("job")
    assert (asked.name, asked.key) == ("job", "p:job")


def test_a_node_has_a_third_of_the_ttl_and_no_longer_than_that() -> None:
    assert [node_timeout(ttl) for ttl in (3.0, 15.0, 60.0)] == [1.0, 5.0, NODE_TIMEOUT]


def test_clocks_that_drift_cost_validity() -> None:
    assert validity(10.0, lambda ttl: ttl / 100) == 9.9
    assert validity(10.0, same_clock) == 10.0
