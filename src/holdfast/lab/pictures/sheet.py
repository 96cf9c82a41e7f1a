"""Where things are on the sheet, in columns: the axis of time, bars, tags, bands, and what a legend
must explain."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10

from holdfast.lab.history import Finding
from holdfast.lab.pictures.lanes import Lane, Look, Mark, Span, Symbol

_STEPS = (*(digit * 10.0**power for power in range(-6, 5) for digit in (1, 2, 5)),)
_IN_MILLISECONDS_BELOW = 0.1
"""A step between two ticks that is shorter is given in milliseconds."""


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

    @property
    def step(self) -> float:
        """Seconds from one tick to the next: a number that people count in."""
        least = _BETWEEN_TICKS / self.width * self.length
        return next((step for step in _STEPS if step >= least), _STEPS[-1])

    @property
    def unit(self) -> str:
        """What the numbers at the ticks mean."""
        return "ms" if self.step < _IN_MILLISECONDS_BELOW else "s"

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Where the ticks are, and their numbers."""
        step = self.step
        for number in range(ceil(self.since / step - 1e-9), floor(self.until / step + 1e-9) + 1):
            yield self.place(number * step), self._number(number * step, finer=0)

    def instant(self, at: float) -> str:
        """An instant in words, finer than the ticks."""
        return f"{self._number(at, finer=2)} {self.unit}"

    def _number(self, at: float, finer: int) -> str:
        scale = 1000.0 if self.unit == "ms" else 1.0
        decimals = max(0, finer - floor(log10(self.step * scale) + 1e-9))
        return f"{at * scale:.{decimals}f}"


def columns(text: str) -> int:
    """How many columns a text takes."""
    return sum(map(column, text))


def column(character: str) -> int:
    """How many columns a character takes: 0, 1 or 2."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, room: float) -> str:
    """The text, or what fits of it; nothing if that is too short to read."""
    if columns(text) <= room:
        return text
    cut = text
    while cut and columns(f"{cut}…") > room:
        cut = cut[:-1]
    return f"{cut.rstrip()}…" if len(cut) >= 3 else ""


@dataclass(frozen=True, slots=True)
class Piece:
    """What takes room in a row, with the text that is written on it or beside it."""

    left: float
    right: float
    label: str
    label_at: float


@dataclass(frozen=True, slots=True)
class Bar(Piece):
    """A span."""

    span: Span
    notches: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Tag(Piece):
    """A symbol at its instant, `x`, with its text on one side of it."""

    mark: Mark
    x: float


@dataclass(frozen=True, slots=True)
class Band:
    """Where a promise was broken: across these lanes, by number."""

    label: str
    left: float
    right: float
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Flag(Piece):
    """What a band means, over all lanes: its text is over the band, or on one side of it."""

    band: Band


@dataclass(frozen=True, slots=True)
class Stripe:
    """A lane on the sheet."""

    lane: Lane
    bars: list[list[Bar]]
    """In rows: what a client waits for and holds, what a node has voted for."""
    veils: list[Bar]
    """What covers all of these rows: pauses, and being down."""
    cuts: list[list[Bar]]
    tags: list[list[Tag]]


@dataclass(frozen=True, slots=True)
class Board:
    """The whole picture, before characters and colours are chosen."""

    axis: Axis
    stripes: list[Stripe]
    bands: list[Band]
    flags: list[list[Flag]]
    findings: list[Finding]
    fences: dict[int, str]
    """Their labels."""
    left_out: int
    """How many marks found no room."""


def looks_in(board: Board) -> list[Look]:
    """The sorts of spans that occur."""
    found = {
        bar.span.look
        for stripe in board.stripes
        for bars in (*stripe.bars, stripe.veils, *stripe.cuts)
        for bar in bars
    }
    return [look for look in Look if look in found]


def symbols_in(board: Board) -> list[Symbol]:
    """The sorts of marks that occur, except for what a span explains already."""
    tags = (tag for stripe in board.stripes for row in stripe.tags for tag in row)
    found = {tag.mark.symbol for tag in tags}
    explained = {look.value for look in looks_in(board)}
    return [symbol for symbol in Symbol if symbol in found and symbol.value not in explained]


def are_extended(board: Board) -> bool:
    """Whether anything was extended."""
    bars = (bar for stripe in board.stripes for row in stripe.bars for bar in row)
    return any(bar.notches for bar in bars)
