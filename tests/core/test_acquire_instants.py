"""Getting a lock, step by step: what is asked, until when, and what the answers come to."""

import pytest

from holdfast.core.acquire import (
    FAILING_PATIENCE,
    HASTE,
    MOST_CONTENDED,
    SHORTEST_WAIT,
    acquire,
)
from holdfast.core.backoff import FIRST, LONGEST
from holdfast.core.effects import Ask, Sleep, Subscribe, Wait
from holdfast.core.messages import DONE, NOT_YOURS, Acquire, Granted, HandedOver, Held, Release
from holdfast.errors import EngineUnavailable
from holdfast.events import ReleaseFailed
from tests.core.hand import BROKEN, DRIFT, NOW, PATIENCE, RETRY, TTL, Hand, Play, spec

HELD = Held(5.0, wakes=True)


def asking(until: float, *, queue: bool = False, ttl: float = TTL) -> Ask:
    return Ask((Acquire("p:job", "me", ttl, queue),), until)


def giving_back(until: float) -> Ask:
    return Ask((Release("p:job", "me"),), until)


def in_the_queue(hand: Hand, timeout: float | None) -> Play:
    """It was held, so it listens, asks for a place, and has one."""
    play = hand.play(acquire(hand.runtime, spec(), timeout))
    assert play.hears(HELD).effect == Subscribe("me")
    play.goes_on()
    assert isinstance(play.effect, Ask)
    assert play.effect.requests == (Acquire("p:job", "me", TTL, True),)
    return play.hears(HELD)


class TestGrants:
    def test_a_grant_is_a_lease_that_the_renewer_knows_of(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), None))
        assert play.effect == asking(NOW + PATIENCE)
        lease = play.hears(Granted(7), at=NOW + 1).result
        assert (lease.holder, lease.fence) == ("me", 7)
        assert lease.valid_until == NOW + TTL - DRIFT
        assert lease.renew_at == NOW + TTL / 3
        assert list(hand.runtime.schedule.held()) == [lease]
        assert hand.roused == 1
        assert hand.unlistened == []

    def test_the_renewer_is_not_roused_if_it_looks_in_time_anyway(self) -> None:
        hand = Hand()
        hand.runtime.schedule.asleep_until = NOW
        assert hand.play(acquire(hand.runtime, spec(), 0)).hears(Granted(7)).result is not None
        assert hand.roused == 0

    @pytest.mark.parametrize("timeout", [0, 1.0, None])
    def test_one_that_was_heard_at_the_end_of_its_validity_is_worth_nothing(
        self, timeout: float | None
    ) -> None:
        hand = Hand()
        ends_at = NOW + TTL - DRIFT
        in_time = hand.play(acquire(hand.runtime, spec(), timeout))
        assert in_time.hears(Granted(7), at=ends_at - 0.001).result is not None
        hand = Hand()
        late = hand.play(acquire(hand.runtime, spec(), timeout)).hears(Granted(7), at=ends_at)
        assert late.result is None
        assert late.effect is not None
        assert not list(hand.runtime.schedule.held())

    def test_one_that_came_too_late_is_given_back_and_told(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), 0)).hears(Granted(7), at=NOW + TTL)
        assert play.effect == giving_back(NOW + TTL + FAILING_PATIENCE)
        play.hears(DONE)
        assert isinstance(play.error, EngineUnavailable)
        assert "took 15.000 s to answer" in str(play.error)

    def test_its_validity_counts_from_the_try_that_was_granted(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, None)
        play.goes_on(True, at=NOW + 3)
        lease = play.hears(Granted(8), at=NOW + 4).result
        assert lease.valid_until == NOW + 3 + TTL - DRIFT
        assert hand.unlistened == ["me"]

    def test_max_hold_cuts_the_first_stretch_short(self) -> None:
        hand = Hand()
        short = hand.play(acquire(hand.runtime, spec(max_hold=3.0), 0)).hears(
            Granted(7), at=NOW + 1
        )
        assert (short.result.valid_until, short.result.hold_until) == (NOW + 3, NOW + 3)
        long = hand.play(acquire(hand.runtime, spec(max_hold=50.0), 0)).hears(Granted(8))
        assert long.result.valid_until == NOW + 1 + TTL - DRIFT
        assert long.result.hold_until == NOW + 1 + 50


