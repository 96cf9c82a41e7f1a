"""The chart of a history: flags where promises broke, a few rows for each lane, and the axis."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor, inf

from holdfast.lab.history import Finding
from holdfast.lab.pictures.lanes import Lane, Look, Mark, Role, Span
from holdfast.lab.pictures.sheet import Axis, Extent, Line, Row, Way, across, fit

MOST_ROWS = 3
"""Rows of marks in a lane, and of flags over all lanes. More would hide the picture."""

VEILED, EXTENDED, BROKEN = "▒", "»", "╬"
_HELD = (Look.HOLDING.character, Look.VOTE.character, EXTENDED)
_VEILS = (Look.PAUSED, Look.DOWN)
_TINTS = ("cyan", "yellow", "magenta", "blue", "green")
_WIDEST = 0.4
"""A text takes no more than this part of the width."""


@dataclass(frozen=True, slots=True)
class Band:
    """Where a promise was broken: across these lanes, by number."""

    label: str
    left: float
    right: float
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A span in columns, and the text on it."""

    span: Span
    left: float
    right: float
    label: str
    label_at: float
    notches: tuple[float, ...]

    def style(self, *, on: bool = False) -> str:
        """Its colour, or its text's; what is not valid is red."""
        if self.span.look is Look.EXPIRED:
            return "on-red" if on else "red"
        return _tint(self.span.tint, on=on)


class Chart:
    """Flags, lanes and axis; the names of the lanes are in the gutter on the left."""

    def __init__(
        self, lanes: Sequence[Lane], findings: Sequence[Finding], axis: Axis, gutter: int
    ) -> None:
        self._lanes, self._axis, self._gutter, self._width = lanes, axis, gutter, axis.width
        self._bands = _bands(findings, lanes, axis)
        self.left_out = 0
        """How many marks found no room."""

    def lines(self) -> list[Line]:
        """From top to bottom."""
        flags: list[Row] = []
        for band in self._bands:
            self._place(flags, _flag_ways(band, self._width))
        lines = [self._beside("", "", row) for row in flags]
        role = None
        for number, lane in enumerate(self._lanes):
            if role is not None and lane.role is not role:
                lines.append([])
            role = lane.role
            name = fit(lane.name, self._gutter - 2)
            for row in self._rows(number, lane):
                lines.append(self._beside(name, f"bold {_tint(lane.tint)}".strip(), row))
                name = ""
        return [*lines, *self._axis_lines()]

    def _beside(self, name: str, style: str, row: Row) -> Line:
        return [(name, style), (" " * (self._gutter - len(name)), ""), *row.line()]

    def _place(self, rows: list[Row], ways: Iterable[Way], most: float = MOST_ROWS) -> bool:
        """Draw a thing in the first way that fits, into the first row where it does."""
        for way in ways:
            if any(row.draw(way) for row in rows):
                return True
            if len(rows) < most:
                rows.append(Row(self._width))
                return rows[-1].draw(way)
        return False

    def _rows(self, number: int, lane: Lane) -> list[Row]:
        """What is held and waited for, then marks, then cuts."""
        axis = self._axis
        veils = [_bar(span, axis) for span in lane.spans if span.look in _VEILS]
        cuts = [_bar(span, axis) for span in lane.spans if span.look is Look.CUT]
        held = [
            span for span in lane.spans if span.look is not Look.CUT and span.look not in _VEILS
        ]
        broken = [(band.left, band.right) for band in self._bands if number in band.lanes]
        bars = _bar_rows(held, [*broken, *((veil.left, veil.right) for veil in veils)], axis)
        if lane.role in (Role.CLIENT, Role.NODE):
            bars = bars or [[]]
        marks: list[Row] = []
        for mark in sorted(lane.marks, key=lambda mark: mark.at):
            self.left_out += not self._place(marks, _mark_ways(mark, axis))
        cut_rows: list[Row] = []
        for cut in sorted(cuts, key=lambda bar: bar.left):
            self._place(cut_rows, [_cut_way(cut)], inf)
        return [*(self._bars(row, veils, broken) for row in bars), *marks, *cut_rows]

    def _bars(self, bars: list[Bar], veils: list[Bar], broken: Sequence[Extent]) -> Row:
        """The bars of one row; over them pauses, then what is held when it must not be."""
        row = Row(self._width)
        for bar in bars:
            for place in across(bar.left, bar.right):
                row.write(place, bar.span.look.character, bar.style())
            for notch in bar.notches if bar.span.look is not Look.WAITING else ():
                row.write(min(notch, self._width - 1), EXTENDED, bar.style())
        for veil in veils:
            for place in across(veil.left, veil.right):
                below, style = row.cells[place]
                if below != Look.EXPIRED.character:
                    row.write(place, VEILED if below in _HELD else veil.span.look.character, style)
        for left, right in broken:
            for place in across(left, right):
                if row.cells[place][0] in (*_HELD, VEILED):
                    row.write(place, BROKEN, "red")
        for bar in bars:
            if bar.label:
                row.write(bar.label_at - 1, f" {bar.label} ", bar.style(on=True))
        return row

    def _axis_lines(self) -> Iterator[Line]:
        line, numbers = Row(self._width), Row(self._width)
        line.write(0, "─" * self._width, "dim")
        for place, number in self._axis.ticks():
            at = min(floor(place), self._width - 1)
            line.write(at, "┴", "dim")
            numbers.write(min(at, self._width - len(number)), number, "dim")
        yield self._beside("", "", line)
        yield self._beside("s", "dim", numbers)


