"""Latches, step by step: what a waiter does about an engine that fails."""

import pytest

from holdfast.core.effects import Sleep
from holdfast.core.latch import count_down, read_participants, wait
from holdfast.core.messages import CHANGED, DONE, Write
from holdfast.core.records import Versioned
from holdfast.errors import EngineUnavailable
from tests.core.hand import BROKEN, NOW, RETRY, Hand, Play

PLACE = "p:latch:x", "latch:x"
EMPTY, ONE = Versioned(None, 0), Versioned('["a"]', 1)


def waits(hand: Hand, timeout: float | None) -> Play:
    return hand.play(wait(hand.runtime, *PLACE, 1, RETRY, 30.0, timeout))


def test_it_asks_until_it_is_open() -> None:
    play = waits(Hand(), None).hears(EMPTY)
    assert isinstance(play.effect, Sleep)
    assert play.goes_on().hears(ONE).result is True


def test_it_looks_once_more_at_the_timeout() -> None:
    hand = Hand()
    play = waits(hand, 0.5).hears(EMPTY)
    assert play.effect == Sleep(NOW + 0.5)
    assert play.goes_on(at=NOW + 0.5).hears(EMPTY).result is False
    assert waits(hand, 0.0).hears(ONE).result is True


def test_an_engine_that_fails_until_the_timeout() -> None:
    play = waits(Hand(), 2.0).hears(BROKEN).goes_on(at=NOW + 1).hears(EMPTY)
    assert isinstance(play.effect, Sleep)
    play.goes_on(at=NOW + 2).hears(BROKEN)
    assert isinstance(play.error, EngineUnavailable), "the last answer was an error"


def test_without_a_timeout_it_fails_after_a_ttl() -> None:
    play = waits(Hand(), None).hears(BROKEN).goes_on(at=NOW + 29).hears(BROKEN)
    assert isinstance(play.effect, Sleep)
    assert isinstance(play.goes_on(at=NOW + 30).hears(BROKEN).error, EngineUnavailable)


def test_two_at_once_are_both_counted() -> None:
    play = (hand := Hand()).play(count_down(hand.runtime, *PLACE, "b", 10.0))
    play.hears(EMPTY).hears(CHANGED).goes_on().hears(ONE)
    assert play.effect.requests == (Write(PLACE[0], '["a", "b"]', 1),)
    assert play.hears(DONE).result == {"a", "b"}


def test_what_is_no_latch() -> None:
    assert read_participants("latch:x", None) == frozenset()
    for content in ("x", b"\xff", "7", "{}", "[1]"):
        with pytest.raises(ValueError, match="latch:x"):
            read_participants("latch:x", content)
