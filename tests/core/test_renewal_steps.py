"""The two loops, step by step: what they ask for, until when, and when they look again."""

from math import inf
from weakref import ref

import pytest

from holdfast.core.effects import Ask, Wait
from holdfast.core.holding import GRID, plan_renewal, wake_loops
from holdfast.core.lease_state import EXPIRED, HELD, LOST, TAKEN, LeaseState
from holdfast.core.messages import DONE, NOT_YOURS, Extend, Release
from holdfast.core.release import PENDING_TIMEOUT, abandon
from holdfast.core.renewal import BATCH, MANY, renew_forever, watch_deadlines
from holdfast.core.runtime import RENEWER, WATCHER
from holdfast.events import RenewalFailed
from tests.core.hand import BROKEN, DRIFT, MIN_TTL, NOW, PATIENCE, TTL, Hand, Play, spec

THIRD = TTL / 3
STEP = THIRD / GRID
MY_RELEASE = Release("p:job", "me")


def renewer(hand: Hand) -> Play:
    return hand.play(renew_forever(hand.runtime))


def watcher(hand: Hand) -> Play:
    return hand.play(watch_deadlines(hand.runtime))


def due(hand: Hand, count: int, **asked: float) -> list[LeaseState]:
    """Leases that must be renewed now."""
    return [hand.lease(renew_at=NOW, holder=f"holder {number}", **asked) for number in range(count)]


class TestPlans:
    def test_a_renewal_falls_on_the_grid_a_third_of_the_ttl_later_or_a_little_less(self) -> None:
        lease = Hand().lease()
        for began in (NOW, NOW + 0.1, NOW + 0.3999, NOW + 0.4, NOW + 3.7):
            plan_renewal(lease, began)
            assert THIRD - STEP < lease.renew_at - began <= THIRD + 1e-9
            assert lease.renew_at / STEP == pytest.approx(round(lease.renew_at / STEP))

    def test_leases_of_one_grid_step_share_one_instant(self) -> None:
        first, second = Hand().lease(), Hand().lease()
        plan_renewal(first, NOW + 0.01)
        plan_renewal(second, NOW + STEP - 0.01)
        assert first.renew_at == second.renew_at

    def test_what_is_not_to_be_renewed_or_has_reached_max_hold_has_no_plan(self) -> None:
        for lease in (
            Hand().lease(renew_at=NOW, renew=False),
            Hand().lease(renew_at=NOW, until=NOW + 5, hold_until=NOW + 5),
        ):
            plan_renewal(lease, NOW)
            assert lease.renew_at == inf


