"""What a holder does with its lease, step by step: extending it, and learning of its loss."""

import pytest

from holdfast.core.effects import Ask
from holdfast.core.holding import extend, lose, mark_lost
from holdfast.core.lease_state import EXPIRED, HELD, LOST, RELEASED, TAKEN
from holdfast.core.messages import DONE, NOT_YOURS, Extend, Release
from holdfast.core.runtime import RENEWER
from holdfast.errors import EngineUnavailable, LockLost, NotHeld
from tests.core.hand import BROKEN, DRIFT, MIN_TTL, NOW, PATIENCE, TTL, Hand

ENDS_AT = NOW + TTL
MY_RELEASE = Release("p:job", "me")


def extending(ttl: float, until: float) -> Ask:
    return Ask((Extend("p:job", "me", ttl, 7),), until)


class TestExtending:
    def test_the_new_end_counts_from_before_it_was_asked_for(self) -> None:
        hand = Hand()
        lease = hand.lease()
        play = hand.play(extend(hand.runtime, lease, 20.0))
        assert play.effect == extending(20.0, NOW + PATIENCE)
        assert play.hears(DONE, at=NOW + 1).error is None
        assert lease.valid_until == NOW + 20 - DRIFT

    def test_an_answer_is_not_waited_for_beyond_the_end(self) -> None:
        hand = Hand()
        lease = hand.lease(until=NOW + 1)
        assert hand.play(extend(hand.runtime, lease, 20.0)).effect == extending(20.0, NOW + 1)

    def test_one_that_comes_at_the_end_comes_too_late(self) -> None:
        hand = Hand()
        lease = hand.lease()
        play = hand.play(extend(hand.runtime, lease, 20.0)).hears(DONE, at=ENDS_AT)
        assert isinstance(play.error, LockLost)
        assert (lease.state, lease.why, lease.valid_until) == (LOST, EXPIRED, ENDS_AT)
        assert hand.lost == [lease]

    def test_nothing_is_asked_from_its_end_on_though_no_timer_has_noticed_yet(self) -> None:
        hand = Hand()
        play = hand.play(extend(hand.runtime, hand.lease(until=NOW), 20.0))
        assert play.effect is None
        assert isinstance(play.error, LockLost)

    def test_not_yours_is_a_loss(self) -> None:
        hand = Hand()
        lease = hand.lease()
        play = hand.play(extend(hand.runtime, lease, 20.0)).hears(NOT_YOURS)
        assert isinstance(play.error, LockLost)
        assert (lease.state, lease.why) == (LOST, TAKEN)
        assert hand.lost == [lease]

    def test_a_failure_changes_nothing_and_says_what_is_left(self) -> None:
        hand = Hand()
        lease = hand.lease()
        play = hand.play(extend(hand.runtime, lease, 20.0)).hears(BROKEN, at=NOW + 2)
        assert isinstance(play.error, EngineUnavailable)
        assert "still yours for 13.000 s" in str(play.error)
        assert "the connection was closed" in str(play.error)
        assert (lease.state, lease.valid_until) == (HELD, ENDS_AT)

    def test_an_answer_never_takes_time_away(self) -> None:
        hand = Hand()
        lease = hand.lease()
        assert hand.play(extend(hand.runtime, lease, 5.0)).hears(DONE).error is None
        assert lease.valid_until == ENDS_AT

    def test_a_shorter_extension_does_not_put_the_renewal_off(self) -> None:
        hand = Hand()
        lease = hand.lease(renew_at=NOW + 2)
        hand.play(extend(hand.runtime, lease, 5.0)).hears(DONE, at=NOW + 1)
        assert lease.renew_at == NOW + 2

    def test_max_hold_bounds_what_is_asked_for_and_what_is_believed(self) -> None:
        hand = Hand()
        lease = hand.lease(hold_until=NOW + 18)
        play = hand.play(extend(hand.runtime, lease, 20.0))
        assert play.effect == extending(18 + DRIFT, NOW + PATIENCE)
        play.hears(DONE)
        assert lease.valid_until == NOW + 18

    def test_it_is_cut_to_max_hold_in_whole_steps_of_the_engine(self) -> None:
        hand = Hand()
        hand.runtime.ttl_step = 1.0
        lease = hand.lease(until=NOW + 2, hold_until=NOW + 3.5)
        play = hand.play(extend(hand.runtime, lease, 20.0))
        assert play.effect == extending(4.0, NOW + PATIENCE)
        play.hears(DONE)
        assert lease.valid_until == NOW + 3.5

    def test_no_less_is_asked_for_than_the_engine_can_give_yet_no_more_is_believed(self) -> None:
        hand = Hand()
        end = NOW + MIN_TTL / 5
        lease = hand.lease(until=end - 0.01, hold_until=end)
        play = hand.play(extend(hand.runtime, lease, 20.0))
        assert play.effect == extending(MIN_TTL, end - 0.01)
        play.hears(DONE)
        assert lease.valid_until == end

    def test_what_was_released_meanwhile_stays_released(self) -> None:
        for answer in (DONE, NOT_YOURS, BROKEN):
            hand = Hand()
            lease = hand.lease()
            play = hand.play(extend(hand.runtime, lease, 20.0))
            lease.mark_released()
            assert type(play.hears(answer).error) is NotHeld
            assert (lease.state, lease.valid_until) == (RELEASED, ENDS_AT)
            assert hand.lost == []


class TestLosses:
    """However a loss is found out, its holder is told once, and the engine gets a release."""

    @pytest.mark.parametrize("answer", [DONE, NOT_YOURS, BROKEN])
    def test_a_lost_lease_is_released_by_the_renewer(self, answer: object) -> None:
        hand = Hand()
        lease = hand.lease()
        hand.play(extend(hand.runtime, lease, 20.0)).goes_on([answer], at=ENDS_AT)
        assert hand.pending == [MY_RELEASE]
        assert hand.woken[-1] == RENEWER
        assert hand.runtime.registry.held() == []

    def test_it_is_told_once_and_keeps_its_first_reason(self) -> None:
        hand = Hand()
        lease = hand.lease()
        for why in (TAKEN, EXPIRED):
            mark_lost(hand.runtime, lease, why)
        assert (lease.why, hand.lost) == (TAKEN, [lease])

    def test_the_engine_may_report_a_loss_unasked(self) -> None:
        hand = Hand()
        mine, other = hand.lease(), hand.lease(holder="other")
        lose(hand.runtime, ["unknown", "me"])
        assert (mine.state, mine.why, other.state) == (LOST, TAKEN, HELD)
        assert hand.lost == [mine]

    def test_a_report_about_an_ended_lease_changes_nothing(self) -> None:
        hand = Hand()
        lease = hand.lease()
        lose(hand.runtime, ["me"])
        lose(hand.runtime, ["me"])
        assert hand.lost == [lease]
        released = hand.lease(holder="released")
        released.mark_released()
        lose(hand.runtime, ["released"])
        assert released.state is RELEASED
