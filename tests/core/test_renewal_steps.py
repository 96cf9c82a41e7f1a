"""The renewer, step by step: what it asks for, until when, and when it looks again."""

from math import inf
from weakref import ref

import pytest

from holdfast.core.effects import Ask, NotifyLost, Subscribe, Wait
from holdfast.core.lease_state import EXPIRED, HELD, LOST, TAKEN, LeaseState
from holdfast.core.messages import DONE, NOT_YOURS, Extend
from holdfast.core.renewal import BATCH, GRID, MANY, RENEWER, plan_renewal, renew_for_ever
from holdfast.events import Lost, RenewalFailed
from tests.core.hand import BROKEN, DRIFT, MIN_TTL, NOW, PATIENCE, TTL, Hand, Play, spec

THIRD = TTL / 3
STEP = THIRD / GRID


def awake(hand: Hand) -> Play:
    """A renewer that has begun."""
    play = hand.play(renew_for_ever(hand.runtime))
    assert play.effect == Subscribe(RENEWER)
    return play.goes_on()


def due(hand: Hand, **asked: object) -> LeaseState:
    """A lease that is to be renewed now, and ends in a while."""
    tenure = hand.tenure(**asked)  # type: ignore[arg-type]
    tenure.renew_at = NOW
    hand.runtime.schedule.clear()
    hand.runtime.schedule.enter(tenure)
    return tenure


class TestPlans:
    def test_a_renewal_falls_on_the_grid_a_third_of_the_ttl_later_or_a_little_less(self) -> None:
        tenure = Hand().tenure()
        for began in (NOW, NOW + 0.1, NOW + 0.3999, NOW + 0.4, NOW + 3.7):
            plan_renewal(tenure, began)
            assert THIRD - STEP < tenure.renew_at - began <= THIRD + 1e-9
            assert tenure.renew_at / STEP == pytest.approx(round(tenure.renew_at / STEP))

    def test_leases_of_one_grid_step_share_one_instant(self) -> None:
        first, second = Hand().tenure(), Hand().tenure()
        plan_renewal(first, NOW + 0.01)
        plan_renewal(second, NOW + STEP - 0.01)
        assert first.renew_at == second.renew_at

    def test_what_is_not_to_be_renewed_or_has_reached_max_hold_has_no_plan(self) -> None:
        for tenure in (
            Hand().tenure(renew=False),
            Hand().tenure(until=NOW + 5, hold_until=NOW + 5),
        ):
            tenure.renew_at = NOW  # as it was planned before
            plan_renewal(tenure, NOW)
            assert tenure.renew_at == inf


class TestRenewing:
    def test_it_asks_when_it_is_due_and_plans_from_before_it_asked(self) -> None:
        hand = Hand()
        tenure = due(hand)
        play = awake(hand)
        assert play.effect == Ask((Extend("p:job", "me", TTL, 7),), NOW + PATIENCE)
        play.hears(DONE, at=NOW + 1)
        assert tenure.valid_until == NOW + TTL  # it was to end then anyway, without the drift
        assert tenure.renew_at == NOW + THIRD
        assert play.effect == Wait(RENEWER, tenure.renew_at)
        assert hand.runtime.schedule.asleep_until == tenure.renew_at

    def test_validity_counts_from_before_it_asked_less_the_drift(self) -> None:
        hand = Hand()
        tenure = due(hand, until=NOW + 5)
        awake(hand).hears(DONE, at=NOW + 1)
        assert tenure.valid_until == NOW + TTL - DRIFT

    def test_while_it_asks_nobody_needs_to_rouse_it(self) -> None:
        hand = Hand()
        due(hand)
        play = awake(hand)
        assert isinstance(play.effect, Ask)
        assert hand.runtime.schedule.asleep_until == -inf
        assert not hand.runtime.schedule.enter(hand.tenure(until=NOW + 0.1))

    def test_no_answer_is_waited_for_beyond_the_first_end_of_any_lease(self) -> None:
        hand = Hand()
        due(hand)
        hand.tenure(name="other", renew=False, until=NOW + 1.5)
        play = awake(hand)
        assert isinstance(play.effect, Ask)
        assert play.effect.until == NOW + 1.5

    def test_the_longest_patience_counts_and_more_for_very_many(self) -> None:
        for count, factor in ((MANY, 1.0), (2 * MANY, 2.0)):
            hand = Hand()
            kept = [
                hand.tenure(name=str(number), request_timeout=1.0 if number else PATIENCE)
                for number in range(count)
            ]
            hand.runtime.schedule.clear()
            for each in kept:
                each.renew_at = NOW
                hand.runtime.schedule.enter(each)
            play = awake(hand)
            assert isinstance(play.effect, Ask)
            assert play.effect.until == NOW + PATIENCE * factor

    def test_at_most_a_batch_goes_out_at_once_and_the_rest_right_after(self) -> None:
        hand = Hand()
        kept = [hand.tenure(name=str(number)) for number in range(BATCH + 3)]
        hand.runtime.schedule.clear()
        for each in kept:
            each.renew_at = NOW
            hand.runtime.schedule.enter(each)
        play = awake(hand)
        for count in (BATCH, 3):
            assert isinstance(play.effect, Ask)
            assert len(play.effect.requests) == count
            play.hears(*[DONE] * count)
        assert isinstance(play.effect, Wait)

    def test_each_of_a_batch_has_its_own_answer(self) -> None:
        hand = Hand()
        kept = [hand.tenure(name=name) for name in ("first", "second", "third")]
        hand.runtime.schedule.clear()
        for tenure in kept:
            tenure.renew_at = NOW
            hand.runtime.schedule.enter(tenure)
        awake(hand).hears(DONE, NOT_YOURS, BROKEN)
        assert [tenure.state for tenure in kept] == [HELD, LOST, HELD]
        assert kept[0].renew_at > kept[2].renew_at, "the last is tried again soon"

    def test_while_it_sleeps_it_keeps_no_lease_alive(self) -> None:
        hand = Hand()
        tenure = LeaseState(spec(), "me", 7, NOW + TTL, inf)
        tenure.renew_at = NOW
        hand.runtime.schedule.enter(tenure)
        play = awake(hand).hears(DONE)
        assert isinstance(play.effect, Wait)
        abandoned = ref(tenure)
        del tenure
        assert abandoned() is None

    def test_a_failure_is_told_and_tried_again_soon(self) -> None:
        hand = Hand()
        tenure = due(hand)
        play = awake(hand).hears(BROKEN, at=NOW + 2)
        assert hand.events == [RenewalFailed("job", 7, TTL - 2, str(BROKEN))]
        assert (tenure.state, tenure.valid_until) == (HELD, NOW + TTL)
        assert play.effect == Wait(RENEWER, NOW + 2 + THIRD / 10)

    def test_one_whose_end_was_moved_meanwhile_is_not_asked_for(self) -> None:
        hand = Hand()
        tenure = due(hand)
        tenure.renew_at = NOW + 1
        assert awake(hand).effect == Wait(RENEWER, NOW + 1)

    def test_the_last_renewal_before_max_hold_asks_for_what_is_left(self) -> None:
        hand = Hand()
        tenure = due(hand, until=NOW + 2, hold_until=NOW + 5)
        play = awake(hand)
        assert play.effect == Ask((Extend("p:job", "me", 5.0, 7),), NOW + 2)
        play.hears(DONE)
        assert tenure.valid_until == NOW + 5 - DRIFT

    def test_less_than_the_engine_can_give_is_not_asked_for(self) -> None:
        hand = Hand()
        end = NOW + MIN_TTL - 0.01
        tenure = due(hand, until=end - 0.1, hold_until=end)
        assert awake(hand).effect == Wait(RENEWER, end - 0.1)
        assert tenure.renew_at == inf
        hand = Hand()
        due(hand, until=NOW + 0.1, hold_until=NOW + MIN_TTL)
        assert isinstance(awake(hand).effect, Ask)