class TestRenewing:
    def test_it_asks_when_it_is_due_and_plans_from_before_it_asked(self) -> None:
        hand = Hand()
        lease = hand.lease(renew_at=NOW, until=NOW + 5)
        play = renewer(hand)
        assert play.effect == Ask((Extend("p:job", "me", TTL, 7),), NOW + PATIENCE)
        play.hears(DONE, at=NOW + 1)
        assert lease.valid_until == NOW + TTL - DRIFT
        assert lease.renew_at == NOW + THIRD
        assert play.effect == Wait(RENEWER, lease.renew_at)

    def test_one_lease_is_one_request_however_often_it_was_planned(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW)
        play = renewer(hand)  # which plans anew what a renewer that failed had in hand
        for _ in range(3):
            assert isinstance(play.effect, Ask)
            assert len(play.effect.requests) == 1
            play.hears(DONE)
            assert isinstance(play.effect, Wait)
            play.goes_on(at=play.effect.until)

    def test_while_it_asks_it_need_not_be_woken(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW)
        play = renewer(hand)
        assert isinstance(play.effect, Ask)
        hand.woken.clear()
        hand.lease(renew_at=NOW, holder="other")
        assert RENEWER not in hand.woken

    def test_while_it_sleeps_it_is_woken_for_what_is_due_before(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW + 4)
        play = renewer(hand)
        assert play.effect == Wait(RENEWER, NOW + 4)
        hand.woken.clear()
        hand.lease(renew_at=NOW + 5, holder="later")
        assert RENEWER not in hand.woken
        hand.lease(renew_at=NOW + 3, holder="earlier")
        assert RENEWER in hand.woken

    def test_renewals_come_before_releases(self) -> None:
        """A part of the engine that hangs delays the answers for all leases of a batch. The others
        are then renewed at once: a release may wait for the same part."""
        hand = Hand()
        hangs, works = due(hand, 2)
        play = renewer(hand)
        abandon(hand.runtime, hangs.spec, "me")
        play.goes_on([BROKEN, DONE], at=NOW + THIRD)
        assert isinstance(play.effect, Ask)
        assert play.effect.requests == (Extend("p:job", works.holder, TTL, 7),)
        assert play.goes_on([DONE]).effect == Ask((MY_RELEASE,), hand.now + PENDING_TIMEOUT)

    def test_no_answer_is_waited_for_longer_than_the_next_lease_can_wait(self) -> None:
        """Its renewal has two thirds of its ttl; the watcher looks after the deadlines."""
        hand = Hand()
        hand.lease(renew_at=NOW)
        hand.lease(renew_at=NOW + 0.2, until=NOW + 2.2, holder="short", ttl=3.0)
        play = renewer(hand)
        assert isinstance(play.effect, Ask)
        assert play.effect.until == pytest.approx(NOW + 0.2 + 1.0)

    def test_a_renewer_that_is_late_still_waits_for_its_answers(self) -> None:
        """Else a process that was held up would send one batch after the other in vain."""
        hand = Hand()
        for number in range(BATCH + 1):
            hand.lease(renew_at=NOW - 1.5 * THIRD, until=NOW + THIRD / 2, holder=f"{number}")
        play = renewer(hand)
        assert isinstance(play.effect, Ask)
        assert NOW < play.effect.until < NOW + THIRD / 2

    @pytest.mark.parametrize(("count", "factor"), [(MANY, 1.0), (2 * MANY, 2.0)])
    def test_very_many_have_more_time(self, count: int, factor: float) -> None:
        hand = Hand()
        due(hand, count)
        play = renewer(hand)
        assert isinstance(play.effect, Ask)
        assert play.effect.until == NOW + PATIENCE * factor

    def test_at_most_a_batch_goes_out_at_once_and_the_rest_right_after(self) -> None:
        hand = Hand()
        due(hand, BATCH + 3)
        play = renewer(hand)
        for count in (BATCH, 3):
            assert isinstance(play.effect, Ask)
            assert len(play.effect.requests) == count
            play.hears(*[DONE] * count)
        assert isinstance(play.effect, Wait)

    def test_each_of_a_batch_has_its_own_answer(self) -> None:
        hand = Hand()
        leases = due(hand, 3)
        play = renewer(hand)
        play.hears(DONE, NOT_YOURS, BROKEN)
        assert [lease.state for lease in leases] == [HELD, LOST, HELD]
        assert leases[0].renew_at > leases[2].renew_at, "the last is tried again soon"

    def test_while_it_sleeps_it_keeps_no_lease_alive(self) -> None:
        hand = Hand()
        lease = LeaseState(spec(), "me", 7, NOW + TTL)
        lease.renew_at = NOW
        hand.runtime.registry.add(lease)
        wake_loops(hand.runtime, lease)
        play = renewer(hand).hears(DONE)
        assert isinstance(play.effect, Wait)
        dropped = ref(lease)
        del lease
        assert dropped() is None

    def test_a_failure_is_reported_and_tried_again_soon(self) -> None:
        hand = Hand()
        lease = hand.lease(renew_at=NOW)
        play = renewer(hand).hears(BROKEN, at=NOW + 2)
        assert hand.events == [RenewalFailed("job", "me", 7, TTL - 2, str(BROKEN))]
        assert (lease.state, lease.valid_until) == (HELD, NOW + TTL)
        assert play.effect == Wait(RENEWER, NOW + 2 + THIRD / 10)

    def test_one_whose_renewal_was_put_off_meanwhile_is_not_asked_for(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW).renew_at = NOW + 1
        assert renewer(hand).effect == Wait(RENEWER, NOW + 1)

    def test_the_last_renewal_before_max_hold_asks_for_what_is_left(self) -> None:
        hand = Hand()
        lease = hand.lease(renew_at=NOW, until=NOW + 2, hold_until=NOW + 5)
        play = renewer(hand)
        assert play.effect == Ask((Extend("p:job", "me", 5 + DRIFT, 7),), NOW + PATIENCE)
        play.hears(DONE)
        assert (lease.valid_until, lease.renew_at) == (NOW + 5, inf)

    def test_less_than_the_engine_can_give_is_not_asked_for(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW, until=NOW + 0.1, hold_until=NOW + MIN_TTL - 0.01)
        assert renewer(hand).effect is None, "with nothing left to do, the loop ends"
        hand = Hand()
        hand.lease(renew_at=NOW, until=NOW + 0.1, hold_until=NOW + MIN_TTL)
        assert isinstance(renewer(hand).effect, Ask)

    def test_an_answer_that_comes_at_the_end_comes_too_late(self) -> None:
        hand = Hand()
        lease = hand.lease(renew_at=NOW, until=NOW + 1)
        renewer(hand).hears(DONE, at=NOW + 1)
        assert (lease.state, lease.why, lease.valid_until) == (LOST, EXPIRED, NOW + 1)
        assert hand.lost == [lease]

    def test_not_yours_is_told_before_anything_else_is_asked(self) -> None:
        hand = Hand()
        lease = hand.lease(renew_at=NOW)
        play = renewer(hand).hears(NOT_YOURS)
        assert (lease.state, lease.why, hand.lost) == (LOST, TAKEN, [lease])
        assert play.effect == Ask((MY_RELEASE,), NOW + PENDING_TIMEOUT)