class TestWaiting:
    def test_it_lasts_until_the_holders_time_is_over(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), None))
        play.hears(HELD, at=NOW + 1).goes_on()
        assert play.effect == asking(NOW + 1 + PATIENCE, queue=True)
        assert play.hears(HELD, at=NOW + 2).effect == Wait("me", NOW + 2 + HELD.remaining)
        play.goes_on(False, at=NOW + 7)
        assert play.effect == asking(NOW + 7 + PATIENCE, queue=True)

    def test_one_that_nobody_will_wake_looks_now_and_then(self) -> None:
        for held, pause in (
            (Held(5.0, wakes=False), RETRY),
            (Held(0.3, wakes=False), 0.3),
            (Held(0.0, wakes=True), SHORTEST_WAIT),
            (Held(0.0, wakes=False), SHORTEST_WAIT),
        ):
            hand = Hand()
            play = hand.play(acquire(hand.runtime, spec(), None)).hears(held).goes_on()
            assert play.hears(held).effect == Wait("me", NOW + pause)

    def test_no_wait_and_no_question_goes_beyond_the_timeout(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), 4.0))
        assert play.effect == asking(NOW + PATIENCE)
        assert play.hears(HELD, at=NOW + 1).goes_on().effect == asking(NOW + 3, queue=True)
        assert play.hears(HELD, at=NOW + 2).effect == Wait("me", NOW + 4)
        assert play.goes_on(True, at=NOW + 3.5).effect == asking(NOW + 4, queue=True)
        hand = Hand()
        assert hand.play(acquire(hand.runtime, spec(), 0.5)).effect == asking(NOW + 0.5)
        assert hand.play(acquire(hand.runtime, spec(), 0)).effect == asking(NOW + PATIENCE)

    def test_at_the_timeout_it_leaves_the_queue_and_has_nothing(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, 4.0).goes_on(False, at=NOW + 4)
        assert play.effect == giving_back(NOW + 4 + PATIENCE)
        play.hears(NOT_YOURS)
        assert (play.effect, play.result, play.error) == (None, None, None)
        assert hand.unlistened == ["me"]

    def test_an_answer_that_comes_at_the_timeout_is_the_last(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, 4.0).goes_on(True, at=NOW + 3).hears(HELD, at=NOW + 4)
        assert play.effect == giving_back(NOW + 4 + PATIENCE)

    def test_to_try_once_is_one_question(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), 0)).hears(HELD)
        assert (play.effect, play.result, play.error) == (None, None, None)


class TestHandOver:
    """In the queue it has asked twice: for the lock, and for a place."""

    def test_what_is_handed_over_is_held_from_before_the_request_that_had_it_wait(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, None)
        assert play.goes_on(True, at=NOW + 2).hears(HELD, at=NOW + 3).effect == Wait("me", NOW + 8)
        tenure = play.goes_on(HandedOver(9, 2), at=NOW + 4).result
        assert (tenure.fence, tenure.holder) == (9, "me")
        assert tenure.valid_until == NOW + 2 + TTL - DRIFT
        assert list(hand.runtime.schedule.held()) == [tenure]
        assert hand.unlistened == ["me"]

    @pytest.mark.parametrize("tries", [0, 2])
    def test_word_of_another_request_is_a_wake_up_and_no_more(self, tries: int) -> None:
        """Else one that was under way for long might speak of a lease that is over."""
        play = in_the_queue(Hand(), None)
        play.goes_on(HandedOver(9, tries), at=NOW + 1)
        assert play.effect == asking(NOW + 1 + PATIENCE, queue=True)
        assert play.hears(Granted(9), at=NOW + 1).result.valid_until == NOW + 1 + TTL - DRIFT

    def test_word_that_comes_later_than_an_answer_may_is_a_wake_up_and_no_more(self) -> None:
        """To ask again gives it a whole ttl."""
        late = NOW + PATIENCE + 0.001
        play = in_the_queue(Hand(), None)
        play.goes_on(HandedOver(9, 1), at=late)
        assert play.effect == asking(late + PATIENCE, queue=True)

    def test_nor_is_it_worth_anything_when_its_validity_is_over(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(request_timeout=TTL), None))
        play.hears(HELD).goes_on()
        play.hears(HELD).goes_on(HandedOver(9, 1), at=NOW + TTL - DRIFT)
        assert isinstance(play.effect, Ask)
        assert isinstance(play.effect.requests[0], Acquire)

    def test_word_that_comes_at_the_timeout_is_given_back(self) -> None:
        play = in_the_queue(Hand(), 3.0)
        assert play.goes_on(HandedOver(9, 1), at=NOW + 3).effect == giving_back(NOW + 3 + PATIENCE)
        assert play.hears(DONE).result is None

    def test_max_hold_counts_from_there_too(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(max_hold=4.0), None))
        play.hears(HELD).goes_on()
        tenure = play.hears(HELD).goes_on(HandedOver(9, 1), at=NOW + 1).result
        assert tenure.hold_until == NOW + 4


class TestContention:
    def test_whoever_wants_what_was_held_queues_at_once(self) -> None:
        hand = Hand()
        hand.play(acquire(hand.runtime, spec(), 0)).hears(HELD)
        assert hand.runtime.contended == {"p:job"}
        play = hand.play(acquire(hand.runtime, spec(), None))
        assert play.effect == Subscribe("me")
        assert play.goes_on().effect == asking(NOW + PATIENCE, queue=True)
        assert play.hears(Granted(7)).result is not None
        assert hand.runtime.contended == set()

    def test_but_not_to_try_once(self) -> None:
        hand = Hand()
        hand.runtime.contended.add("p:job")
        assert hand.play(acquire(hand.runtime, spec(), 0)).effect == asking(NOW + PATIENCE)

    def test_many_names_are_kept_in_mind_but_not_all(self) -> None:
        hand = Hand()
        for number in range(3 * MOST_CONTENDED):
            hand.play(acquire(hand.runtime, spec(f"job{number}"), 0)).hears(HELD)
            assert len(hand.runtime.contended) <= MOST_CONTENDED
            assert f"p:job{number}" in hand.runtime.contended
            assert "p:job0" in hand.runtime.contended or number >= 100


