"""The foot of an SVG picture: the legend, the findings in words, the caption."""

from collections.abc import Iterator

from holdfast.lab.pictures import pen
from holdfast.lab.pictures.lanes import Look, Symbol
from holdfast.lab.pictures.legend import are_extended, looks_in, symbols_in
from holdfast.lab.pictures.page import PAD
from holdfast.lab.pictures.sheet import Board
from holdfast.lab.pictures.words import tell_findings

_LINE = 18.0
_SAMPLE, _GAP, _BETWEEN = 24.0, 7.0, 20.0


def foot(board: Board, caption: str, top: float, width: float) -> tuple[list[str], float]:
    """What stands below the axis, from `top` down; and where the picture ends."""
    room = width - 2 * PAD
    y = top + _LINE
    drawn = []
    for row in _legend_rows(board, room):
        for x, sample, said in row:
            drawn += [*_sample(sample, PAD + x, y - 4)]
            drawn.append(pen.text(said, PAD + x + _SAMPLE + _GAP, y, "soft"))
        y += _LINE
    blocks = [("wrong", f"✗ {told}") for told in tell_findings(board.findings, board.axis.say)]
    if board.left_out:
        blocks.append(("soft", f"{board.left_out} more marks found no room."))
    if caption:
        blocks.append(("soft", caption))
    for class_, said in blocks:
        y += 5
        for line in pen.wrap(said, room):
            drawn.append(pen.text(line, PAD, y, class_))
            y += _LINE
    return drawn, y + 4


def _legend_rows(board: Board, room: float) -> list[list[tuple[float, Look | Symbol | None, str]]]:
    """What is explained, and where in its row; `None` is what was extended."""
    items: list[Look | Symbol | None] = [*looks_in(board), *symbols_in(board)]
    if are_extended(board):
        items.insert(items.index(Look.HOLDING) + 1, None)
    rows: list[list[tuple[float, Look | Symbol | None, str]]] = [[]]
    x = 0.0
    for item in items:
        said = "extended" if item is None else item.value
        size = _SAMPLE + _GAP + pen.measure(said)
        if rows[-1] and x + size > room:
            rows.append([])
            x = 0.0
        rows[-1].append((x, item, said))
        x += size + _BETWEEN
    return [row for row in rows if row]


def _sample(item: Look | Symbol | None, x: float, y: float) -> Iterator[str]:
    """A piece of what is explained, around y."""
    end, top, bottom = x + _SAMPLE, y - 6, y + 6
    match item:
        case Symbol():
            yield pen.symbol(item, x + _SAMPLE / 2, y, "ink")
        case Look.WAITING:
            yield pen.line(x, y, end, y, "line wait ink")
        case Look.CUT:
            yield pen.line(x, y, end, y, "line cut ink")
        case Look.PAUSED:
            yield pen.box(x, top, end, bottom, "hatched")
        case Look.DOWN:
            yield pen.box(x, top, end, bottom, "down", rx=3)
        case Look.HOLDING:
            yield pen.box(x, top, end, bottom, "fill ink", rx=3)
        case Look.VOTE:
            yield pen.box(x, top + 2, end, bottom - 2, "fill ink", rx=3)
        case None:
            yield pen.box(x, top, end, bottom, "fill ink", rx=3)
            middle = x + _SAMPLE / 2
            yield pen.line(middle, top, middle, top + 4, "notch")
            yield pen.line(middle, bottom - 4, middle, bottom, "notch")
