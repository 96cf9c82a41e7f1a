"""Rows in which nothing overlaps."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from holdfast.lab.pictures.sheet import Bar, Sheet

MOST_ROWS = 3
"""Rows of tags in a lane, and of flags over all lanes. More would hide the picture."""


class Piece(Protocol):
    """What takes room in a row."""

    @property
    def left(self) -> float:
        """Where it begins."""
        ...

    @property
    def right(self) -> float:
        """Where it ends."""
        ...


P = TypeVar("P", bound=Piece)


def pack(bars: list[Bar], gap: float) -> list[list[Bar]]:
    """Bars in as few rows as first fit finds."""
    rows: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: bar.left):
        row = next((row for row in rows if _is_free(row, bar, gap)), None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return rows


def _is_free(row: Sequence[Piece], piece: Piece, gap: float) -> bool:
    return all(piece.left >= other.right + gap or piece.right + gap <= other.left for other in row)


def place(rows: list[list[P]], ways: Iterable[P], gap: float) -> bool:
    """Put the first of these ways to draw a thing that fits into the first row where it does."""
    for piece in ways:
        for row in rows:
            if _is_free(row, piece, gap):
                row.append(piece)
                return True
        if len(rows) < MOST_ROWS:
            rows.append([piece])
            return True
    return False


def seen(left: float, right: float, sheet: Sheet) -> tuple[float, float]:
    """The span from left to right, wide enough to be seen."""
    if right - left >= sheet.grain:
        return left, right
    left = min(left, sheet.width - sheet.grain)
    return left, left + sheet.grain
