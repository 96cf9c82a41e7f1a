"""Releases that the engine has not confirmed yet."""

from math import inf

import pytest

from holdfast.core.effects import FIRST_PAUSE, LONGEST_PAUSE
from holdfast.core.messages import Release
from holdfast.core.pending import MOST, PendingReleases

ALL = 2 * MOST


def release(holder: str = "me") -> Release:
    return Release("p:job", holder)


def greatest(low: float, high: float) -> float:
    return high


def test_it_is_due_at_its_instant_and_until_it_is_confirmed() -> None:
    pending = PendingReleases()
    pending.add(release(), expires_at=10.0, not_before=2.0, was_held=True)
    assert pending.next_due() == 2.0
    assert pending.due(1.9, ALL) == []
    for _ in range(2):
        assert pending.due(2.0, ALL) == [release()]
    assert pending.find("me") == release()
    pending.confirm("me")
    assert pending.find("me") is None
    assert (pending.due(2.0, ALL), pending.keys(), pending.next_due()) == ([], (), inf)


def test_at_the_end_of_the_lease_it_is_forgotten() -> None:
    pending = PendingReleases()
    pending.add(release(), expires_at=10.0, not_before=2.0, was_held=True)
    assert pending.due(9.9, ALL) == [release()]
    assert pending.due(10.0, ALL) == []
    assert pending.keys() == ()


def test_failures_are_followed_by_longer_and_longer_pauses() -> None:
    pending = PendingReleases()
    pending.add(release(), expires_at=inf, not_before=0.0, was_held=True)
    pauses, now = [], 0.0
    for _ in range(8):
        pending.failed("me", now, greatest)
        pauses.append(pending.next_due() - now)
        now = pending.next_due()
    assert pauses[:3] == pytest.approx([FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE])
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE)


def test_one_that_failed_goes_behind_the_others() -> None:
    pending = PendingReleases()
    for holder in ("first", "second"):
        pending.add(release(holder), expires_at=inf, not_before=0.0, was_held=True)
    pending.failed("first", 0.0, greatest)
    assert pending.due(1.0, 1) == [release("second")]
    assert pending.due(1.0, ALL) == [release("second"), release("first")]


def test_a_caller_that_was_interrupted_leaves_it_to_be_sent_at_once() -> None:
    pending = PendingReleases()
    pending.add(release(), expires_at=inf, not_before=5.0, was_held=True)
    pending.hasten("unknown", 1.0)
    pending.hasten("me", 1.0)
    assert pending.due(1.0, ALL) == [release()]
    pending.hasten("me", 3.0)
    assert pending.next_due() == 1.0, "it is not put off"


def test_at_the_close_all_are_due() -> None:
    pending = PendingReleases()
    for holder in ("first", "second"):
        pending.add(release(holder), expires_at=inf, not_before=5.0, was_held=True)
    pending.hasten_all(1.0)
    assert len(pending.due(1.0, ALL)) == 2


def test_of_too_many_the_latest_are_kept() -> None:
    pending = PendingReleases()
    for number in range(MOST + 5):
        pending.add(release(str(number)), expires_at=inf, not_before=0.0, was_held=True)
    due = pending.due(0.0, ALL)
    assert len(due) == MOST
    assert due[-1] == release(str(MOST + 4))
