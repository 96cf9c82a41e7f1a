"""How a lease ends, step by step: released, left, abandoned, or closed with its client."""

from typing import Any

import pytest

from holdfast.core.effects import Ask
from holdfast.core.holding import extend
from holdfast.core.lease_state import CLOSED, EXPIRED, HELD, LOST, RELEASED, TAKEN, LeaseState
from holdfast.core.messages import DONE, NOT_YOURS, Release
from holdfast.core.release import (
    BATCH,
    PENDING_TIMEOUT,
    abandon,
    begin_leave,
    begin_release,
    deliver,
    finish_leave,
    finish_release,
    interrupt_release,
    lose_all,
    send_last,
    send_pending,
)
from holdfast.core.runtime import RENEWER
from holdfast.errors import EngineUnavailable, LockLost, NotHeld
from holdfast.events import ReleaseFailed
from tests.core.hand import BROKEN, NOW, PATIENCE, TTL, Hand, Play, spec

ENDS_AT = NOW + TTL
MY_RELEASE = Release("p:job", "me")


def releasing(until: float = NOW + PATIENCE) -> Ask:
    return Ask((MY_RELEASE,), until)


def release(hand: Hand, lease: LeaseState) -> Play:
    """What `Lease.release` does, as long as the engine has something to answer."""
    begun = begin_release(hand.runtime, lease)
    assert begun
    return hand.play(finish_release(hand.runtime, lease, begun))


class TestReleasing:
    def test_it_is_not_held_any_more_before_the_engine_is_told(self) -> None:
        hand = Hand()
        lease = hand.lease()
        begun = begin_release(hand.runtime, lease)
        assert begun
        assert lease.state is RELEASED
        assert hand.runtime.registry.held() == []
        play = hand.play(finish_release(hand.runtime, lease, begun))
        assert play.effect == releasing()
        assert play.hears(DONE).error is None

    def test_it_is_pending_until_the_engine_confirms(self) -> None:
        hand = Hand()
        play = release(hand, hand.lease())
        assert hand.runtime.pending.keys() == ("p:job",)
        play.hears(DONE)
        assert hand.runtime.pending.keys() == ()

    def test_a_caller_that_never_comes_back_is_replaced_by_the_renewer_after_a_while(self) -> None:
        hand = Hand()
        assert begin_release(hand.runtime, hand.lease())
        assert hand.pending == []
        hand.now = NOW + 2 * PATIENCE
        assert hand.pending == [MY_RELEASE]

    def test_after_its_end_it_is_a_loss_that_is_told_once(self) -> None:
        hand = Hand()
        lease = hand.lease(until=NOW)
        for _ in range(2):
            with pytest.raises(LockLost):
                begin_release(hand.runtime, lease)
        assert (lease.state, lease.why, hand.lost) == (LOST, EXPIRED, [lease])
        assert hand.pending == [MY_RELEASE]

    def test_not_yours_is_a_loss_that_is_told_once(self) -> None:
        hand = Hand()
        lease = hand.lease()
        play = release(hand, lease).hears(NOT_YOURS)
        assert isinstance(play.error, LockLost)
        assert (lease.state, lease.why, hand.lost) == (LOST, TAKEN, [lease])

    @pytest.mark.parametrize("answer", [DONE, NOT_YOURS])
    def test_a_lost_connection_is_followed_by_one_more_try_within_the_same_time(
        self, answer: Any
    ) -> None:
        """If the first request was carried out, "not yours" is no loss."""
        hand = Hand()
        play = release(hand, hand.lease()).hears(BROKEN, at=NOW + 1)
        assert play.effect == releasing()
        assert play.hears(answer).error is None
        assert hand.lost == []

    def test_entered_twice_it_is_released_once(self) -> None:
        hand = Hand()
        lease = hand.lease()
        lease.depth = 3
        for _ in range(2):
            assert not begin_release(hand.runtime, lease)
            assert lease.state is HELD
        assert begin_release(hand.runtime, lease)
        assert lease.state is RELEASED

    def test_a_second_release_is_refused(self) -> None:
        hand = Hand()
        lease = hand.lease()
        release(hand, lease).hears(DONE)
        with pytest.raises(NotHeld, match="released already"):
            begin_release(hand.runtime, lease)

    def test_also_if_the_first_one_failed(self) -> None:
        hand = Hand()
        lease = hand.lease()
        release(hand, lease).hears(BROKEN).hears(BROKEN)
        with pytest.raises(NotHeld, match="released already"):
            begin_release(hand.runtime, lease)
        assert hand.pending == [MY_RELEASE]

    def test_a_forked_childs_copy_is_not_touched(self) -> None:
        hand = Hand()
        lease = hand.lease(until=NOW)  # even if its time has passed
        hand.runtime.forked(hand.runtime.mutex)
        with pytest.raises(NotHeld, match="forked"):
            begin_release(hand.runtime, lease)
        assert not begin_leave(hand.runtime, lease, None)
        assert hand.pending == []