class TestFailures:
    def test_pauses_double_up_to_a_second(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(ttl=60.0), None))
        pauses: list[float] = []
        for _ in range(10):
            play.hears(BROKEN)
            assert isinstance(play.effect, Sleep)
            wakes_at = play.effect.until
            pauses.append(round(wakes_at - hand.now, 6))
            assert play.goes_on(at=wakes_at).effect == asking(wakes_at + PATIENCE, ttl=60.0)
        assert pauses[:4] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]
        assert pauses[-3:] == [LONGEST] * 3

    def test_without_a_timeout_it_ends_one_ttl_after_the_first_question_that_failed(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), None)).hears(BROKEN, at=NOW + 1)
        play.goes_on(at=NOW + 5).hears(BROKEN, at=NOW + TTL - 0.001)
        assert play.effect == Sleep(NOW + TTL)
        assert play.goes_on(at=NOW + TTL).effect == giving_back(NOW + TTL + FAILING_PATIENCE)
        play.hears(DONE)
        assert isinstance(play.error, EngineUnavailable)
        assert play.error.nodes == {"node": "the connection was closed"}

    def test_an_answer_in_between_begins_the_count_anew(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), None)).hears(BROKEN)
        play.goes_on(at=NOW + 6).hears(HELD).goes_on(at=NOW + 7).hears(BROKEN, at=NOW + 8)
        play.goes_on(at=NOW + 9).hears(BROKEN, at=NOW + 7 + TTL - 0.001)
        assert play.effect == Sleep(NOW + 7 + TTL)

    def test_with_a_timeout_it_ends_there(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), 30.0)).hears(BROKEN, at=NOW + TTL + 1)
        assert isinstance(play.effect, Sleep)
        play.goes_on(at=NOW + 29).hears(BROKEN, at=NOW + 29.99)
        assert play.effect == Sleep(NOW + 30)
        assert play.goes_on(at=NOW + 30).effect == giving_back(NOW + 30 + FAILING_PATIENCE)
        assert isinstance(play.hears(DONE).error, EngineUnavailable)

    def test_a_last_try_in_haste_does_not_make_a_held_lock_a_failure(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, 4.0).goes_on(True, at=NOW + 4 - HASTE / 2)
        play.hears(BROKEN, at=NOW + 4).hears(NOT_YOURS)
        assert (play.result, play.error) == (None, None)

    def test_one_that_had_time_does(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, 4.0).goes_on(True, at=NOW + 4 - 2 * HASTE)
        play.hears(BROKEN, at=NOW + 4).hears(NOT_YOURS)
        assert isinstance(play.error, EngineUnavailable)

    def test_nor_does_haste_excuse_an_engine_that_never_answered(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), HASTE / 2))
        play.hears(BROKEN, at=NOW + HASTE / 2).hears(BROKEN, at=NOW + 1)
        assert isinstance(play.error, EngineUnavailable)

    def test_a_held_lock_after_failures_is_no_failure(self) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), 4.0)).hears(BROKEN)
        play.goes_on(at=NOW + 3).hears(HELD, at=NOW + 4)
        assert (play.effect, play.result, play.error) == (None, None, None)


class TestInterruptions:
    @pytest.mark.parametrize(
        ("failing", "request_timeout"), [(False, PATIENCE), (True, FAILING_PATIENCE)]
    )
    def test_it_is_given_back_and_once_more_if_that_is_interrupted_too(
        self, failing: bool, request_timeout: float
    ) -> None:
        hand = Hand()
        play = hand.play(acquire(hand.runtime, spec(), None))
        if failing:
            play.hears(BROKEN)
        first, second = KeyboardInterrupt("first"), KeyboardInterrupt("second")
        assert play.interrupt(first).effect == giving_back(NOW + request_timeout)
        assert play.interrupt(second).effect == giving_back(NOW + request_timeout)
        play.hears(BROKEN, at=NOW + request_timeout)
        assert play.error is second
        assert [type(event) for event in hand.events] == [ReleaseFailed]

    def test_a_place_in_the_queue_is_given_up_and_its_ticket_too(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, None).interrupt(KeyboardInterrupt())
        assert play.effect == giving_back(NOW + PATIENCE)
        assert isinstance(play.hears(NOT_YOURS).error, KeyboardInterrupt)
        assert hand.unlistened == ["me"]

    def test_one_whose_driver_is_gone_asks_for_nothing_more(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, None).interrupt(GeneratorExit())
        assert isinstance(play.error, GeneratorExit)
        assert hand.unlistened == ["me"]

    def test_nor_while_it_gives_something_back(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, None).interrupt(KeyboardInterrupt())
        assert play.effect == giving_back(NOW + PATIENCE)
        assert isinstance(play.interrupt(GeneratorExit()).error, GeneratorExit)
