"""Getting a lock, step by step: what is asked, until when, and what the answers come to."""

from math import inf

import pytest

from holdfast.core.acquire import ENOUGH_TIME, FAILING_TIMEOUT, SHORTEST_WAIT, acquire
from holdfast.core.effects import FIRST_PAUSE, LONGEST_PAUSE, Ask, Sleep, Wait
from holdfast.core.lease_state import LockSpec
from holdfast.core.messages import DONE, NOT_YOURS, OFFER, Acquire, Failed, Granted, Held, Release
from holdfast.core.runtime import RENEWER, WATCHER
from holdfast.errors import ClientClosed, EngineUnavailable
from holdfast.events import AcquireFailed
from tests.core.hand import BROKEN, DRIFT, NOW, PATIENCE, RETRY, TTL, Hand, Play, spec

HELD = Held(5.0, wakes=True)
MY_RELEASE = Release("p:job", "me")


def begin(hand: Hand, timeout: float | None, asked: LockSpec | None = None) -> Play:
    return hand.play(acquire(hand.runtime, asked or spec(), "me", timeout))


def asking(until: float, *, queue: bool = False, ttl: float = TTL) -> Ask:
    return Ask((Acquire("p:job", "me", ttl, queue),), until)


def releasing(until: float) -> Ask:
    return Ask((MY_RELEASE,), until)


def in_the_queue(hand: Hand, timeout: float | None) -> Play:
    """It was held, so the waiter asks at once for a place in the queue, and has one."""
    play = begin(hand, timeout).hears(HELD)
    assert isinstance(play.effect, Ask)
    assert play.effect.requests == (Acquire("p:job", "me", TTL, True),)
    return play.hears(HELD)


class TestGrants:
    def test_a_grant_is_a_lease_that_both_loops_know_of(self) -> None:
        hand = Hand()
        play = begin(hand, None)
        assert play.effect == asking(NOW + PATIENCE)
        lease = play.hears(Granted(7), at=NOW + 1).result
        assert (lease.holder, lease.fence, lease.ttl) == ("me", 7, TTL)
        assert lease.valid_until == NOW + TTL - DRIFT
        assert lease.renew_at == NOW + TTL / 3
        assert hand.runtime.registry.held() == [lease]
        assert hand.woken == [RENEWER, WATCHER]
        assert hand.pending == []

    def test_no_loop_is_woken_that_looks_in_time_anyway(self) -> None:
        hand = Hand()
        hand.runtime.registry.renewer_looks_at = NOW
        hand.runtime.registry.watcher_looks_at = NOW
        assert begin(hand, 0).hears(Granted(7)).result is not None
        assert hand.woken == []

    def test_what_the_engine_really_gave_counts(self) -> None:
        """A quorum grants to one attempt of a holder, ZooKeeper the ttl of a session."""
        hand = Hand()
        lease = begin(hand, 0).hears(Granted(7, "me#2", ttl=6.0)).result
        assert (lease.holder, lease.ttl) == ("me#2", 6.0)
        assert lease.valid_until == NOW + 6 - DRIFT
        assert NOW + 1.7 < lease.renew_at <= NOW + 2

    @pytest.mark.parametrize("timeout", [0, 1.0, None])
    def test_one_that_comes_at_the_end_of_its_validity_is_worth_nothing(
        self, timeout: float | None
    ) -> None:
        ends_at = NOW + TTL - DRIFT
        hand = Hand()
        assert begin(hand, timeout).hears(Granted(7), at=ends_at - 0.001).result is not None
        hand = Hand()
        assert begin(hand, timeout).hears(Granted(7), at=ends_at).result is None
        assert hand.runtime.registry.held() == []

    def test_one_that_came_too_late_is_released_and_said_so(self) -> None:
        hand = Hand()
        play = begin(hand, 0).hears(Granted(7), at=NOW + TTL)
        assert play.effect == Ask((Release("p:job", "me"),), NOW + TTL + FAILING_TIMEOUT)
        play.hears(BROKEN)
        assert isinstance(play.error, EngineUnavailable)
        assert "took 15.000 s to answer" in str(play.error)
        assert hand.pending == [MY_RELEASE]

    def test_its_validity_counts_from_the_try_that_was_granted(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, None).goes_on(True, at=NOW + 3)
        lease = play.hears(Granted(8), at=NOW + 4).result
        assert lease.valid_until == NOW + 3 + TTL - DRIFT
        assert hand.unsubscribed == hand.subscribed

    def test_max_hold_cuts_the_first_stretch_short(self) -> None:
        hand = Hand()
        short = begin(hand, 0, spec(max_hold=3.0)).hears(Granted(7)).result
        assert (short.valid_until, short.hold_until, short.renew_at) == (NOW + 3, NOW + 3, inf)
        long = begin(hand, 0, spec(max_hold=50.0)).hears(Granted(8)).result
        assert (long.valid_until, long.hold_until) == (NOW + TTL - DRIFT, NOW + 50)

    def test_a_client_that_was_closed_meanwhile_does_not_take_it(self) -> None:
        hand = Hand()
        play = begin(hand, None)
        hand.runtime.closed = True
        assert isinstance(play.hears(Granted(7)).error, ClientClosed)
        assert hand.runtime.registry.held() == []
        assert hand.pending == [MY_RELEASE]


