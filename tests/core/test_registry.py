"""The leases of one client, by the instants at which something is due."""

import gc
from math import inf
from random import Random

from holdfast.core.holding import plan
from holdfast.core.lease_state import LeaseState
from holdfast.core.registry import SWEEP_ABOVE
from tests.core.hand import NOW, TTL, Hand, spec

LATER = NOW + 100.0


def test_a_lease_is_found_by_its_holder_while_it_is_held() -> None:
    hand = Hand()
    registry = hand.runtime.registry
    mine, attempt = hand.lease(), hand.lease(holder="other#2")
    assert registry.find("me") is mine
    assert registry.find("other") is attempt, "a quorum grants to one attempt of a holder"
    assert registry.find("unknown") is None
    mine.mark_released()
    assert registry.find("me") is None
    registry.remove(attempt)
    assert registry.find("other") is None
    assert registry.held() == []


def test_what_nothing_else_refers_to_is_forgotten() -> None:
    hand = Hand()
    kept = hand.lease(holder="kept")
    dropped = LeaseState(hand.runtime, spec(), "dropped", 7, NOW + 1)
    hand.runtime.registry.add(dropped)
    plan(hand.runtime, dropped)
    del dropped
    gc.collect()
    assert hand.runtime.registry.held() == [kept]
    assert hand.runtime.registry.expired(LATER) == [kept]


def test_the_earliest_comes_first_and_each_once() -> None:
    hand, random = Hand(), Random(1)
    for number in range(50):
        hand.lease(holder=str(number), renew_at=random.uniform(NOW, NOW + 10))
    registry = hand.runtime.registry
    expected = sorted(lease.renew_at for lease in registry.held() if lease.renew_at <= NOW + 5)
    first = registry.due_renewals(NOW + 5, 10)
    rest = registry.due_renewals(NOW + 5, 100)
    assert len(first) == 10
    assert [lease.renew_at for lease in first + rest] == expected
    assert registry.due_renewals(NOW + 5, 100) == []


def test_one_that_was_entered_twice_comes_once() -> None:
    hand = Hand()
    lease = hand.lease(renew_at=NOW + 1)
    plan(hand.runtime, lease)
    plan(hand.runtime, lease)
    assert hand.runtime.registry.due_renewals(LATER, 10) == [lease]
    assert hand.runtime.registry.expired(LATER) == [lease]


def test_an_instant_that_was_moved_counts_as_moved() -> None:
    hand = Hand()
    lease = hand.lease()
    lease.prolong(NOW + 2 * TTL)
    plan(hand.runtime, lease)
    registry = hand.runtime.registry
    assert registry.expired(NOW + TTL) == []
    assert registry.deadlines.first() is lease
    assert registry.deadlines.fall_asleep() == NOW + 2 * TTL
    assert registry.expired(NOW + 2 * TTL) == [lease]


def test_ended_leases_are_passed_over() -> None:
    hand = Hand()
    hand.lease(holder="released", until=NOW + 1).mark_released()
    held = hand.lease(holder="held", until=NOW + 2)
    assert hand.runtime.registry.deadlines.first() is held
    assert hand.runtime.registry.expired(LATER) == [held]


def test_a_loop_sleeps_until_the_first_instant_or_until_the_latest_that_it_may() -> None:
    hand = Hand()
    hand.lease(renew_at=NOW + 9)
    renewals = hand.runtime.registry.renewals
    assert renewals.fall_asleep() == NOW + 9
    assert renewals.fall_asleep(latest=NOW + 5) == NOW + 5


def test_what_has_no_instant_is_not_entered() -> None:
    hand = Hand()
    hand.lease(renew_at=inf)
    assert hand.runtime.registry.renewals.first() is None
    assert hand.runtime.registry.renewals.fall_asleep() == inf


def test_out_of_date_entries_do_not_pile_up() -> None:
    """Leases that come and go cost no memory, and none that is held is forgotten."""
    hand = Hand()
    kept = hand.lease(holder="kept", until=LATER)
    registry = hand.runtime.registry
    for number in range(20 * SWEEP_ABOVE):
        lease = hand.lease(holder=str(number))
        lease.mark_released()
        registry.remove(lease)
    assert len(registry.deadlines._heap) <= 2 * SWEEP_ABOVE
    assert registry.deadlines.first() is kept
