"""What could not be given back is tried again, by the renewer."""

from math import inf

from holdfast.core.acquire import acquire
from holdfast.core.effects import Ask, Wait
from holdfast.core.holding import (
    RETURN_AFTER,
    RETURN_PATIENCE,
    RETURNS,
    give_back,
    give_back_again,
    hasten_returns,
)
from holdfast.core.messages import DONE, NOT_YOURS, Held, Release
from holdfast.core.renewal import RENEWER, renew_for_ever
from holdfast.core.schedule import MOST_UNRETURNED
from holdfast.core.tenure import HELD
from tests.core.hand import BROKEN, PATIENCE, Hand, claim


def failed(count: int = 1) -> Hand:
    """So many could not be given back, just now."""
    hand = Hand()
    for number in range(count):
        play = hand.play(give_back(hand.world, claim(), f"h{number}", PATIENCE))
        play.hears(BROKEN, at=hand.now + PATIENCE)
    hand.events.clear()
    return hand


def test_it_is_asked_after_a_while_and_forgotten_with_an_answer() -> None:
    for answer in (DONE, NOT_YOURS):
        hand = failed()
        assert hand.roused == 1
        renewing = hand.play(renew_for_ever(hand.world)).goes_on()
        assert renewing.effect == Wait(RENEWER, hand.now + RETURN_AFTER)
        renewing.goes_on(at=renewing.effect.until)
        assert renewing.effect == Ask((Release("p:job", "h0"),), hand.now + RETURN_PATIENCE)
        waits = renewing.hears(answer).effect
        assert waits == Wait(RENEWER, inf)
        assert hand.events == []


def test_without_an_answer_it_is_asked_again_and_again() -> None:
    hand = failed()
    renewing = hand.play(renew_for_ever(hand.world)).goes_on()
    for pause in (2 * RETURN_AFTER, 4 * RETURN_AFTER, 8 * RETURN_AFTER):
        asked_at = renewing.effect.until
        renewing.goes_on(at=asked_at)
        assert renewing.effect.requests == (Release("p:job", "h0"),)
        renewing.hears(BROKEN, at=asked_at + RETURN_PATIENCE)
        assert renewing.effect == Wait(RENEWER, asked_at + pause)
    assert hand.events == [], "that was told once"


def test_no_renewal_waits_for_it() -> None:
    hand = failed()
    due = hand.now + RETURN_AFTER + RETURN_PATIENCE / 2
    tenure = hand.tenure(until=due)
    play = hand.play(give_back_again(hand.world))
    assert play.effect is None, "it is not time yet"
    hand.now += RETURN_AFTER
    assert hand.play(give_back_again(hand.world)).effect.until == due
    assert tenure.state is HELD


def test_many_go_out_together_and_the_rest_at_once() -> None:
    hand = failed(RETURNS + 1)
    hand.now += RETURN_AFTER
    play = hand.play(give_back_again(hand.world))
    assert len(play.effect.requests) == RETURNS
    assert play.hears(*[DONE] * RETURNS).effect is None
    play = hand.play(give_back_again(hand.world))
    assert play.effect.requests == (Release("p:job", f"h{RETURNS}"),)


def test_of_too_many_the_oldest_are_forgotten() -> None:
    hand = failed(MOST_UNRETURNED + 2)
    unreturned = hand.world.schedule.unreturned
    assert len(unreturned) == MOST_UNRETURNED
    assert next(iter(unreturned)) == "h2"


def test_one_client_closes_or_forks_and_has_nothing_to_give_back() -> None:
    hand = failed()
    hand.world.schedule.clear()
    assert (hand.world.schedule.unreturned, hand.world.schedule.fall_asleep()) == ({}, inf)


def test_it_is_tried_at_once_when_somebody_is_told_to_wait() -> None:
    hand = failed()
    asking = hand.play(acquire(hand.world, claim(), None))
    assert hand.world.schedule.return_at > hand.now
    asking.hears(Held(1.0, False))
    assert hand.world.schedule.return_at == hand.now
    assert hand.roused == 2


def test_nothing_is_asked_if_it_was_hastened_when_it_was_done_already() -> None:
    hand = Hand()
    hasten_returns(hand.world)
    assert hand.play(give_back_again(hand.world)).effect is None
    assert hand.world.schedule.fall_asleep() == inf