class TestWaiting:
    def test_it_lasts_until_the_holders_time_is_over(self) -> None:
        hand = Hand()
        play = begin(hand, None).hears(HELD, at=NOW + 1)
        assert play.effect == asking(NOW + 1 + PATIENCE, queue=True)
        assert play.hears(HELD, at=NOW + 2).effect == Wait("me", NOW + 2 + HELD.remaining)
        play.goes_on(False, at=NOW + 7)
        assert play.effect == asking(NOW + 7 + PATIENCE, queue=True)

    def test_a_waiter_that_the_engine_will_not_wake_polls(self) -> None:
        for held, pause in (
            (Held(5.0, wakes=False), RETRY),
            (Held(0.3, wakes=False), 0.3),
            (Held(0.0, wakes=True), SHORTEST_WAIT),
            (Held(0.0, wakes=False), SHORTEST_WAIT),
        ):
            assert begin(Hand(), None).hears(held).hears(held).effect == Wait("me", NOW + pause)

    def test_no_wait_and_no_request_goes_beyond_the_timeout(self) -> None:
        play = begin(Hand(), 4.0)
        assert play.effect == asking(NOW + PATIENCE)
        assert play.hears(HELD, at=NOW + 1).effect == asking(NOW + 3, queue=True)
        assert play.hears(HELD, at=NOW + 2).effect == Wait("me", NOW + 4)
        assert play.goes_on(True, at=NOW + 3.5).effect == asking(NOW + 4, queue=True)
        assert begin(Hand(), 0.5).effect == asking(NOW + 0.5)
        assert begin(Hand(), 0).effect == asking(NOW + PATIENCE)

    def test_at_the_timeout_it_leaves_the_queue_and_has_nothing(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, 4.0).goes_on(False, at=NOW + 4)
        assert play.effect == releasing(NOW + 4 + PATIENCE)
        play.hears(NOT_YOURS)
        assert (play.effect, play.result, play.error) == (None, None, None)
        assert hand.unsubscribed == hand.subscribed
        assert hand.pending == []

    def test_a_place_that_could_not_be_given_up_is_given_up_by_the_renewer(self) -> None:
        hand = Hand()
        play = in_the_queue(hand, 4.0).goes_on(False, at=NOW + 4).hears(BROKEN)
        assert (play.effect, play.result, play.error) == (None, None, None)
        assert hand.pending == [MY_RELEASE]

    def test_an_answer_that_comes_at_the_timeout_is_the_last(self) -> None:
        play = in_the_queue(Hand(), 4.0).goes_on(True, at=NOW + 3).hears(HELD, at=NOW + 4)
        assert play.effect == releasing(NOW + 4 + PATIENCE)

    def test_where_a_place_costs_nothing_the_first_request_asks_for_one(self) -> None:
        hand = Hand()
        hand.runtime.joins_at_once = True
        play = begin(hand, None)
        assert play.effect == asking(NOW + PATIENCE, queue=True)
        assert play.hears(HELD, at=NOW + 1).effect == Wait("me", NOW + 1 + HELD.remaining)
        assert play.goes_on(True, at=NOW + 2).effect == asking(NOW + 2 + PATIENCE, queue=True)
        assert play.hears(Granted(7)).result is not None
        assert hand.subscribed == hand.unsubscribed == ["me"]
        assert begin(hand, 0).effect == asking(NOW + 2 + PATIENCE), "a single try"

    def test_a_first_request_whose_reply_is_lost_leaves_no_place(self) -> None:
        hand = Hand()
        hand.runtime.joins_at_once = True
        play = begin(hand, 4.0).hears(BROKEN, at=NOW + 4)
        assert play.effect == releasing(NOW + 4 + FAILING_TIMEOUT)
        play.hears(BROKEN)
        assert hand.pending == [MY_RELEASE]
        assert hand.subscribed == hand.unsubscribed

    def test_to_try_once_is_one_request(self) -> None:
        hand = Hand()
        play = begin(hand, 0).hears(HELD)
        assert (play.effect, play.result, play.error) == (None, None, None)
        assert (hand.pending, hand.woken) == ([], [])


