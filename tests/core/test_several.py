"""How several leases end together, step by step."""

import pytest

from holdfast.core.lease_state import TAKEN
from holdfast.core.messages import DONE
from holdfast.core.several import begin_release_all, finish_release_all
from holdfast.errors import EngineUnavailable, LockLost, NotHeld
from tests.core.hand import BROKEN, Hand, Play


def release(hand: Hand, *names: str) -> Play:
    leases = [hand.lease(holder=name, name=name) for name in names]
    begun, failure = begin_release_all(hand.runtime, leases)
    return hand.play(finish_release_all(hand.runtime, begun, failure))


def test_all_end_before_the_first_release_is_sent() -> None:
    hand = Hand()
    play = release(hand, "a", "b")
    assert hand.runtime.registry.held() == []
    assert [each.key for each in play.effect.requests] == ["p:b"], "the last one first"
    assert play.hears(DONE).hears(DONE).error is None
    assert hand.runtime.pending.keys() == ()


def test_the_renewer_sends_at_once_what_an_interrupted_caller_has_left() -> None:
    hand = Hand()
    play = release(hand, "a", "b", "c").hears(DONE)
    assert hand.pending == []
    assert isinstance(play.interrupt(KeyboardInterrupt()).error, KeyboardInterrupt)
    assert {each.key for each in hand.pending} == {"p:a", "p:b"}


def test_so_it_does_if_the_engine_is_unreachable() -> None:
    hand = Hand()
    play = release(hand, "a", "b").hears(BROKEN).hears(BROKEN)
    assert isinstance(play.error, EngineUnavailable)
    assert {each.key for each in hand.pending} == {"p:a", "p:b"}


def test_a_loss_is_raised_when_the_others_are_released() -> None:
    hand = Hand()
    leases = [hand.lease(holder=name, name=name) for name in ("a", "b")]
    leases[1].mark_lost(TAKEN)
    begun, failure = begin_release_all(hand.runtime, leases)
    assert [lease for lease, _ in begun] == [leases[0]]
    play = hand.play(finish_release_all(hand.runtime, begun, failure)).hears(DONE)
    with pytest.raises(LockLost, match="'b'"):
        raise play.error or AssertionError


def test_only_if_all_were_released_before_is_that_an_error() -> None:
    hand = Hand()
    leases = [hand.lease(holder=name, name=name) for name in ("a", "b")]
    leases[0].mark_released()
    begun, failure = begin_release_all(hand.runtime, leases)
    assert ([lease for lease, _ in begun], failure) == ([leases[1]], None)
    begun, failure = begin_release_all(hand.runtime, leases)
    assert begun == []
    assert isinstance(failure, NotHeld)
