"""Whatever changes a lease or the schedule does so under the world's mutex."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.core.acquire import acquire
from holdfast.core.holding import extend, release, release_all
from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import DONE, NOT_YOURS, Granted
from holdfast.core.renewal import renew_for_ever
from holdfast.core.schedule import SWEEP_ABOVE, Schedule
from tests.core.hand import BROKEN, NOW, TTL, Hand, spec


class Mutex:
    """Re-entrant, and known to be held or not."""

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1


CHANGES = {
    Schedule: (
        "due",
        "put_back",
        "lost",
        "clear",
        "settle",
        "fall_asleep",
        "first_deadline",
        "held",
    ),
    LeaseState: ("prolong", "mark_released", "lose", "require_held"),
}


@contextmanager
def watched(mutex: Mutex, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Fails whoever changes something without the mutex; gives what was changed."""
    seen: set[str] = set()

    def watch(kind: type, name: str) -> None:
        change = getattr(kind, name)

        def changed(*args: Any) -> Any:
            assert mutex.depth > 0, f"{kind.__name__}.{name} without the mutex"
            seen.add(name)
            return change(*args)

        monkeypatch.setattr(kind, name, changed)

    for kind, names in CHANGES.items():
        for name in names:
            watch(kind, name)
    yield seen
    assert mutex.depth == 0


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def changed(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    mutex = hand.runtime.mutex = Mutex()
    with watched(mutex, monkeypatch) as seen:
        yield seen


def taken(hand: Hand, **asked: Any) -> LeaseState:
    play = hand.play(acquire(hand.runtime, spec(**asked), None)).hears(Granted(7))
    assert isinstance(play.result, LeaseState), play.error
    return play.result


def test_taking(hand: Hand, changed: set[str]) -> None:
    kept = [taken(hand) for _ in range(SWEEP_ABOVE + 1)]
    hand.runtime.schedule.asleep_until = 0.0
    assert changed == set(), "to enter needs no mutex"
    kept.append(taken(hand))
    assert changed == {"settle"}


@pytest.mark.parametrize("answer", [DONE, NOT_YOURS, BROKEN])
def test_extending(hand: Hand, changed: set[str], answer: Any) -> None:
    tenure = taken(hand)
    play = hand.play(extend(hand.runtime, tenure, 2 * TTL)).hears(answer)
    assert not isinstance(play.error, AssertionError)
    assert "require_held" in changed


@pytest.mark.parametrize("late", [0.0, TTL])
@pytest.mark.parametrize("answer", [DONE, NOT_YOURS])
def test_releasing(hand: Hand, changed: set[str], answer: Any, late: float) -> None:
    tenure = taken(hand)
    hand.now += late
    play = hand.play(release(hand.runtime, tenure)).hears(answer)
    assert not isinstance(play.error, AssertionError)
    assert changed >= ({"lose", "lost"} if late else {"mark_released"})


def test_releasing_what_was_entered_twice(hand: Hand, changed: set[str]) -> None:
    tenure = taken(hand)
    tenure.depth = 2
    assert hand.play(release(hand.runtime, tenure)).error is None
    assert "require_held" in changed


def test_closing(hand: Hand, changed: set[str]) -> None:
    tenure = taken(hand)
    assert hand.play(release_all(hand.runtime)).hears(DONE).error is None
    assert changed >= {"held", "mark_released", "clear"}
    assert not tenure.is_held(NOW)


@pytest.mark.parametrize("answer", [DONE, NOT_YOURS, BROKEN])
def test_renewing(hand: Hand, changed: set[str], answer: Any) -> None:
    kept = [taken(hand, name="job"), taken(hand, name="over", ttl=TTL / 4, renew=False)]
    play = hand.play(renew_for_ever(hand.runtime)).goes_on()
    play.goes_on(at=kept[0].renew_at).hears(answer)
    assert play.error is None
    assert changed >= {"due", "put_back", "fall_asleep", "first_deadline", "lose", "lost"}
