"""Styles and glyphs: what a terminal can show, and what is left of them where it cannot."""

from dataclasses import dataclass

from holdfast.lab.pictures.text import Line, painted

__all__ = ["Ink", "Line"]

_COLOURS = {"ann": "cyan", "ben": "yellow", "cyd": "magenta", "dan": "blue", "eve": "green"}
_STYLES = _COLOURS | {f"on {who}": f"on-{colour}" for who, colour in _COLOURS.items()}


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
        dressed = [(piece, _dressed(styles)) for piece, styles in line]
        return painted(dressed, colour=self.colour, width=width)


def _dressed(styles: str) -> str:
    """Styles with the colours of the contenders in the place of their names."""
    if styles in _STYLES:
        return _STYLES[styles]
    return " ".join(_STYLES.get(style, style) for style in styles.split())
