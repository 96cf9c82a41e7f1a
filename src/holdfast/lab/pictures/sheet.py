"""What a picture is drawn on, and the pieces that are put there.

Across, all is counted in units of the sheet, pixels or columns; down, in rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.lab.history import Finding
from holdfast.lab.pictures.axis import Axis
from holdfast.lab.pictures.lanes import Lane, Mark, Span

_WIDEST = 0.4
"""A text takes no more than this part of the sheet."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Room for lanes."""

    width: float
    grain: float
    """The width of the smallest thing that can be seen."""
    glyph: float
    """The width of a symbol."""
    half: float
    """How far a symbol reaches to the left of its instant."""
    space: float
    """What is kept free between a symbol and its text."""
    gap: float
    """What is kept free between two texts, and on either side of a text in a bar."""
    tick: float
    """What is kept free from one tick to the next, at least."""
    measure: Callable[[str], float]
    """The width of a text."""

    def fit(self, text: str, room: float) -> str:
        """The text, or what fits of it; nothing if that would tell nothing."""
        if self.measure(text) <= room:
            return text
        cut = text
        while cut and self.measure(f"{cut}…") > room:
            cut = cut[:-1]
        return f"{cut.rstrip()}…" if len(cut) >= 3 else ""

    def shorten(self, text: str) -> str:
        """The text, or as much of it as anybody may have."""
        return self.fit(text, _WIDEST * self.width)


@dataclass(frozen=True, slots=True)
class Bar:
    """A span."""

    span: Span
    left: float
    right: float
    label: str
    label_at: float
    notches: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Tag:
    """A symbol at its instant, `x`, with its text on one side of it."""

    mark: Mark
    x: float
    left: float
    right: float
    label: str
    label_at: float


@dataclass(frozen=True, slots=True)
class Band:
    """Where a promise was broken: across these lanes, by number."""

    rule: str
    left: float
    right: float
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """What a band means, over all lanes: its text is over the band, or on one side of it."""

    band: Band
    left: float
    right: float
    label: str
    label_at: float

    @property
    def is_within(self) -> bool:
        """Whether the text is over the band."""
        return self.band.left <= self.label_at < self.band.right


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
    """The whole picture, except for how it looks."""

    axis: Axis
    stripes: list[Stripe]
    bands: list[Band]
    flags: list[list[Flag]]
    findings: list[Finding]
    """Those within the window."""
    left_out: int
    """How many marks found no room."""
