"""Why a transaction does not see the lease that should guard it."""

import pytest

from holdfast.core.effects import Ask
from holdfast.core.holding import explain_unguarded
from holdfast.core.lease_state import EXPIRED, HELD, LOST, TAKEN
from holdfast.core.messages import Answer, Inspect, Listing, Seen
from holdfast.errors import EngineUnavailable, LockLost, NotHeld
from tests.core.hand import BROKEN, NOW, PATIENCE, TTL, Hand

MINE = Listing((Seen("p:job", "me", 7, 5.0, 0),))
THEIRS = Listing((Seen("p:job", "they", 8, 5.0, 0),))


def test_the_engine_is_asked_who_holds_it() -> None:
    hand = Hand()
    play = hand.play(explain_unguarded(hand.runtime, hand.lease()))
    assert play.effect == Ask((Inspect("p:job"),), NOW + PATIENCE)


def test_a_lease_that_is_there_means_another_transaction_or_database() -> None:
    hand = Hand()
    lease = hand.lease()
    play = hand.play(explain_unguarded(hand.runtime, lease)).hears(MINE)
    assert isinstance(play.error, ValueError)
    assert lease.state is HELD
    assert hand.lost == []


@pytest.mark.parametrize("answer", [THEIRS, Listing(())])
def test_one_that_is_not_there_is_lost(answer: Answer) -> None:
    hand = Hand()
    lease = hand.lease()
    play = hand.play(explain_unguarded(hand.runtime, lease)).hears(answer)
    assert isinstance(play.error, LockLost)
    assert (lease.state, lease.why) == (LOST, TAKEN)
    assert hand.lost == [lease]


def test_so_is_one_whose_time_has_passed_meanwhile() -> None:
    hand = Hand()
    play = hand.play(explain_unguarded(hand.runtime, hand.lease())).hears(MINE, at=NOW + TTL)
    assert isinstance(play.error, LockLost)
    assert play.error.why == EXPIRED


def test_what_was_released_meanwhile_is_not_lost() -> None:
    hand = Hand()
    lease = hand.lease()
    play = hand.play(explain_unguarded(hand.runtime, lease))
    lease.mark_released()
    assert type(play.hears(THEIRS).error) is NotHeld
    assert hand.lost == []


def test_an_engine_that_is_unreachable_is_said_so() -> None:
    hand = Hand()
    lease = hand.lease()
    play = hand.play(explain_unguarded(hand.runtime, lease)).hears(BROKEN)
    assert isinstance(play.error, EngineUnavailable)
    assert lease.state is HELD
