"""The sheet that a picture is drawn on: the axis of time, in columns, and rows of characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor, log10
from typing import NamedTuple, TypeAlias

_STEPS = (*(digit * 10.0**power for power in range(-6, 5) for digit in (1, 2, 5)),)
_BETWEEN_TICKS = 10
"""Columns from one tick to the next, at least."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A window of time, `width` columns wide."""

    since: float
    until: float
    width: int

    @property
    def length(self) -> float:
        """Seconds from end to end."""
        return self.until - self.since

    def place(self, at: float) -> float:
        """Where an instant is; one outside of the window is at the edge."""
        inside = min(max(at, self.since), self.until)
        return (inside - self.since) / self.length * self.width

    def extent(self, since: float, until: float) -> "Extent":
        """The columns of a span of time: at least one."""
        left = min(self.place(since), self.width - 1.0)
        return left, max(self.place(until), left + 1)

    @property
    def step(self) -> float:
        """Seconds from one tick to the next: a number that people count in."""
        least = _BETWEEN_TICKS / self.width * self.length
        return next((step for step in _STEPS if step >= least), _STEPS[-1])

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Where the ticks are, and their numbers."""
        step = self.step
        for number in range(ceil(self.since / step - 1e-9), floor(self.until / step + 1e-9) + 1):
            yield self.place(number * step), self._number(number * step, finer=0)

    def instant(self, at: float) -> str:
        """An instant in words, finer than the ticks."""
        return f"{self._number(at, finer=2)} s"

    def _number(self, at: float, finer: int) -> str:
        decimals = max(0, finer - floor(log10(self.step) + 1e-9))
        return f"{at:.{decimals}f}"


def fit(text: str, room: float) -> str:
    """The text, or what fits of it; nothing if that is too short to read."""
    if len(text) <= room:
        return text
    cut = text[: max(0, floor(room) - 1)]
    return f"{cut.rstrip()}…" if len(cut) >= 3 else ""


Extent: TypeAlias = tuple[float, float]
"""From left to right, in columns."""

Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the names of its styles."""


class Way(NamedTuple):
    """One way to draw a thing: the room that it takes, and its texts, each at its place and in its
    style."""

    left: float
    right: float
    texts: Sequence[tuple[float, str, str]]


class Row:
    """One line of a picture, written into at any place."""

    def __init__(self, width: int) -> None:
        self.cells = [(" ", "")] * width
        self._taken: list[Extent] = []

    def write(self, place: float, text: str, style: str) -> None:
        """A text."""
        for at, character in enumerate(text, floor(place)):
            self.cells[at] = (character, style)

    def draw(self, way: Way) -> bool:
        """Draw a thing in this way, if there is room for it, and a column between two things."""
        left, right, texts = way
        free = all(left >= end + 1 or right + 1 <= begin for begin, end in self._taken)
        if free:
            self._taken.append((left, right))
            for place, text, style in texts:
                self.write(place, text, style)
        return free

    def line(self) -> Line:
        """Neighbours of one style together."""
        return [
            ("".join(character for character, _ in same), style)
            for style, same in groupby(self.cells, key=lambda cell: cell[1])
        ]


def across(left: float, right: float) -> range:
    """The columns from left to right: at least one."""
    return range(floor(left), max(floor(left) + 1, floor(right)))