class TestAnUndeliveredRelease:
    def test_the_caller_is_told_and_the_renewer_goes_on(self) -> None:
        hand = Hand()
        lease = hand.lease()
        play = release(hand, lease).hears(BROKEN, at=NOW + PATIENCE)
        assert isinstance(play.error, EngineUnavailable)
        assert "until it expires in 13.000 s" in str(play.error)
        assert lease.state is RELEASED
        assert hand.pending == [MY_RELEASE]
        assert hand.woken[-1] == RENEWER

    def test_for_as_long_as_an_extension_may_last_whose_reply_was_lost(self) -> None:
        hand = Hand()
        lease = hand.lease()
        hand.play(extend(hand.runtime, lease, 600.0)).hears(BROKEN)
        release(hand, lease).hears(BROKEN, at=NOW + PATIENCE)
        hand.now = NOW + 600
        assert hand.pending == [MY_RELEASE]

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
    def test_so_it_does_after_an_interrupted_one(self, error: BaseException) -> None:
        hand = Hand()
        lease = hand.lease()
        play = release(hand, lease).interrupt(error)
        assert (play.effect, play.error) == (None, error)
        assert lease.state is RELEASED
        assert hand.pending == [MY_RELEASE]
        assert hand.woken[-1] == RENEWER

    def test_the_renewer_tries_for_as_long_as_the_engine_may_keep_the_lease(self) -> None:
        hand = Hand()
        lease = hand.lease(until=NOW + 10 * TTL)  # it was extended
        release(hand, lease).hears(BROKEN).hears(BROKEN)
        hand.now = NOW + 10 * TTL - 1
        assert hand.pending == [MY_RELEASE]


class TestSendingWhatIsPending:
    def test_some_at_a_time_until_all_are_confirmed(self) -> None:
        hand = Hand()
        for number in range(BATCH + 3):
            abandon(hand.runtime, spec(), f"holder {number}")
        play = hand.play(send_pending(hand.runtime, ENDS_AT))
        assert isinstance(play.effect, Ask)
        assert play.effect.until == NOW + PENDING_TIMEOUT
        for count in (BATCH, 3):
            assert isinstance(play.effect, Ask)
            assert len(play.effect.requests) == count
            play.hears(*[NOT_YOURS if number == 1 else DONE for number in range(count)])
        assert play.error is None
        assert hand.pending == []

    def test_a_failure_ends_it_and_that_release_is_tried_later(self) -> None:
        hand = Hand()
        for holder in ("first", "second"):
            abandon(hand.runtime, spec(), holder)
        play = hand.play(send_pending(hand.runtime, ENDS_AT)).hears(BROKEN, DONE)
        assert (play.effect, play.result) == (None, BROKEN)
        assert hand.pending == []
        hand.now = hand.runtime.pending.next_due()
        assert hand.pending == [Release("p:job", "first")]

    def test_a_place_with_a_short_ttl_is_released_for_as_long_as_a_database_may_keep_it(
        self,
    ) -> None:
        hand = Hand()
        abandon(hand.runtime, spec(ttl=0.5), "me")
        hand.now = NOW + 3.9
        assert hand.pending == [MY_RELEASE]
        hand.now = NOW + 4.1
        assert hand.pending == []

    def test_nothing_is_sent_when_the_time_for_it_is_over(self) -> None:
        hand = Hand()
        abandon(hand.runtime, spec(), "me")
        assert hand.play(send_pending(hand.runtime, NOW)).effect is None


