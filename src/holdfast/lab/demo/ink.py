"""Styles and glyphs: what a terminal can show, and what is left of them where it cannot."""

from dataclasses import dataclass
from typing import TypeAlias

Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the names of its styles."""

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "ann": "36",
    "ben": "33",
    "cyd": "35",
    "dan": "34",
    "eve": "32",
    "on ann": "30;46",
    "on ben": "30;43",
    "on cyd": "30;45",
    "on dan": "97;44",
    "on eve": "30;42",
}


@dataclass(frozen=True, slots=True)
class Ink:
    """Whether there are colours, and characters beyond ASCII."""

    colour: bool
    unicode: bool

    @property
    def waiting(self) -> str:
        """A moment of waiting."""
        return "─" if self.unicode else "-"

    @property
    def holding(self) -> str:
        """A moment under the lock."""
        return " " if self.colour else "█" if self.unicode else "#"

    @property
    def killed(self) -> str:
        """The moment of a kill."""
        return "✗" if self.unicode else "X"

    @property
    def orphaned(self) -> str:
        """A moment of a lease whose holder is dead."""
        return "░" if self.unicode else ":"

    @property
    def axis(self) -> str:
        """A moment."""
        return "─" if self.unicode else "-"

    @property
    def tick(self) -> str:
        """A moment with a number."""
        return "┴" if self.unicode else "+"

    def bar(self, part: float, width: int) -> str:
        """A bar that is full to this part."""
        if not self.unicode:
            full = round(part * width)
            return "#" * full + "." * (width - full)
        eighths = round(part * width * 8)
        full, rest = divmod(eighths, 8)
        return ("█" * full + " ▏▎▍▌▋▊▉"[rest].strip()).ljust(width, "·")

    def line(self, line: Line, width: int | None = None) -> str:
        """A line as text, cut to `width`."""
        text = ""
        left = sum(len(piece) for piece, _ in line) if width is None else width
        for piece, styles in line:
            piece = piece[:left]
            left -= len(piece)
            codes = self._codes(styles) if piece else ""
            text += f"\x1b[{codes}m{piece}\x1b[0m" if codes else piece
        return text

    def _codes(self, styles: str) -> str:
        if not self.colour:
            return ""
        if styles in _CODES:
            return _CODES[styles]
        return ";".join(_CODES[style] for style in styles.split() if style in _CODES)
