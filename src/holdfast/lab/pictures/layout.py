"""Where everything goes: rows without overlaps, bands where promises broke."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from typing import TypeAlias, TypeVar

from holdfast.lab.history import Finding, History
from holdfast.lab.pictures.lanes import Lane, Look, Mark, Span, fence_labels, lanes_of
from holdfast.lab.pictures.sentences import clean
from holdfast.lab.pictures.sheet import (
    Axis,
    Band,
    Bar,
    Board,
    Flag,
    Piece,
    Stripe,
    Tag,
    columns,
    fit,
)

MOST_ROWS = 3
"""Rows of tags in a lane, and of flags over all lanes. More would hide the picture."""


P = TypeVar("P", bound=Piece)

Extent: TypeAlias = tuple[float, float]
"""From left to right."""

_WIDEST = 0.4
"""A text takes no more than this part of the width."""


def pack(bars: list[Bar]) -> list[list[Bar]]:
    """Bars in as few rows as first fit finds."""
    rows: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: bar.left):
        row = next((row for row in rows if _is_free(row, bar)), None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return rows


def _is_free(row: Sequence[Piece], piece: Piece) -> bool:
    return all(piece.left >= other.right + 1 or piece.right + 1 <= other.left for other in row)


def place(rows: list[list[P]], ways: Iterable[P]) -> bool:
    """Put the first of these ways to draw a thing that fits into the first row where it does."""
    for piece in ways:
        for row in rows:
            if _is_free(row, piece):
                row.append(piece)
                return True
        if len(rows) < MOST_ROWS:
            rows.append([piece])
            return True
    return False


def extent_of(since: float, until: float, axis: Axis) -> Extent:
    """The columns of a span of time: at least one."""
    left, right = axis.place(since), axis.place(until)
    left = min(left, axis.width - 1.0)
    return left, max(right, left + 1)


def _groups(spans: list[Span]) -> list[list[Span]]:
    """Spans that belong together."""
    groups: dict[object, list[Span]] = {}
    for number, span in enumerate(spans):
        groups.setdefault(span.group or number, []).append(span)
    return sorted(groups.values(), key=lambda group: group[0].since)


def bands_of(findings: Sequence[Finding], lanes: Sequence[Lane], axis: Axis) -> list[Band]:
    """A band for every finding; those with one label and the same lanes that touch are one."""
    last: dict[object, int] = {}
    bands: list[Band] = []
    for finding in sorted(findings, key=lambda finding: finding.at):
        left, right = extent_of(finding.at, finding.until, axis)
        band = Band(clean(finding.label), left, right, _concerned(finding, lanes))
        same = last.get((band.label, band.lanes))
        if same is not None and left - bands[same].right <= 1:
            bands[same] = replace(bands[same], right=max(right, bands[same].right))
            continue
        last[band.label, band.lanes] = len(bands)
        bands.append(band)
    return bands


def _concerned(finding: Finding, lanes: Sequence[Lane]) -> tuple[int, ...]:
    """The numbers of the lanes that a finding is about: all, if it names none of them."""
    names = {clean(name) for name in finding.who}
    every = range(len(lanes))
    return tuple(n for n in every if lanes[n].name in names) or tuple(every)


def flag_rows(bands: Sequence[Band], width: int) -> list[list[Flag]]:
    """The flags, as far as there is room: the bands show in any case."""
    rows: list[list[Flag]] = []
    for band in bands:
        place(rows, _flag_ways(band, width))
    return rows


def _flag_ways(band: Band, width: int) -> list[Flag]:
    """How to write what a band means, the best way first: over it, beside it, not at all."""
    ways = []
    for text in (f"✗ {band.label}", fit(f"✗ {band.label}", _WIDEST * width)):
        size = columns(text)
        if size + 2 <= band.right - band.left:
            middle = (band.left + band.right - size) / 2
            ways.append(Flag(band.left, band.right, text, middle, band))
        if band.right + 1 + size <= width:
            at = band.right + 1
            ways.append(Flag(band.left, at + size, text, at, band))
        if band.left - 1 - size >= 0:
            at = band.left - 1 - size
            ways.append(Flag(at, band.right, text, at, band))
    return [*ways, Flag(band.left, band.right, "", band.left, band)]


_VEILS = (Look.PAUSED, Look.DOWN)


def stripe_of(lane: Lane, axis: Axis, broken: Sequence[Extent]) -> tuple[Stripe, int]:
    """A lane on the sheet, where promises were `broken` there; and how many marks found no room."""
    veils = [_bar(span, axis) for span in lane.spans if span.look in _VEILS]
    cuts = [_bar(span, axis) for span in lane.spans if span.look is Look.CUT]
    held = [span for span in lane.spans if span.look is not Look.CUT and span.look not in _VEILS]
    covered = [*broken, *((veil.left, veil.right) for veil in veils)]
    tags, left_out = _tag_rows(lane.marks, axis)
    return Stripe(lane, _bar_rows(held, covered, axis), veils, pack(cuts), tags), left_out


def _bar(span: Span, axis: Axis, covered: Sequence[Extent] = ()) -> Bar:
    left, right = extent_of(span.since, span.until, axis)
    notches = tuple(axis.place(at) for at in span.notches if span.since < at <= span.until)
    notched = [(notch, notch + 1) for notch in notches]
    # A text hides what else there is to see only if there is no other place for it.
    for obstacles in ([*covered, *notched], covered, ()):
        begin, end = _clearest(left, right, obstacles)
        for text in span.labels:
            if columns(text) + 2 <= end - begin:
                label_at = (begin + end - columns(text)) / 2
                return Bar(left, right, text, label_at, span, notches)
    return Bar(left, right, "", left, span, notches)


def _clearest(left: float, right: float, obstacles: Sequence[Extent]) -> Extent:
    """The widest part of a bar without an obstacle, for its text."""
    parts, begin = [], left
    for since, until in sorted(obstacles):
        parts.append((begin, min(since, right)))
        begin = max(begin, until)
    return max((*parts, (begin, right)), key=lambda part: part[1] - part[0])


def _bar_rows(spans: list[Span], covered: Sequence[Extent], axis: Axis) -> list[list[Bar]]:
    """What is waited for and held: at the same time in different rows, else in one."""
    rows: list[list[Bar]] = []
    ends: list[float] = []
    for group in _groups(spans):
        bars = [_bar(span, axis, covered) for span in group]
        since, until = group[0].since, max(span.until for span in group)
        row = next((row for row, end in enumerate(ends) if end <= since), len(rows))
        if row == len(rows):
            rows.append([])
            ends.append(until)
        rows[row] += bars
        ends[row] = until
    return rows


def _tag_rows(marks: list[Mark], axis: Axis) -> tuple[list[list[Tag]], int]:
    """Marks in rows; and how many found no room."""
    rows: list[list[Tag]] = []
    in_order = sorted(marks, key=lambda mark: mark.at)
    left_out = [place(rows, _tag_ways(mark, axis)) for mark in in_order].count(False)
    return rows, left_out


def _tag_ways(mark: Mark, axis: Axis) -> list[Tag]:
    """How a mark could be drawn, the best way first."""
    x = min(axis.place(mark.at), axis.width - 1)
    ways = []
    for text in filter(None, (fit(label, _WIDEST * axis.width) for label in mark.labels)):
        room = 1 + columns(text)
        if x + 1 + room <= axis.width:
            ways.append(Tag(x, x + 1 + room, text, x + 2, mark, x))
        elif x - room >= 0:
            ways.append(Tag(x - room, x + 1, text, x - room, mark, x))
    return [*ways, Tag(x, x + 1, "", x + 1, mark, x)]


_SHORTEST = 0.001
"""Seconds that a picture shows at least."""
_BEYOND = 0.3
"""How much longer than its events a picture may be, to show when the last leases end."""
_MARGIN = 0.02
"""What is left free at either end, as a part of all."""


def lay_out(
    history: History,
    width: int,
    findings: Sequence[Finding] = (),
    until: float | None = None,
) -> Board:
    """The picture of a history, `width` columns wide, `until` that instant; default: the last."""
    first, last = _extent(history, findings)
    last = last if until is None else until
    margin = _MARGIN * (last - first)
    axis = Axis(first - margin, last + margin, width)
    lanes = lanes_of(history)
    bands = bands_of(findings, lanes, axis)
    stripes, left_out = [], 0
    for number, lane in enumerate(lanes):
        broken = [(band.left, band.right) for band in bands if number in band.lanes]
        stripe, without = stripe_of(lane, axis, broken)
        stripes.append(stripe)
        left_out += without
    fences = fence_labels(history)
    return Board(axis, stripes, bands, flag_rows(bands, width), list(findings), fences, left_out)


def _extent(history: History, findings: Sequence[Finding]) -> tuple[float, float]:
    """The first and the last instant worth showing."""
    instants = [event.at for event in history] + [finding.at for finding in findings]
    instants += [finding.until for finding in findings if isfinite(finding.until)]
    first, last = min(instants, default=0.0), max(instants, default=0.0)
    ends = (hold.ended for hold in history.holds() if hold.granted is not None)
    latest = max((end for end in ends if isfinite(end)), default=last)
    return first, max(last, min(latest, last + _BEYOND * (last - first)), first + _SHORTEST)
