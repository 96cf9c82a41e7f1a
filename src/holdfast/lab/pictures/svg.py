"""The terminal's picture as SVG: one file that needs nothing else, for light and dark pages."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from holdfast.lab.history import Finding, History
from holdfast.lab.pictures.chart import Line
from holdfast.lab.pictures.sentences import describe_findings
from holdfast.lab.pictures.text import drawn

WIDTH = 110
"""In columns."""
CELL, ROW, PAD = 8.4, 19.0, 20.0
"""Of a character, of a line, and around the picture, in pixels."""

_BLOCKS = {
    "█": (2, 15, "fill"),
    "▄": (5, 9, "fill"),
    "▒": (2, 15, "veiled"),
    "░": (2, 15, "veil"),
    "╬": (2, 15, "broken"),
    "▞": (2, 15, "veiled"),
    "▼": (13, 4, "broken"),
}
"""Characters that are drawn as boxes, since fonts leave gaps between them: top, height, class."""

_RUNS = re.compile(f"([{''.join(_BLOCKS)}])\\1*|[^{''.join(_BLOCKS)}]+")
"""Equal blocks, or anything else."""

_STYLE = """
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:currentColor}
svg{color:#1f2328}
rect{shape-rendering:crispEdges}
.card{fill:#fff;stroke:#d1d9e0}
.bold{font-weight:600}
.dim{color:#59636e}
.red{color:#d1242f}
.blue{color:#2f6fde}
.cyan{color:#2f6fde}
.yellow{color:#b8620b}
.magenta{color:#8250df}
.green{color:#0f8a83}
.on{fill:#fff;font-weight:600}
.fill{fill:currentColor}
.veil{fill:currentColor;fill-opacity:.15}
.veiled{fill:currentColor;fill-opacity:.55}
.broken{fill:#d1242f}
@media (prefers-color-scheme:dark){
svg{color:#e6edf3}
.card{fill:#0d1117;stroke:#3d444d}
.dim{color:#9198a1}
.red{color:#f85149}
}
"""


def as_svg(
    history: History, *, title: str, findings: Sequence[Finding] = (), caption: str = ""
) -> str:
    """The picture of a history, with a title, and a caption below it."""
    lines: list[Line] = [[(line, "bold")] for line in textwrap.wrap(title, WIDTH)]
    lines += [[], *drawn(history, findings, WIDTH), []]
    lines += [[(line, "dim")] for line in textwrap.wrap(caption, WIDTH)]
    described = ". ".join(describe_findings(findings, {}))
    width, height = 2 * PAD + WIDTH * CELL, 2 * PAD + len(lines) * ROW
    pieces = [
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(f'A timeline. {described}'.strip())}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="10" class="card"/>',
        *(piece for number, line in enumerate(lines) for piece in _row(line, PAD + number * ROW)),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        + "\n".join(pieces)
        + "\n</svg>\n"
    )


def _row(line: Line, top: float) -> Iterator[str]:
    """Each character is where it is in a terminal, whatever the font."""
    x = PAD
    for piece, styles in line:
        for run in (found[0] for found in _RUNS.finditer(piece)):
            wide = len(run) * CELL
            if styles.startswith("on-"):
                colour = styles.removeprefix("on-")
                yield _box("█", x, top, wide, colour)
                yield _text(run, x, top, wide, "on")
            elif run[0] in _BLOCKS:
                yield _box(run[0], x, top, wide, styles)
            elif run.strip():
                yield _text(run, x, top, wide, styles)
            x += wide


def _box(block: str, x: float, top: float, wide: float, colour: str) -> str:
    down, height, class_ = _BLOCKS[block]
    place = f'x="{x:.1f}" y="{top + down:g}" width="{wide:.1f}" height="{height}"'
    return f'<rect {place} class="{f"{colour} {class_}".strip()}"/>'


def _text(text: str, x: float, top: float, wide: float, class_: str) -> str:
    place = f'x="{x:.1f}" y="{top + 14:g}" textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text {place} class="{class_}" xml:space="preserve">{escape(text)}</text>'