class TestLeaving:
    def test_a_block_that_ended_well_releases_its_lease(self) -> None:
        hand = Hand()
        lease = hand.lease()
        begun = begin_leave(hand.runtime, lease, None)
        assert begun
        play = hand.play(finish_leave(hand.runtime, lease, begun, None))
        assert play.effect == releasing()
        assert play.hears(DONE).error is None

    @pytest.mark.parametrize("answers", [[NOT_YOURS], [BROKEN, BROKEN]])
    def test_a_failure_is_raised_or_noted_on_what_the_block_raised(
        self, answers: list[Any]
    ) -> None:
        for error in (None, ValueError("mine")):
            hand = Hand()
            lease = hand.lease()
            begun = begin_leave(hand.runtime, lease, error)
            assert begun
            play = hand.play(finish_leave(hand.runtime, lease, begun, error))
            for answer in answers:
                play.hears(answer)
            if error is None:
                assert isinstance(play.error, (LockLost, EngineUnavailable))
            else:
                assert play.error is None
                [note] = error.__notes__
                assert note.startswith("holdfast: ")

    def test_so_is_a_loss_that_came_before(self) -> None:
        hand = Hand()
        lease = hand.lease(until=NOW)
        with pytest.raises(LockLost):
            begin_leave(hand.runtime, lease, None)
        error = ValueError("mine")
        assert not begin_leave(hand.runtime, lease, error)
        assert [note.startswith("holdfast: ") for note in error.__notes__] == [True]

    def test_what_the_block_released_itself_is_left_alone(self) -> None:
        hand = Hand()
        lease = hand.lease()
        lease.mark_released()
        assert not begin_leave(hand.runtime, lease, None)


class TestAbandoning:
    def test_whatever_the_holder_may_have_is_released_by_the_renewer(self) -> None:
        hand = Hand()
        abandon(hand.runtime, spec(), "me")
        assert hand.pending == [MY_RELEASE]
        assert hand.woken == [RENEWER]

    def test_one_that_was_extended_is_released_for_as_long_as_the_engine_may_keep_it(self) -> None:
        hand = Hand()
        lease = hand.lease(until=NOW + 10 * TTL)
        interrupt_release(hand.runtime, lease)
        hand.now = NOW + 10 * TTL
        assert hand.pending == [MY_RELEASE]

    def test_one_that_was_taken_again_is_counted_once_less_and_kept(self) -> None:
        hand = Hand()
        lease = hand.lease()
        lease.depth = 3
        for left in (2, 2):  # the second time, it is counted already
            interrupt_release(hand.runtime, lease, 3)
            assert (lease.state, lease.depth) == (HELD, left)
        assert hand.pending == []

    def test_a_lease_that_was_granted_already_is_not_held_any_more_and_not_lost(self) -> None:
        hand = Hand()
        lease = hand.lease()
        abandon(hand.runtime, spec(), "me")
        assert (lease.state, hand.lost) == (RELEASED, [])
        assert hand.pending == [MY_RELEASE]