class TestPendingReleases:
    def test_they_are_sent_after_the_renewals(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW, holder="kept")
        abandon(hand.runtime, spec(), "me")
        play = renewer(hand)
        assert isinstance(play.effect, Ask)
        assert isinstance(play.effect.requests[0], Extend)
        assert play.hears(DONE).effect == Ask((MY_RELEASE,), NOW + PENDING_TIMEOUT)
        assert isinstance(play.hears(DONE).effect, Wait)

    def test_one_that_failed_is_sent_again_when_it_is_due(self) -> None:
        hand = Hand()
        abandon(hand.runtime, spec(), "me")
        play = renewer(hand).hears(BROKEN)
        assert play.effect == Wait(RENEWER, hand.runtime.pending.next_due())
        assert play.effect.until > NOW
        assert isinstance(play.goes_on(at=play.effect.until).effect, Ask)

    def test_no_confirmation_is_waited_for_longer_than_the_next_lease_can_wait(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW + 0.2, until=NOW + 0.6, holder="short", ttl=0.6)
        abandon(hand.runtime, spec(), "me")
        play = renewer(hand)
        assert isinstance(play.effect, Ask)
        assert play.effect.until == pytest.approx(NOW + 0.2 + 0.2)


class TestDeadlines:
    def test_the_watcher_sleeps_until_the_first_deadline_and_then_it_is_a_loss(self) -> None:
        hand = Hand()
        lease = hand.lease()
        hand.lease(until=NOW + TTL + 1, holder="later")
        play = watcher(hand)
        assert play.effect == Wait(WATCHER, NOW + TTL)
        play.goes_on(False, at=NOW + TTL)
        assert (lease.state, lease.why, hand.lost) == (LOST, EXPIRED, [lease])
        assert hand.pending == [MY_RELEASE]
        assert play.effect == Wait(WATCHER, NOW + TTL + 1)

    def test_one_that_was_prolonged_or_released_meanwhile_is_not_lost(self) -> None:
        hand = Hand()
        hand.lease().prolong(NOW + 2 * TTL)
        hand.lease(holder="released").mark_released()
        play = watcher(hand)
        play.goes_on(False, at=NOW + TTL)
        assert hand.lost == []

    def test_it_is_woken_for_a_deadline_before_the_one_that_it_waits_for(self) -> None:
        hand = Hand()
        hand.lease()
        play = watcher(hand)
        assert play.effect == Wait(WATCHER, NOW + TTL)
        hand.woken.clear()
        hand.lease(until=NOW + TTL + 1, holder="later")
        assert hand.woken == []
        hand.lease(until=NOW + 1, holder="earlier")
        assert hand.woken == [WATCHER]

    def test_a_dropped_lease_is_kept_until_its_deadline_and_released_then(self) -> None:
        hand = Hand()
        lease = LeaseState(spec(), "me", 7, NOW + 1)
        hand.runtime.registry.add(lease)
        wake_loops(hand.runtime, lease)
        hand.runtime.registry.dropped.append(lease)
        dropped = ref(lease)
        del lease
        at_hand = hand.runtime.registry.dropped
        play = watcher(hand).goes_on(True)
        assert dropped() is not None
        assert hand.runtime.registry.dropped is at_hand, "`Lease.__del__` may just be adding to it"
        play.goes_on(False, at=NOW + 1)
        assert hand.pending == [MY_RELEASE]
        assert hand.runtime.registry.dropped == []


class TestTheEndOfALoop:
    @pytest.mark.parametrize(("loop", "name"), [(renewer, RENEWER), (watcher, WATCHER)])
    def test_the_next_lease_starts_it_again(self, loop: object, name: str) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW + 1)
        loop(hand).interrupt(KeyboardInterrupt())  # type: ignore[operator]
        hand.woken.clear()
        hand.lease(renew_at=NOW + 5, until=NOW + 2 * TTL, holder="next")
        assert name in hand.woken

    @pytest.mark.parametrize(("loop", "name"), [(renewer, RENEWER), (watcher, WATCHER)])
    def test_it_does_not_end_with_a_short_section_but_at_the_instant_it_was_woken_for(
        self, loop: object, name: str
    ) -> None:
        """Else every section might start it anew."""
        hand = Hand()
        lease = hand.lease(renew_at=NOW + 1, until=NOW + 1)
        lease.mark_released()
        hand.runtime.registry.remove(lease)
        play = loop(hand)  # type: ignore[operator]
        assert play.effect == Wait(name, NOW + 1)
        assert play.goes_on(False, at=NOW + 1).effect is None

    def test_the_next_renewer_goes_on_with_what_the_last_had_in_hand(self) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW)
        first = renewer(hand)
        asked = first.effect
        first.interrupt(ZeroDivisionError())
        assert renewer(hand).effect == asked

    @pytest.mark.parametrize("loop", [renewer, watcher])
    def test_a_closed_client_has_no_loops(self, loop: object) -> None:
        hand = Hand()
        hand.lease(renew_at=NOW, until=NOW)
        hand.runtime.closed = True
        play = loop(hand)  # type: ignore[operator]
        assert (play.effect, play.error) == (None, None)

    def test_no_renewal_goes_out_after_the_client_was_closed(self) -> None:
        hand = Hand()
        leases = due(hand, BATCH + 1)
        play = renewer(hand)
        hand.runtime.closed = True
        play.hears(*[DONE] * BATCH)
        assert (play.effect, play.error) == (None, None)
        assert len(leases) > BATCH
