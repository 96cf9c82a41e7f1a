"""The sheet that a picture is drawn on: the axis of time, in columns, and rows of characters."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor, log10
from typing import TypeAlias

_STEPS = (*(digit * 10.0**power for power in range(-6, 5) for digit in (1, 2, 5)),)
"""Seconds from one tick to the next: numbers that people count in."""
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

    def place(self, at: float) -> int:
        """The column of an instant; one outside of the window is at the edge."""
        return min(self._columns_until(at), self.width - 1)

    def extent(self, since: float, until: float) -> range:
        """The columns of a span of time: at least one."""
        left = self.place(since)
        return range(left, max(self._columns_until(until), left + 1))

    def _columns_until(self, at: float) -> int:
        inside = min(max(at, self.since), self.until)
        return floor((inside - self.since) / self.length * self.width)

    def ticks(self) -> Iterator[tuple[int, str]]:
        """Where the ticks are, and their numbers."""
        least = _BETWEEN_TICKS / self.width * self.length
        step = next((step for step in _STEPS if step >= least), _STEPS[-1])
        decimals = max(0, -floor(log10(step) + 1e-9))
        for number in range(ceil(self.since / step - 1e-9), floor(self.until / step + 1e-9) + 1):
            yield self.place(number * step), f"{number * step:.{decimals}f}"


def fit(text: str, room: float) -> str:
    """The text, or what fits of it; nothing if that is too short to read."""
    if len(text) <= room:
        return text
    cut = text[: max(0, floor(room) - 1)]
    return f"{cut.rstrip()}…" if len(cut) >= 3 else ""


Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the names of its styles."""


class Row:
    """One line of a picture, written into at any column."""

    def __init__(self, width: int) -> None:
        self.cells = [(" ", "")] * width

    def write(self, at: int, *pieces: tuple[str, str]) -> None:
        """Pieces of text, one behind the other, each in its style."""
        for text, style in pieces:
            self.cells[at : at + len(text)] = [(character, style) for character in text]
            at += len(text)

    def is_free(self, left: int, right: int) -> bool:
        """Whether these columns are empty, and one on each side."""
        return all(character == " " for character, _ in self.cells[max(0, left - 1) : right + 1])

    def longest(self, columns: range, character: str) -> range:
        """The longest stretch of a character within these columns."""
        found = columns[:0]
        for same, stretch in groupby(columns, key=lambda at: self.cells[at][0]):
            places = list(stretch)
            if same == character and len(places) > len(found):
                found = range(places[0], places[-1] + 1)
        return found

    def line(self) -> Line:
        """Neighbours of one style together."""
        return [
            ("".join(character for character, _ in same), style)
            for style, same in groupby(self.cells, key=lambda cell: cell[1])
        ]
