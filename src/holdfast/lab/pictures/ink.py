"""Styled text for a terminal."""

from typing import TypeAlias

Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the names of its styles."""

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "on-red": "97;41",
    "on-green": "30;42",
    "on-yellow": "30;43",
    "on-blue": "97;44",
    "on-magenta": "30;45",
    "on-cyan": "30;46",
}


def painted(line: Line, *, colour: bool, width: int | None = None) -> str:
    """A line as text, cut to `width`; with ANSI codes for its styles if there are colours."""
    text = ""
    left = sum(len(piece) for piece, _ in line) if width is None else width
    for piece, styles in line:
        piece = piece[:left]
        left -= len(piece)
        known = [_CODES[style] for style in styles.split() if style in _CODES]
        codes = ";".join(known) if colour and piece else ""
        text += f"\x1b[{codes}m{piece}\x1b[0m" if codes else piece
    return text
