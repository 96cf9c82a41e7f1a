"""The leases of one client, and when something is due for them."""

import gc
from math import inf
from random import Random

import pytest

from holdfast.core.lease_state import LeaseState
from tests.core.hand import NOW, TTL, Hand, spec


def test_a_lease_is_found_by_its_holder_while_it_is_held() -> None:
    hand = Hand()
    registry = hand.runtime.registry
    mine, attempt = hand.lease(), hand.lease(holder="other#2")
    assert registry.find("me") is mine
    assert registry.find("other") is attempt, "a quorum grants to one attempt of a holder"
    assert registry.find("other#2") is attempt
    assert registry.find("unknown") is None
    mine.mark_released()
    assert registry.find("me") is None
    registry.remove(attempt)
    assert registry.find("other") is None
    assert registry.held() == []


def test_a_holder_without_a_lease_is_not_looked_for_among_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand waiters may be cancelled at once beside ten thousand leases."""
    registry = Hand().runtime.registry
    monkeypatch.setattr(type(registry), "held", lambda _: pytest.fail("it looked at all"))
    assert registry.find("unknown") is None


def test_what_nothing_else_refers_to_is_forgotten() -> None:
    hand = Hand()
    kept = hand.lease(holder="kept")
    dropped = LeaseState(spec(), "dropped", 7, NOW + 1)
    hand.runtime.registry.add(dropped)
    del dropped
    gc.collect()
    assert hand.runtime.registry.held() == [kept]
    assert hand.runtime.registry.next_deadline() == kept.valid_until


def test_the_earliest_renewal_comes_first() -> None:
    hand, random = Hand(), Random(1)
    for number in range(50):
        hand.lease(holder=str(number), renew_at=random.uniform(NOW, NOW + 10))
    registry = hand.runtime.registry
    instants = sorted(lease.renew_at for lease in registry.held())
    assert [lease.renew_at for lease in registry.to_renew()] == instants
    assert registry.next_renewal() == instants[0]


def test_an_instant_that_was_moved_counts_as_moved() -> None:
    hand = Hand()
    hand.lease().prolong(NOW + 2 * TTL)
    assert hand.runtime.registry.next_deadline() == NOW + 2 * TTL


def test_ended_leases_are_passed_over() -> None:
    hand = Hand()
    hand.lease(holder="released", until=NOW + 1, renew_at=NOW).mark_released()
    held = hand.lease(holder="held", until=NOW + 2, renew_at=NOW + 1)
    assert hand.runtime.registry.next_deadline() == NOW + 2
    assert hand.runtime.registry.next_renewal() == NOW + 1
    assert hand.runtime.registry.to_renew() == [held]


def test_what_is_not_renewed_has_no_instant() -> None:
    hand = Hand()
    hand.lease(renew_at=inf)
    assert hand.runtime.registry.to_renew() == []
    assert hand.runtime.registry.next_renewal() == inf