class TestLosses:
    def test_at_its_end_it_is_lost_and_told_before_anything_is_asked(self) -> None:
        hand = Hand()
        other = due(hand, name="other")
        watcher = lambda: None  # noqa: E731 - a name for it is all that is needed
        tenure = hand.tenure(until=NOW)
        tenure.watchers = (watcher,)
        play = awake(hand)
        assert play.effect == NotifyLost((watcher,))
        assert (tenure.state, tenure.why) == (LOST, EXPIRED)
        assert hand.events == [Lost("job", 7, EXPIRED)]
        assert play.goes_on().effect == Ask((Extend("p:other", "me", TTL, 7),), NOW + PATIENCE)
        assert other.state is HELD

    def test_nothing_is_asked_for_one_that_is_lost_though_its_renewal_is_due(self) -> None:
        hand = Hand()
        tenure = due(hand, until=NOW)
        assert awake(hand).effect == Wait(RENEWER, inf)
        assert tenure.state is LOST

    def test_those_who_were_lost_first_are_told_first(self) -> None:
        hand = Hand()
        kept = [hand.tenure(name=name) for name in ("first", "second")]
        for tenure in kept:
            tenure.lose(TAKEN)
            hand.runtime.schedule.lost(tenure)
        awake(hand)
        assert hand.events == [Lost("first", 7, TAKEN), Lost("second", 7, TAKEN)]

    def test_not_yours_is_told_at_once(self) -> None:
        hand = Hand()
        tenure = due(hand)
        play = awake(hand).hears(NOT_YOURS)
        assert (tenure.state, tenure.why) == (LOST, TAKEN)
        assert hand.events == [Lost("job", 7, TAKEN)]
        assert play.effect == Wait(RENEWER, inf)

    def test_an_answer_that_comes_at_the_end_comes_too_late(self) -> None:
        hand = Hand()
        tenure = due(hand, until=NOW + 1)
        awake(hand).hears(DONE, at=NOW + 1)
        assert (tenure.state, tenure.why, tenure.valid_until) == (LOST, EXPIRED, NOW + 1)


class TestItsOwnEnd:
    def test_whoever_takes_a_lease_then_must_start_another_renewer(self) -> None:
        hand = Hand()
        due(hand)
        play = awake(hand)
        assert play.interrupt(KeyboardInterrupt()).effect is None
        assert hand.runtime.schedule.asleep_until == inf

    def test_the_next_one_goes_on_with_what_it_had_in_hand(self) -> None:
        hand = Hand()
        due(hand)
        first = awake(hand)
        asked = first.effect
        first.interrupt(KeyboardInterrupt())
        assert awake(hand).effect == asked
