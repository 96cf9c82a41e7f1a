"""Clocks that run fast or slow, and can be set."""

from holdfast.lab.timeline import Timeline

EPOCH = 1_700_000_000.0
"""What a calendar says at the beginning of a run."""


class Clock:
    """Somebody's own clock, on a timeline that is the truth."""

    __slots__ = ("_offset", "_rate", "_timeline")

    def __init__(self, timeline: Timeline, rate: float = 1.0, offset: float = 0.0) -> None:
        self._timeline = timeline
        self._rate = rate
        self._offset = offset

    def __call__(self) -> float:
        """What it says."""
        return self._timeline.now * self._rate + self._offset

    def true(self, instant: float) -> float:
        """When this clock says so, in truth, unless it is set before."""
        return (instant - self._offset) / self._rate

    def run_at(self, rate: float) -> None:
        """Run at this rate from now on."""
        self._offset += self._timeline.now * (self._rate - rate)
        self._rate = rate

    def jump(self, by: float) -> None:
        """Be set forward, or back."""
        self._offset += by
