"""What a holder does with its lease, step by step: what is asked, and what is true then."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.effects import Ask
from holdfast.core.holding import extend, give_back, leave, release, release_all, report_loss
from holdfast.core.lease_state import EXPIRED, FOREIGN, HELD, LOST, RELEASED, TAKEN
from holdfast.core.messages import DONE, NOT_YOURS, Extend, Release
from holdfast.errors import EngineUnavailable, LockLost, NotHeld
from holdfast.events import ReleaseFailed
from tests.core.hand import BROKEN, DRIFT, MIN_TTL, NOW, PATIENCE, TTL, Hand, spec

ENDS_AT = NOW + TTL


def extending(ttl: float, until: float) -> Ask:
    return Ask((Extend("p:job", "me", ttl, 7),), until)


def releasing(until: float = NOW + PATIENCE) -> Ask:
    return Ask((Release("p:job", "me"),), until)


class Striking:
    """A mutex after which a signal handler raises something."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            raise self._error


class TestExtending:
    def test_the_new_end_counts_from_before_it_was_asked_for(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        play = hand.play(extend(hand.runtime, tenure, 20.0))
        assert play.effect == extending(20.0, NOW + PATIENCE)
        assert play.hears(DONE, at=NOW + 1).error is None
        assert tenure.valid_until == NOW + 20 - DRIFT

    def test_an_answer_is_not_waited_for_beyond_the_end(self) -> None:
        hand = Hand()
        tenure = hand.tenure(until=NOW + 1)
        assert hand.play(extend(hand.runtime, tenure, 20.0)).effect == extending(20.0, NOW + 1)

    def test_one_that_comes_at_the_end_comes_too_late(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        play = hand.play(extend(hand.runtime, tenure, 20.0)).hears(DONE, at=ENDS_AT)
        assert isinstance(play.error, LockLost)
        assert (tenure.state, tenure.why, tenure.valid_until) == (LOST, EXPIRED, ENDS_AT)
        assert list(hand.runtime.schedule.unnotified) == [tenure]
        assert hand.roused == 1

    def test_nothing_is_asked_from_its_end_on_though_nobody_has_noticed_yet(self) -> None:
        hand = Hand()
        play = hand.play(extend(hand.runtime, hand.tenure(until=NOW), 20.0))
        assert play.effect is None
        assert isinstance(play.error, LockLost)

    def test_not_yours_is_a_loss_that_is_told(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        play = hand.play(extend(hand.runtime, tenure, 20.0)).hears(NOT_YOURS)
        assert isinstance(play.error, LockLost)
        assert (tenure.state, tenure.why) == (LOST, TAKEN)
        assert list(hand.runtime.schedule.unnotified) == [tenure]
        assert hand.roused == 1

    def test_a_failure_changes_nothing_and_says_what_is_left(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        play = hand.play(extend(hand.runtime, tenure, 20.0)).hears(BROKEN, at=NOW + 2)
        assert isinstance(play.error, EngineUnavailable)
        assert "still yours for 13.000 s" in str(play.error)
        assert "the connection was closed" in str(play.error)
        assert (tenure.state, tenure.valid_until) == (HELD, ENDS_AT)

    def test_an_answer_never_takes_time_away(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        assert hand.play(extend(hand.runtime, tenure, 5.0)).hears(DONE).error is None
        assert tenure.valid_until == ENDS_AT

    def test_max_hold_bounds_what_is_asked_for_and_what_is_believed(self) -> None:
        hand = Hand()
        tenure = hand.tenure(hold_until=NOW + 18)
        play = hand.play(extend(hand.runtime, tenure, 20.0))
        assert play.effect == extending(18.0, NOW + PATIENCE)
        play.hears(DONE)
        assert tenure.valid_until == NOW + 18 - DRIFT

    def test_no_less_is_asked_for_than_the_engine_can_give_yet_no_more_is_believed(self) -> None:
        hand = Hand()
        end = NOW + MIN_TTL / 5
        tenure = hand.tenure(until=end - 0.01, hold_until=end)
        play = hand.play(extend(hand.runtime, tenure, 20.0))
        assert play.effect == extending(MIN_TTL, end - 0.01)
        play.hears(DONE)
        assert tenure.valid_until == end

    def test_what_was_released_meanwhile_stays_so(self) -> None:
        hand = Hand()
        for answer in (DONE, NOT_YOURS, BROKEN):
            tenure = hand.tenure()
            play = hand.play(extend(hand.runtime, tenure, 20.0))
            tenure.mark_released()
            assert type(play.hears(answer).error) is NotHeld
            assert (tenure.state, tenure.valid_until) == (RELEASED, ENDS_AT)


class TestReleasing:
    def test_it_is_not_held_from_the_moment_on_at_which_it_is_asked(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        play = hand.play(release(hand.runtime, tenure))
        assert play.effect == releasing()
        assert tenure.state is RELEASED
        assert play.hears(DONE).error is None

    def test_at_its_end_it_is_lost_and_given_back_all_the_same(self) -> None:
        hand = Hand()
        tenure = hand.tenure(until=NOW)
        play = hand.play(release(hand.runtime, tenure))
        assert play.effect == releasing()
        assert (tenure.state, tenure.why) == (LOST, EXPIRED)
        assert list(hand.runtime.schedule.unnotified) == [tenure]
        for answer in (BROKEN, DONE):
            play.hears(answer)
        assert isinstance(play.error, LockLost)

    def test_a_loss_is_told_once_and_keeps_its_reason(self) -> None:
        hand = Hand()
        tenure = hand.tenure(until=NOW)
        hand.play(release(hand.runtime, tenure)).hears(NOT_YOURS)
        assert tenure.why == EXPIRED
        assert list(hand.runtime.schedule.unnotified) == [tenure]

    def test_what_was_lost_before_is_given_back_too(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        tenure.lose(TAKEN)
        play = hand.play(release(hand.runtime, tenure))
        assert play.effect == releasing()
        assert isinstance(play.hears(DONE).error, LockLost)

    def test_not_yours_is_a_loss_that_is_told(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        play = hand.play(release(hand.runtime, tenure)).hears(NOT_YOURS)
        assert isinstance(play.error, LockLost)
        assert (tenure.state, tenure.why) == (LOST, TAKEN)
        assert list(hand.runtime.schedule.unnotified) == [tenure]

    def test_a_failure_says_for_how_long_others_are_kept_out(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        play = hand.play(release(hand.runtime, tenure)).hears(BROKEN, at=NOW + PATIENCE)
        assert isinstance(play.error, EngineUnavailable)
        assert "in about 13.000 s" in str(play.error)
        assert tenure.state is RELEASED

    def test_a_lost_connection_is_followed_by_one_more_try_within_the_same_time(self) -> None:
        hand = Hand()
        play = hand.play(release(hand.runtime, hand.tenure())).hears(BROKEN, at=NOW + 1)
        assert play.effect == releasing()
        play.hears(BROKEN, at=NOW + PATIENCE)
        assert isinstance(play.error, EngineUnavailable)

    @pytest.mark.parametrize("answer", [DONE, NOT_YOURS])
    def test_what_an_interrupted_release_may_have_left_is_given_back(self, answer: Any) -> None:
        hand = Hand()
        tenure = hand.tenure()
        stop = KeyboardInterrupt()
        play = hand.play(release(hand.runtime, tenure))
        hand.now += 1
        assert play.interrupt(stop).effect == releasing(NOW + 1 + PATIENCE)
        assert play.hears(answer).error is stop
        assert tenure.state is RELEASED

    def test_so_is_one_that_was_interrupted_before_it_could_ask(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        stop = KeyboardInterrupt()
        hand.runtime.mutex = Striking(stop)
        play = hand.play(release(hand.runtime, tenure))
        assert (play.effect, tenure.state) == (releasing(), RELEASED)
        assert play.hears(DONE).error is stop

    @pytest.mark.parametrize("depth", [1, 2])
    def test_but_not_one_that_is_still_held_or_was_given_back_before(self, depth: int) -> None:
        hand = Hand()
        tenure = hand.tenure()
        tenure.depth = depth
        if depth == 1:
            tenure.mark_released()
        hand.runtime.mutex = Striking(KeyboardInterrupt())
        play = hand.play(release(hand.runtime, tenure))
        assert play.effect is None
        assert play.error is not None

    def test_one_whose_driver_is_gone_asks_for_nothing_more(self) -> None:
        hand = Hand()
        play = hand.play(release(hand.runtime, hand.tenure())).interrupt(GeneratorExit())
        assert isinstance(play.error, GeneratorExit)

    def test_entered_twice_it_is_given_back_once(self) -> None:
        hand = Hand()
        tenure = hand.tenure()
        tenure.depth += 2
        for depth in (2, 1):
            play = hand.play(release(hand.runtime, tenure))
            assert (play.effect, play.error, tenure.depth) == (None, None, depth)
            assert tenure.state is HELD
        assert hand.play(release(hand.runtime, tenure)).effect == releasing()

    def test_an_inner_release_tells_of_a_loss_and_the_outer_one_again(self) -> None:
        hand = Hand()
        tenure = hand.tenure(until=NOW)
        tenure.depth = 2
        assert isinstance(hand.play(release(hand.runtime, tenure)).error, LockLost)
        outer = hand.play(release(hand.runtime, tenure))
        assert outer.effect == releasing()
        assert isinstance(outer.hears(NOT_YOURS).error, LockLost)

    @pytest.mark.parametrize("end", ["mark_released", "mark_inherited"])
    def test_what_is_not_ours_is_not_touched(self, end: str) -> None:
        hand = Hand()
        tenure = hand.tenure(until=NOW)  # even if its time has passed
        getattr(tenure, end)()
        for steps in (release(hand.runtime, tenure), extend(hand.runtime, tenure, 1.0)):
            play = hand.play(steps)
            assert play.effect is None
            assert type(play.error) is NotHeld


class TestGivingBack:
    """What may have been left behind, of which nobody has a lease."""

    @pytest.mark.parametrize("answer", [DONE, NOT_YOURS])
    def test_an_answer_is_the_end_of_it(self, answer: Any) -> None:
        hand = Hand()
        play = hand.play(give_back(hand.runtime, spec(), "me", PATIENCE))
        assert play.effect == releasing()
        assert play.hears(answer).effect is None
        assert hand.events == []

    def test_silence_to_the_end_is_not_followed_by_anything(self) -> None:
        hand = Hand()
        play = hand.play(give_back(hand.runtime, spec(), "me", PATIENCE))
        assert play.hears(BROKEN, at=NOW + PATIENCE).effect is None
        assert [type(event) for event in hand.events] == [ReleaseFailed]


class TestLeaving:
    def test_a_block_that_ended_well_gives_its_lease_back(self) -> None:
        hand = Hand()
        play = hand.play(leave(hand.runtime, hand.tenure(), None))
        assert play.effect == releasing()
        assert play.hears(DONE).error is None

    @pytest.mark.parametrize("answers", [[NOT_YOURS], [BROKEN, BROKEN]])
    def test_what_goes_wrong_is_raised_or_noted_on_what_the_block_raised(
        self, answers: list[Any]
    ) -> None:
        for error in (None, ValueError("mine")):
            hand = Hand()
            play = hand.play(leave(hand.runtime, hand.tenure(), error))
            for answer in answers:
                play.hears(answer)
            if error is None:
                assert isinstance(play.error, (LockLost, EngineUnavailable))
            else:
                assert play.error is None
                [note] = error.__notes__
                assert note.startswith("holdfast: ")

    @pytest.mark.parametrize("error", [None, ValueError()])
    @pytest.mark.parametrize("end", ["mark_released", "mark_inherited"])
    def test_what_the_block_has_let_go_of_is_left_alone(
        self, error: BaseException | None, end: str
    ) -> None:
        hand = Hand()
        tenure = hand.tenure()
        getattr(tenure, end)()
        play = hand.play(leave(hand.runtime, tenure, error))
        assert (play.effect, play.error) == (None, None)

    def test_a_loss_that_turns_up_on_the_way_out_is_raised(self) -> None:
        """Another thread was releasing it, and is told just now that it was not there any more."""
        hand = Hand()
        tenure = hand.tenure()
        tenure.mark_released()
        leaving = leave(hand.runtime, tenure, None)
        tenure.lose(TAKEN)
        assert isinstance(hand.play(leaving).hears(NOT_YOURS).error, LockLost)

    def test_after_the_client_was_closed_only_a_loss_is_told(self) -> None:
        hand = Hand()
        tenure, error = hand.tenure(), ValueError()
        report_loss(tenure, None)
        tenure.lose(TAKEN)
        with pytest.raises(LockLost):
            report_loss(tenure, None)
        report_loss(tenure, error)
        assert [note.startswith("holdfast: ") for note in error.__notes__] == [True]


class TestClosing:
    def test_all_are_given_back_in_one_go_within_the_longest_patience(self) -> None:
        hand = Hand()
        short = hand.tenure(name="short", request_timeout=1.0)
        long = hand.tenure(name="long", request_timeout=4.0)
        hand.tenure(name="done").mark_released()
        hand.runtime.schedule.lost(short)
        play = hand.play(release_all(hand.runtime))
        assert play.effect == Ask((Release("p:short", "me"), Release("p:long", "me")), NOW + 4)
        assert (short.state, long.state) == (RELEASED, RELEASED)
        assert list(hand.runtime.schedule.held()) == []
        assert not hand.runtime.schedule.unnotified
        play.hears(BROKEN, DONE)
        assert (play.effect, play.error) == (None, None)
        assert hand.events == [ReleaseFailed("short", "node: the connection was closed")]

    def test_nothing_is_asked_if_nothing_is_held(self) -> None:
        hand = Hand()
        play = hand.play(release_all(hand.runtime))
        assert (play.effect, play.error) == (None, None)


def test_a_forked_childs_copy_is_neither_held_nor_lost() -> None:
    hand = Hand()
    tenure = hand.tenure()
    tenure.mark_inherited()
    assert tenure.state is FOREIGN
    facts: list[Callable[[float], object]] = [tenure.is_held, tenure.is_lost, tenure.remaining]
    for now in (NOW, ENDS_AT + 1):
        assert [fact(now) for fact in facts] == [False, False, 0.0]
    with pytest.raises(NotHeld, match="forked"):
        tenure.require_held(NOW)
