"""Rows of characters that are written into at any place."""

import unicodedata
from itertools import groupby
from math import floor

from holdfast.lab.pictures.ink import Line


def columns(text: str) -> int:
    """How many columns a text takes."""
    return sum(_column(character) for character in text)


def _column(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Row:
    """One line of a picture, written into at any place."""

    def __init__(self, width: int) -> None:
        self.cells = [(" ", "")] * width

    def write(self, place: float, text: str, style: str) -> None:
        """A text. A wide character takes two cells; the second stays empty."""
        at = floor(place)
        for character in text:
            size = _column(character)
            if size == 0:
                before, its_style = self.cells[at - 1]
                self.cells[at - 1] = (before + character, its_style)
                continue
            self.cells[at : at + size] = [(character, style), ("", style)][:size]
            at += size

    def line(self) -> Line:
        """Neighbours of one style together."""
        return [
            ("".join(character for character, _ in same), style)
            for style, same in groupby(self.cells, key=lambda cell: cell[1])
        ]


def across(left: float, right: float) -> range:
    """The columns from left to right: at least one."""
    return range(floor(left), max(floor(left) + 1, floor(right)))
