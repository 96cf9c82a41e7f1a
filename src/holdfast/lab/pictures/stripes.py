"""One lane on the sheet: bars where something lasts, tags where something happened."""

from collections.abc import Sequence
from typing import TypeAlias

from holdfast.lab.pictures.axis import Axis
from holdfast.lab.pictures.crowds import merge_marks, merge_spans
from holdfast.lab.pictures.lanes import Lane, Look, Mark, Span
from holdfast.lab.pictures.rows import pack, place, seen
from holdfast.lab.pictures.sheet import Bar, Sheet, Stripe, Tag

Extent: TypeAlias = tuple[float, float]
"""From left to right."""

_REACHES = (1, 2, 4, 8, 16, 32)
"""How many symbols' width a crowd may take, as long as there is not enough room."""
_VEILS = (Look.PAUSED, Look.DOWN)


def stripe_of(lane: Lane, axis: Axis, sheet: Sheet, broken: Sequence[Extent]) -> tuple[Stripe, int]:
    """A lane on the sheet, where promises were `broken` there; and how many marks found no room."""
    spans = [span for span in lane.spans if axis.shows(span.since, span.until)]
    marks = [mark for mark in lane.marks if axis.shows(mark.at, mark.at)]
    veils = [_bar(span, axis, sheet) for span in spans if span.look in _VEILS]
    cuts = [_bar(span, axis, sheet) for span in spans if span.look is Look.CUT]
    held = [span for span in spans if span.look is not Look.CUT and span.look not in _VEILS]
    covered = [*broken, *((veil.left, veil.right) for veil in veils)]
    tags, left_out = _tag_rows(marks, axis, sheet)
    bars = _bar_rows(held, covered, axis, sheet)
    return Stripe(lane, bars, veils, pack(cuts, sheet.gap), tags), left_out


def _bar(span: Span, axis: Axis, sheet: Sheet, covered: Sequence[Extent] = ()) -> Bar:
    left, right = seen(axis.place(span.since), axis.place(span.until), sheet)
    extended = [at for at in span.notches if span.since < at <= span.until]
    notches = tuple(axis.place(at) for at in extended if axis.shows(at, at))
    notched = [(notch, notch + sheet.grain) for notch in notches]
    # A text hides what else there is to see only if there is no other place for it.
    for obstacles in ([*covered, *notched], covered, ()):
        begin, end = _clearest(left, right, obstacles)
        for text in span.labels:
            if sheet.measure(text) + 2 * sheet.gap <= end - begin:
                label_at = (begin + end - sheet.measure(text)) / 2
                return Bar(span, left, right, text, label_at, notches)
    return Bar(span, left, right, "", left, notches)


def _clearest(left: float, right: float, obstacles: Sequence[Extent]) -> Extent:
    """The widest part of a bar without an obstacle, for its text."""
    parts, begin = [], left
    for since, until in sorted(obstacles):
        parts.append((begin, min(since, right)))
        begin = max(begin, until)
    return max((*parts, (begin, right)), key=lambda part: part[1] - part[0])


def _bar_rows(
    spans: list[Span], covered: Sequence[Extent], axis: Axis, sheet: Sheet
) -> list[list[Bar]]:
    """What is waited for and held: at the same time in different rows, else in one."""
    rows: list[list[Bar]] = []
    ends: list[float] = []
    for group in merge_spans(spans, axis.place, sheet.grain):
        bars = [_bar(span, axis, sheet, covered) for span in group]
        since, until = group[0].since, max(span.until for span in group)
        row = next((row for row, end in enumerate(ends) if end <= since), len(rows))
        if row == len(rows):
            rows.append([])
            ends.append(until)
        rows[row] += bars
        ends[row] = until
    return rows


def _tag_rows(marks: list[Mark], axis: Axis, sheet: Sheet) -> tuple[list[list[Tag]], int]:
    """Marks in rows, crowds merged as far as it takes; and how many found no room even so."""
    rows: list[list[Tag]] = []
    left_out = 0
    for reach in _REACHES:
        merged = merge_marks(marks, axis.place, reach * sheet.glyph)
        rows = []
        placed = [place(rows, _ways(mark, axis, sheet), sheet.gap) for mark in merged]
        left_out = placed.count(False)
        if not left_out:
            break
    return rows, left_out


def _ways(mark: Mark, axis: Axis, sheet: Sheet) -> list[Tag]:
    """How a mark could be drawn, the best way first."""
    x = min(max(axis.place(mark.at), sheet.half), sheet.width - sheet.glyph + sheet.half)
    left, right = x - sheet.half, x - sheet.half + sheet.glyph
    ways = []
    for text in filter(None, map(sheet.shorten, mark.labels)):
        room = sheet.space + sheet.measure(text)
        if right + room <= sheet.width:
            ways.append(Tag(mark, x, left, right + room, text, right + sheet.space))
        elif left - room >= 0:
            ways.append(Tag(mark, x, left - room, right, text, left - room))
    return [*ways, Tag(mark, x, left, right, "", right)]