def _tint(number: int | None, *, on: bool = False) -> str:
    if number is None:
        return ""
    name = _TINTS[number % len(_TINTS)]
    return f"on-{name}" if on else name


def _bands(findings: Sequence[Finding], lanes: Sequence[Lane], axis: Axis) -> list[Band]:
    """A band for every finding; those with one label and the same lanes that touch are one."""
    last: dict[object, int] = {}
    bands: list[Band] = []
    for finding in sorted(findings, key=lambda finding: finding.at):
        left, right = axis.extent(finding.at, finding.until)
        band = Band(finding.label, left, right, _concerned(finding, lanes))
        same = last.get((band.label, band.lanes))
        if same is not None and left - bands[same].right <= 1:
            bands[same] = replace(bands[same], right=max(right, bands[same].right))
            continue
        last[band.label, band.lanes] = len(bands)
        bands.append(band)
    return bands


def _concerned(finding: Finding, lanes: Sequence[Lane]) -> tuple[int, ...]:
    """The numbers of the lanes that a finding is about: all, if it names none of them."""
    every = range(len(lanes))
    return tuple(n for n in every if lanes[n].name in finding.who) or tuple(every)


def _flag_ways(band: Band, width: int) -> list[Way]:
    """How to write what a band means, the best way first: over it, beside it, not at all."""
    places = across(band.left, band.right)
    points = (band.left, "▼" * len(places), "red")
    ways = []
    for text in (f"✗ {band.label}", fit(f"✗ {band.label}", _WIDEST * width)):
        size = len(text)
        middle, after = (band.left + band.right - size) / 2, band.right + 1
        before = band.left - 1 - size
        if size + 2 <= band.right - band.left:
            ways.append(Way(band.left, band.right, (points, (middle, text, "bold red"))))
        if after + size <= width:
            ways.append(Way(band.left, after + size, (points, (after, text, "bold red"))))
        if before >= 0:
            ways.append(Way(before, band.right, (points, (before, text, "bold red"))))
    return [*ways, Way(band.left, band.right, (points,))]


def _bar(span: Span, axis: Axis, covered: Sequence[Extent] = ()) -> Bar:
    left, right = axis.extent(span.since, span.until)
    notches = tuple(axis.place(at) for at in span.notches if span.since < at <= span.until)
    notched = [(notch, notch + 1) for notch in notches]
    # A text hides what else there is to see only if there is no other place for it.
    for obstacles in ([*covered, *notched], covered, ()):
        begin, end = _clearest(left, right, obstacles)
        for text in span.labels:
            if len(text) + 2 <= end - begin:
                label_at = (begin + end - len(text)) / 2
                return Bar(span, left, right, text, label_at, notches)
    return Bar(span, left, right, "", left, notches)


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


def _groups(spans: list[Span]) -> list[list[Span]]:
    """Spans that belong together."""
    groups: dict[object, list[Span]] = {}
    for number, span in enumerate(spans):
        groups.setdefault(span.group or number, []).append(span)
    return sorted(groups.values(), key=lambda group: group[0].since)


def _mark_ways(mark: Mark, axis: Axis) -> list[Way]:
    """How a mark could be drawn, the best way first: with a text on one side of it, or alone."""
    x = min(axis.place(mark.at), axis.width - 1)
    symbol = (x, mark.symbol.character, "red" if mark.is_stray else _tint(mark.tint))
    style = "red" if mark.is_stray else ""
    ways = []
    for text in filter(None, (fit(label, _WIDEST * axis.width) for label in mark.labels)):
        room = 1 + len(text)
        if x + 1 + room <= axis.width:
            ways.append(Way(x, x + 1 + room, (symbol, (x + 2, text, style))))
        elif x - room >= 0:
            ways.append(Way(x - room, x + 1, (symbol, (x - room, text, style))))
    return [*ways, Way(x, x + 1, (symbol,))]


def _cut_way(cut: Bar) -> Way:
    line = Look.CUT.character * len(across(cut.left, cut.right))
    label = cut.label and f"{cut.label} "
    return Way(cut.left, cut.right, ((cut.left, line, "dim"), (cut.left, label, "dim")))