class TestFailures:
    def test_pauses_double_up_to_a_second(self) -> None:
        hand = Hand()
        play = begin(hand, None, spec(ttl=60.0))
        pauses: list[float] = []
        for _ in range(10):
            play.hears(BROKEN)
            assert isinstance(play.effect, Sleep)
            wakes_at = play.effect.until
            pauses.append(round(wakes_at - hand.now, 6))
            assert play.goes_on(at=wakes_at).effect == asking(wakes_at + PATIENCE, ttl=60.0)
        assert pauses[:4] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]
        assert pauses[-3:] == [LONGEST_PAUSE] * 3

    def test_those_of_a_waiter_are_shorter_than_an_offer_lasts(self) -> None:
        """Or it would be passed over if the lock is offered to it meanwhile."""
        hand = Hand()
        play = in_the_queue(hand, None)
        play.goes_on(True, at=NOW + 1)
        for _ in range(10):
            play.hears(BROKEN)
            assert isinstance(play.effect, Sleep)
            assert play.effect.until - hand.now <= OFFER / 2
            play.goes_on(at=play.effect.until)

    def test_without_a_timeout_it_ends_one_ttl_after_the_first_failure(self) -> None:
        hand = Hand()
        play = begin(hand, None).hears(BROKEN, at=NOW + 1)
        play.goes_on(at=NOW + 5).hears(BROKEN, at=NOW + 1 + TTL - 0.001)
        assert play.effect == Sleep(NOW + 1 + TTL)
        play.goes_on(at=NOW + 1 + TTL).hears(BROKEN)
        assert isinstance(play.error, EngineUnavailable)
        assert play.error.nodes == {"node": "the connection was closed"}
        assert hand.pending == [MY_RELEASE]

    def test_they_are_reported_once_they_last(self) -> None:
        hand = Hand()
        play = begin(hand, None).hears(BROKEN, at=NOW + 0.5)
        play.goes_on(at=NOW + 1).hears(BROKEN, at=NOW + 1.499)
        assert hand.events == []
        play.goes_on(at=NOW + 1.5).hears(BROKEN, at=NOW + 1.5)
        [event] = hand.events
        assert isinstance(event, AcquireFailed)
        assert event.remaining == TTL - 1

    def test_one_request_that_was_long_without_an_answer_is_reported_at_once(self) -> None:
        hand = Hand()
        begin(hand, None).hears(BROKEN, at=NOW + 1)
        assert [type(event) for event in hand.events] == [AcquireFailed]

    def test_a_process_that_was_stopped_during_a_request_tries_again(self) -> None:
        play = begin(Hand(), None).hears(BROKEN, at=NOW + 2 * TTL)
        assert isinstance(play.effect, Sleep)
        assert play.goes_on(at=NOW + 2 * TTL + 1).hears(Granted(7)).result is not None

    def test_an_answer_in_between_begins_the_count_anew(self) -> None:
        play = begin(Hand(), None).hears(BROKEN)
        play.goes_on(at=NOW + 6).hears(HELD, at=NOW + 7).hears(BROKEN, at=NOW + 8)
        play.goes_on(at=NOW + 9).hears(BROKEN, at=NOW + 8 + TTL - 0.001)
        assert play.effect == Sleep(NOW + 8 + TTL)

    def test_a_notification_does_not_end_a_pause_after_a_failure(self) -> None:
        """Or an engine that wakes all waiters when it fails would be asked on and on."""
        play = in_the_queue(Hand(), None)
        assert isinstance(play.effect, Wait)
        assert isinstance(play.goes_on(True, at=NOW + 1).hears(BROKEN).effect, Sleep)

    def test_with_a_timeout_it_ends_there(self) -> None:
        play = begin(Hand(), 30.0).hears(BROKEN, at=NOW + TTL + 1)
        assert isinstance(play.effect, Sleep)
        play.goes_on(at=NOW + 29).hears(BROKEN, at=NOW + 29.99)
        assert play.effect == Sleep(NOW + 30)
        assert isinstance(play.goes_on(at=NOW + 30).hears(DONE).error, EngineUnavailable)

    @pytest.mark.parametrize("timeout", [0, 30.0, None])
    def test_what_waiting_will_not_heal_is_raised_at_once(self, timeout: float | None) -> None:
        wrong = Failed.at("node", "wrong password", inf)
        play = begin(Hand(), timeout).hears(wrong).hears(wrong)
        assert isinstance(play.error, EngineUnavailable)
        assert play.error.nodes == {"node": "wrong password"}
        assert "cannot be used like this" in str(play.error)
        assert "unreachable" not in str(play.error)

    def test_what_heals_by_itself_is_waited_for(self) -> None:
        play = begin(Hand(), None).hears(Failed.at("node", "quarantine", 100.0))
        play.goes_on(at=NOW + 99).hears(Failed.at("node", "quarantine", 1.0))
        assert isinstance(play.effect, Sleep)
        assert play.goes_on(at=NOW + 101).hears(Granted(7)).result is not None

    def test_but_not_beyond_the_timeout(self) -> None:
        play = begin(Hand(), 4.0).hears(Failed.at("node", "quarantine", 100.0))
        play.goes_on(at=NOW + 3).hears(Failed.at("node", "quarantine", 97.0), at=NOW + 4)
        play.hears(BROKEN)
        assert isinstance(play.error, EngineUnavailable)

    def test_a_last_try_in_haste_does_not_make_a_held_lock_a_failure(self) -> None:
        play = in_the_queue(Hand(), 4.0).goes_on(True, at=NOW + 4 - ENOUGH_TIME / 2)
        play.hears(BROKEN, at=NOW + 4).hears(NOT_YOURS)
        assert (play.result, play.error) == (None, None)

    def test_one_that_had_time_does(self) -> None:
        play = in_the_queue(Hand(), 4.0).goes_on(True, at=NOW + 4 - 2 * ENOUGH_TIME)
        assert isinstance(play.hears(BROKEN, at=NOW + 4).hears(DONE).error, EngineUnavailable)

    def test_nor_does_haste_excuse_an_engine_that_never_answered(self) -> None:
        play = begin(Hand(), ENOUGH_TIME / 2).hears(BROKEN, at=NOW + ENOUGH_TIME / 2).hears(BROKEN)
        assert isinstance(play.error, EngineUnavailable)

    def test_a_held_lock_after_failures_is_no_failure(self) -> None:
        """The first try may have been granted unheard, so it is released all the same."""
        play = begin(Hand(), 4.0).hears(BROKEN).goes_on(at=NOW + 3).hears(HELD, at=NOW + 4)
        assert play.effect == releasing(NOW + 4 + PATIENCE)
        play.hears(DONE)
        assert (play.result, play.error) == (None, None)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), ClientClosed()])
@pytest.mark.parametrize("where", ["first try", "after a failure", "in the queue", "giving up"])
def test_interrupted_anywhere_it_ends_at_once_and_leaves_the_rest_to_the_renewer(
    where: str, error: BaseException
) -> None:
    hand = Hand()
    if where == "in the queue":
        play = in_the_queue(hand, None)
    elif where == "giving up":
        play = in_the_queue(hand, 4.0).goes_on(False, at=NOW + 4)
    else:
        play = begin(hand, None)
        if where == "after a failure":
            play.hears(BROKEN)
    play.interrupt(error)
    assert (play.effect, play.error) == (None, error)
    assert hand.pending == [MY_RELEASE]
    assert hand.woken == [RENEWER]
    assert hand.unsubscribed == hand.subscribed
