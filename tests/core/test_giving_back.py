"""What could not be given back is tried again, by the renewer."""

from math import inf

from holdfast.core.acquire import acquire
from holdfast.core.effects import Ask, Wait
from holdfast.core.holding import (
    LEISURE,
    RETURN_AFTER,
    RETURN_PATIENCE,
    RETURNS,
    give_back,
    give_back_again,
    hasten_returns,
    release_undelivered,
)
from holdfast.core.lease_state import RELEASED
from holdfast.core.messages import DONE, NOT_YOURS, Extend, Held, Release
from holdfast.core.renewal import RENEWER, renew_for_ever
from holdfast.core.schedule import MOST_UNRETURNED
from tests.core.hand import BROKEN, PATIENCE, Hand, spec


def failed(count: int = 1) -> Hand:
    """So many could not be given back, just now."""
    hand = Hand()
    for number in range(count):
        play = hand.play(give_back(hand.runtime, spec(), f"h{number}", PATIENCE))
        play.hears(BROKEN, at=hand.now + PATIENCE)
    hand.events.clear()
    return hand


def test_it_is_asked_after_a_while_and_forgotten_with_an_answer() -> None:
    for answer in (DONE, NOT_YOURS):
        hand = failed()
        assert hand.roused == 1
        renewing = hand.play(renew_for_ever(hand.runtime)).goes_on()
        assert renewing.effect == Wait(RENEWER, hand.now + RETURN_AFTER)
        renewing.goes_on(at=renewing.effect.until)
        assert renewing.effect == Ask((Release("p:job", "h0"),), hand.now + RETURN_PATIENCE)
        waits = renewing.hears(answer).effect
        assert waits == Wait(RENEWER, inf)
        assert hand.events == []


def test_without_an_answer_it_is_asked_again_and_again() -> None:
    hand = failed()
    renewing = hand.play(renew_for_ever(hand.runtime)).goes_on()
    for pause in (2 * RETURN_AFTER, 4 * RETURN_AFTER, 8 * RETURN_AFTER):
        asked_at = renewing.effect.until
        renewing.goes_on(at=asked_at)
        assert renewing.effect.requests == (Release("p:job", "h0"),)
        renewing.hears(BROKEN, at=asked_at + RETURN_PATIENCE)
        assert renewing.effect == Wait(RENEWER, asked_at + pause)
    assert hand.events == [], "that was told once"


def test_no_lease_waits_for_it() -> None:
    """Not even one that was renewed just now."""
    for leisure, asks in ((2 * LEISURE, True), (LEISURE / 2, False)):
        hand = failed()
        tenure = hand.tenure(until=hand.now + 100, ttl=3 * leisure)
        tenure.renew_at = hand.now + RETURN_AFTER
        hand.runtime.schedule.enter(tenure)
        renewing = hand.play(renew_for_ever(hand.runtime)).goes_on()
        renewing.goes_on(at=hand.now + RETURN_AFTER)
        assert isinstance(renewing.effect.requests[0], Extend)
        renewing.hears(DONE)
        if asks:
            assert renewing.effect == Ask((Release("p:job", "h0"),), hand.now + RETURN_PATIENCE)
        else:
            assert isinstance(renewing.effect, Wait)


def test_one_goes_out_to_see_then_many_together_and_the_rest_at_once() -> None:
    hand = failed(RETURNS + 1)
    hand.now += RETURN_AFTER
    play = hand.play(give_back_again(hand.runtime))
    assert play.effect.requests == (Release("p:job", "h0"),)
    play.hears(DONE)
    assert len(play.effect.requests) == RETURNS - 1
    assert play.hears(*[DONE] * (RETURNS - 1)).effect is None
    play = hand.play(give_back_again(hand.runtime))
    assert play.effect.requests == (Release("p:job", f"h{RETURNS}"),)


def test_without_an_answer_to_one_the_others_are_not_asked_about() -> None:
    hand = failed(2)
    hand.now += RETURN_AFTER
    play = hand.play(give_back_again(hand.runtime))
    assert play.hears(BROKEN).effect is None
    assert len(hand.runtime.schedule.pending_releases) == 2


def test_of_too_many_the_oldest_are_forgotten() -> None:
    hand = failed(MOST_UNRETURNED + 2)
    pending_releases = hand.runtime.schedule.pending_releases
    assert len(pending_releases) == MOST_UNRETURNED
    assert next(iter(pending_releases)) == "h2"


def test_one_client_closes_or_forks_and_has_nothing_to_give_back() -> None:
    hand = failed()
    hand.runtime.schedule.clear()
    assert (hand.runtime.schedule.pending_releases, hand.runtime.schedule.fall_asleep()) == (
        {},
        inf,
    )


def test_it_is_tried_soon_when_somebody_is_told_to_wait() -> None:
    for ago, soon in ((0.0, RETURN_AFTER), (9.0, RETURN_AFTER - 9.0)):
        hand = failed()
        schedule = hand.runtime.schedule
        schedule.tried_at, schedule.return_at = hand.now - ago, hand.now + 9
        hand.play(acquire(hand.runtime, spec(), None)).hears(Held(1.0, False))
        assert schedule.return_at == hand.now + soon, "but not again and again"
        assert hand.roused == 2


def test_nothing_is_asked_if_it_was_hastened_when_it_was_done_already() -> None:
    hand = Hand()
    hasten_returns(hand.runtime)
    assert hand.play(give_back_again(hand.runtime)).effect is None
    assert hand.runtime.schedule.fall_asleep() == inf


def test_so_is_a_lease_that_has_not_got_to_whom_it_was_for() -> None:
    hand = Hand()
    tenure = hand.tenure()
    play = hand.play(release_undelivered(hand.runtime, tenure))
    assert play.effect == Ask((Release("p:job", "me"),), hand.now + PATIENCE)
    play.hears(BROKEN, at=hand.now + PATIENCE)
    assert tenure.state is RELEASED
    assert list(hand.runtime.schedule.pending_releases) == ["me"]
    assert hand.play(release_undelivered(hand.runtime, tenure)).effect is None


def test_what_fails_goes_behind_the_rest() -> None:
    """It may be kept by a part of the engine that is down, while others answer."""
    hand = failed(3)
    pending_releases = hand.runtime.schedule.pending_releases
    hand.now += RETURN_AFTER
    hand.play(give_back_again(hand.runtime)).hears(BROKEN)
    assert list(pending_releases) == ["h1", "h2", "h0"]
    hand.now = hand.runtime.schedule.return_at
    hand.play(give_back_again(hand.runtime)).hears(DONE).hears(BROKEN, DONE)
    assert list(pending_releases) == ["h2"]
