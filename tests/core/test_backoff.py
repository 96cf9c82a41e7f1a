"""Pauses between tries."""

from random import Random

from holdfast.core.effects import FIRST_PAUSE, LONGEST_PAUSE, pause_after, spread


def test_the_range_doubles_up_to_the_longest() -> None:
    ranges: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        ranges.append((low, high))
        return low

    pauses = [pause_after(tries, uniform) for tries in range(10)]
    assert [high for _, high in ranges] == [FIRST_PAUSE * 2**n for n in range(6)] + [
        LONGEST_PAUSE
    ] * 4
    assert all(low == high / 2 for low, high in ranges)
    assert pauses == [low for low, _ in ranges]


def test_it_can_begin_and_end_elsewhere() -> None:
    pauses = [pause_after(tries, lambda low, high: high, 0.5, 3.0) for tries in range(5)]
    assert pauses == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_those_who_poll_at_one_interval_drift_apart() -> None:
    random = Random(1)
    pauses = [spread(2.0, random.uniform) for _ in range(100)]
    assert len(set(pauses)) == 100
    assert min(pauses) >= 1.0
    assert max(pauses) <= 2.0
