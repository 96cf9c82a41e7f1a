"""Optimistic updates, step by step: what is asked, when it is asked again, and when it is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import EngineUnavailable, UpdateTimeout, Versioned
from holdfast.core.cells import LONGEST_PAUSE, get, put, update
from holdfast.core.effects import Ask, Sleep
from holdfast.core.messages import CHANGED, DONE, Failed, Read, Write

FAILED = Failed.at("engine", "silent")


class Play:
    """Performs an algorithm on a clock of its own; each answer is given once."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.pauses: list[float] = []
        self.now = 100.0
        self.runtime: Any = SimpleNamespace(clock=lambda: self.now, uniform=lambda low, high: high)

    def run(self, steps: Any) -> Any:
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self.perform(effect))
        except StopIteration as stop:
            return stop.value

    def perform(self, effect: Any) -> Any:
        if isinstance(effect, Ask):
            [request] = effect.requests
            assert effect.until > self.now
            self.asked.append(request)
            return [self.answers.pop(0)]
        assert isinstance(effect, Sleep)
        self.pauses.append(effect.until - self.now)
        self.now = effect.until
        return None


def more(value: Any) -> str:
    return f"{value}+"


def test_reading() -> None:
    play = Play(Versioned("a", 7))
    assert play.run(get(play.runtime, "p:x", "x")) == ("a", 7)
    assert play.asked == [Read("p:x")]


def test_a_read_that_fails_says_that_nothing_was_set() -> None:
    play = Play(FAILED)
    with pytest.raises(EngineUnavailable, match="'x' was not read, and nothing was set: engine"):
        play.run(update(play.runtime, "p:x", "x", more, 1))


@pytest.mark.parametrize(("answer", "result"), [(DONE, True), (CHANGED, False)])
def test_writing(answer: Any, result: bool) -> None:
    play = Play(answer)
    assert play.run(put(play.runtime, "p:x", "x", b"v", 7)) is result
    assert play.asked == [Write("p:x", b"v", 7)]


def test_a_write_whose_reply_is_lost_is_not_repeated() -> None:
    play = Play(Versioned("a", 7), FAILED)
    calls: list[Any] = []

    def note(value: Any) -> str:
        calls.append(value)
        return "b"

    with pytest.raises(EngineUnavailable, match="outcome unknown: the cell 'x' was set, or"):
        play.run(update(play.runtime, "p:x", "x", note, None))
    assert calls == ["a"]
    assert play.asked == [Read("p:x"), Write("p:x", "b", 7)]


def test_what_is_no_value_is_not_written() -> None:
    play = Play(Versioned("a", 7))
    with pytest.raises(TypeError):
        play.run(update(play.runtime, "p:x", "x", lambda value: 7, None))
    assert play.asked == [Read("p:x")]


def test_each_try_starts_from_what_is_there_by_then() -> None:
    play = Play(Versioned("a", 7), CHANGED, Versioned("b", 8), CHANGED, Versioned("c", 12), DONE)
    assert play.run(update(play.runtime, "p:x", "x", more, 60)) == "c+"
    assert [each for each in play.asked if isinstance(each, Write)] == [
        Write("p:x", "a+", 7),
        Write("p:x", "b+", 8),
        Write("p:x", "c+", 12),
    ]


def test_pauses_grow_and_the_deadline_is_kept() -> None:
    play = Play(*[Versioned("a", 1), CHANGED] * 100)
    with pytest.raises(UpdateTimeout) as error:
        play.run(update(play.runtime, "p:x", "x", more, 1.0))
    assert play.now == 101.0
    assert play.pauses[:3] == pytest.approx([0.002, 0.004, 0.008])
    assert max(play.pauses) == pytest.approx(LONGEST_PAUSE)
    assert error.value.tries == len(play.pauses) + 1, "a last try at the deadline"
    assert error.value.timeout == 1.0


def test_a_deadline_that_is_now_leaves_one_try() -> None:
    play = Play(Versioned("a", 1), CHANGED)
    with pytest.raises(UpdateTimeout, match="the only try"):
        play.run(update(play.runtime, "p:x", "x", more, 0))
    assert play.pauses == []


def test_without_a_deadline_it_goes_on() -> None:
    play = Play(*[Versioned("a", 1), CHANGED] * 500, Versioned("a", 1), DONE)
    assert play.run(update(play.runtime, "p:x", "x", more, None)) == "a+"
