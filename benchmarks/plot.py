"""The answers as a picture: a panel for each case, a bar for each row. Hand-made SVG.

Of a case with several units, the first is drawn; the report has all of them.
"""

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.measure import Case, Row
from benchmarks.report import figure

WIDTH, MARGIN = 900, 24
LABELS, BARS = 200, 400
ROW, TITLE, GAP = 24, 30, 26
OURS, PEERS, INK, FAINT, GOOD, BAD = (
    "#1f6f8b",
    "#b9c2c9",
    "#1c2429",
    "#69757d",
    "#2e7d32",
    "#c62828",
)
VERDICTS = {True: ("kept", GOOD), False: ("not kept", BAD), None: ("not measured", FAINT)}
FONT = "font-family='system-ui, Helvetica, Arial, sans-serif'"


def svg(cases: Sequence[Case]) -> str:
    """The whole picture."""
    top = MARGIN
    body: list[str] = []
    for case in cases:
        body += _text(MARGIN, top + 15, case.title, size=16, weight="bold")
        top += TITLE
        for target in case.targets:
            word, colour = VERDICTS[target.met]
            text = f"{target.text.replace('`', '')}: {target.measured}, {word}"
            body += _text(MARGIN, top + 8, text, colour=colour)
            top += ROW - 4
        panel = [row for row in case.rows if row.unit == case.rows[0].unit]
        body += _panel(panel, top)
        top += ROW * len(panel) + GAP
    height = top - GAP + MARGIN - 10
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"width='{WIDTH}' height='{height}' {FONT} font-size='13'>"
    )
    return "\n".join(
        [
            head,
            "<title>What holdfast costs, measured against peers and raw floors</title>",
            f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
            *body,
            "</svg>\n",
        ]
    )


def _panel(rows: Sequence[Row], top: int) -> Iterator[str]:
    longest = max(row.spread.high for row in rows) or 1.0
    left = MARGIN + LABELS
    for place, row in enumerate(rows):
        y = top + place * ROW
        length = max(1.0, BARS * row.spread.median / longest)
        weight = "bold" if row.ours else "normal"
        yield from _text(left - 10, y + 16, row.label, anchor="end", weight=weight)
        colour = OURS if row.ours else PEERS
        box = f"x='{left}' y='{y + 3}' width='{length:.1f}' height='{ROW - 6}'"
        yield f"<rect {box} rx='2' fill='{colour}'/>"
        if row.spread.low < row.spread.high:
            yield from _whisker(row, left, y + ROW / 2, BARS / longest)
        yield from _text(left + BARS + 10, y + 16, figure(row), colour=FAINT)


def _whisker(row: Row, left: int, y: float, scale: float) -> Iterator[str]:
    low, high = left + row.spread.low * scale, left + row.spread.high * scale
    yield f"<path d='M{low:.1f} {y}H{high:.1f}' stroke='{INK}' stroke-width='1.5'/>"
    for x in (low, high):
        yield f"<path d='M{x:.1f} {y - 4}V{y + 4}' stroke='{INK}' stroke-width='1.5'/>"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    anchor: str = "start",
    colour: str = INK,
    weight: str = "normal",
) -> Iterator[str]:
    yield (
        f"<text x='{x}' y='{y}' font-size='{size}' text-anchor='{anchor}' fill='{colour}' "
        f"font-weight='{weight}'>{escape(text)}</text>"
    )
