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
    play = hand.play(explain_unguarded(hand.runtime, hand.tenure()))
    assert play.effect == Ask((Inspect("p:job"),), NOW + PATIENCE)


def test_a_lease_that_is_there_means_another_transaction_or_database() -> None:
    hand = Hand()
    tenure = hand.tenure()
    play = hand.play(explain_unguarded(hand.runtime, tenure)).hears(MINE)
    assert isinstance(play.error, ValueError)
    assert tenure.state is HELD
    assert not hand.runtime.schedule.unnotified


@pytest.mark.parametrize("answer", [THEIRS, Listing(())])
def test_one_that_is_not_there_is_lost(answer: Answer) -> None:
    hand = Hand()
    tenure = hand.tenure()
    play = hand.play(explain_unguarded(hand.runtime, tenure)).hears(answer)
    assert isinstance(play.error, LockLost)
    assert (tenure.state, tenure.why) == (LOST, TAKEN)
    assert list(hand.runtime.schedule.unnotified) == [tenure]


def test_so_is_one_whose_time_has_passed_meanwhile() -> None:
    hand = Hand()
    play = hand.play(explain_unguarded(hand.runtime, hand.tenure())).hears(MINE, at=NOW + TTL)
    assert isinstance(play.error, LockLost)
    assert play.error.why == EXPIRED


def test_what_was_released_meanwhile_is_not_lost() -> None:
    hand = Hand()
    tenure = hand.tenure()
    play = hand.play(explain_unguarded(hand.runtime, tenure))
    tenure.mark_released()
    assert type(play.hears(THEIRS).error) is NotHeld
    assert not hand.runtime.schedule.unnotified


def test_an_engine_that_cannot_be_asked_is_said_so() -> None:
    hand = Hand()
    tenure = hand.tenure()
    play = hand.play(explain_unguarded(hand.runtime, tenure)).hears(BROKEN)
    assert isinstance(play.error, EngineUnavailable)
    assert tenure.state is HELD
