"""The axis of time: which instants are shown, where they are, and what they are called."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10

_STEPS = (
    *(digit * 10.0**power for power in range(-6, 1) for digit in (1, 2, 5)),
    *(10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0),
    *(3600.0, 7200.0, 21600.0, 43200.0, 86400.0),
)
_IN_MINUTES_FROM = 100.0
"""A picture of so many seconds or more counts minutes."""
_IN_MILLISECONDS_BELOW = 0.1
"""A step between two ticks that is shorter is told in milliseconds."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A window of time on so many units (pixels, or columns), with a tick about every `room`."""

    since: float
    until: float
    width: float
    room: float

    @property
    def length(self) -> float:
        """Seconds from end to end."""
        return self.until - self.since

    def place(self, at: float) -> float:
        """Where an instant is; one outside of the window is at the edge."""
        inside = min(max(at, self.since), self.until)
        return (inside - self.since) / self.length * self.width

    def shows(self, since: float, until: float) -> bool:
        """Whether anything of this span is in the window."""
        return since <= self.until and until >= self.since

    @property
    def step(self) -> float:
        """Seconds from one tick to the next: a number that people count in."""
        least = self.room / self.width * self.length
        return next((step for step in _STEPS if step >= least), _STEPS[-1])

    @property
    def unit(self) -> str:
        """What the numbers at the ticks mean."""
        if self.length >= _IN_MINUTES_FROM:
            return "min"
        return "ms" if self.step < _IN_MILLISECONDS_BELOW else "s"

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Where the ticks are, and their numbers."""
        step = self.step
        for number in range(ceil(self.since / step - 1e-9), floor(self.until / step + 1e-9) + 1):
            yield self.place(number * step), self._number(number * step, finer=0)

    def say(self, at: float) -> str:
        """An instant in words, finer than the ticks."""
        return f"{self._number(at, finer=2)} {self.unit}"

    def _number(self, at: float, finer: int) -> str:
        if self.unit == "min":
            return _clock(at, finer)
        scale = 1000.0 if self.unit == "ms" else 1.0
        decimals = max(0, finer - floor(log10(self.step * scale) + 1e-9))
        return f"{at * scale:.{decimals}f}"


def _clock(at: float, decimals: int) -> str:
    """Minutes and seconds, after an hour with hours: 1:30, 1:01:30."""
    sign, seconds = "-" if at < 0 else "", round(abs(at), decimals)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    tail = f"{seconds:0{decimals + 3 if decimals else 2}.{decimals}f}"
    return f"{sign}{hours}:{minutes:02}:{tail}" if hours else f"{sign}{minutes}:{tail}"