class TestDelivering:
    """What an interrupted caller does before it goes on."""

    def test_it_tries_once_to_deliver_the_release(self) -> None:
        hand = Hand()
        abandon(hand.runtime, spec(), "me")
        play = hand.play(deliver(hand.runtime, spec(), "me"))
        assert play.effect == Ask((MY_RELEASE,), NOW + PATIENCE)
        assert play.hears(DONE).effect is None
        assert hand.pending == []

    def test_if_that_fails_the_renewer_does(self) -> None:
        hand = Hand()
        abandon(hand.runtime, spec(), "me")
        assert hand.play(deliver(hand.runtime, spec(), "me")).hears(BROKEN).error is None
        assert hand.pending == [MY_RELEASE]

    def test_a_second_interruption_ends_the_try_and_not_the_release(self) -> None:
        hand = Hand()
        abandon(hand.runtime, spec(), "me")
        play = hand.play(deliver(hand.runtime, spec(), "me")).interrupt(KeyboardInterrupt())
        assert isinstance(play.error, KeyboardInterrupt)
        assert hand.pending == [MY_RELEASE]

    def test_several_are_one_request(self) -> None:
        hand = Hand()
        for holder in ("first", "second", "third"):
            abandon(hand.runtime, spec(), holder)
        play = hand.play(deliver(hand.runtime, spec(), "first", "confirmed before", "third"))
        assert isinstance(play.effect, Ask)
        assert play.effect.requests == (Release("p:job", "first"), Release("p:job", "third"))
        assert play.hears(DONE, BROKEN).effect is None
        assert [each.holder for each in hand.pending] == ["second", "third"]

    def test_nothing_is_asked_if_nothing_is_pending(self) -> None:
        hand = Hand()
        assert hand.play(deliver(hand.runtime, spec(), "me")).effect is None


class TestClosing:
    def test_every_lease_is_lost_for_that_reason_and_told_once(self) -> None:
        hand = Hand()
        leases = [hand.lease(holder=f"holder {number}") for number in range(3)]
        lose_all(hand.runtime)
        lose_all(hand.runtime)
        assert {(lease.state, lease.why) for lease in leases} == {(LOST, CLOSED)}
        assert hand.lost == leases
        assert hand.runtime.closed

    def test_one_whose_time_was_over_keeps_its_own_reason(self) -> None:
        hand = Hand()
        lease = hand.lease(until=NOW)
        lose_all(hand.runtime)
        assert lease.why == EXPIRED

    def test_what_was_released_is_not_lost(self) -> None:
        hand = Hand()
        lease = hand.lease()
        release(hand, lease)
        lose_all(hand.runtime)
        assert (lease.state, hand.lost) == (RELEASED, [])

    def test_all_that_is_pending_is_sent_at_once(self) -> None:
        hand = Hand()
        hand.lease()
        assert begin_release(hand.runtime, hand.lease(holder="under way", name="other"))
        lose_all(hand.runtime)
        play = hand.play(send_last(hand.runtime, ENDS_AT))
        assert isinstance(play.effect, Ask)
        assert {each.key for each in play.effect.requests} == {"p:job", "p:other"}  # type: ignore[union-attr]
        assert play.hears(DONE, DONE).error is None
        assert hand.events == []

    def test_what_was_not_confirmed_is_reported(self) -> None:
        hand = Hand()
        hand.lease()
        lose_all(hand.runtime)
        hand.play(send_last(hand.runtime, ENDS_AT)).hears(BROKEN)
        assert hand.events == [ReleaseFailed(("p:job",), str(BROKEN))]

    def test_nothing_is_sent_if_nothing_is_pending(self) -> None:
        hand = Hand()
        assert hand.play(send_last(hand.runtime, ENDS_AT)).effect is None


def test_nothing_is_reported_about_a_holder_that_may_never_have_had_anything() -> None:
    hand = Hand()
    abandon(hand.runtime, spec(), "me")
    assert hand.play(send_last(hand.runtime, ENDS_AT)).hears(BROKEN).error is None
    assert hand.events == []
