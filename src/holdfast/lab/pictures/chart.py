"""The chart of a history: flags where promises broke, a few rows for each lane, and the axis of
time, drawn in rows of characters."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import ceil, floor, log10
from typing import TypeAlias

from holdfast.lab.history import Finding
from holdfast.lab.pictures.lanes import Lane, Look, Mark, Role, Span

_STEPS = (*(digit * 10.0**power for power in range(-6, 5) for digit in (1, 2, 5)),)
"""Seconds from one tick to the next: numbers that people count in."""
_BETWEEN_TICKS = 10
"""Columns from one tick to the next, at least."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A window of time, `width` columns wide."""

    since: float
    until: float
    width: int

    @property
    def length(self) -> float:
        return self.until - self.since

    def place(self, at: float) -> int:
        """The column of an instant; one outside of the window is at the edge."""
        return min(self._columns_until(at), self.width - 1)

    def extent(self, since: float, until: float) -> range:
        """The columns of a span of time: at least one."""
        left = self.place(since)
        return range(left, max(self._columns_until(until), left + 1))

    def _columns_until(self, at: float) -> int:
        inside = min(max(at, self.since), self.until)
        return floor((inside - self.since) / self.length * self.width)

    def ticks(self) -> Iterator[tuple[int, str]]:
        """Where the ticks are, and their numbers."""
        least = _BETWEEN_TICKS / self.width * self.length
        step = next((step for step in _STEPS if step >= least), _STEPS[-1])
        decimals = max(0, -floor(log10(step) + 1e-9))
        for number in range(ceil(self.since / step - 1e-9), floor(self.until / step + 1e-9) + 1):
            yield self.place(number * step), f"{number * step:.{decimals}f}"


def fit(text: str, room: float) -> str:
    """The text, or what fits of it; nothing if that is too short to read."""
    if len(text) <= room:
        return text
    cut = text[: max(0, floor(room) - 1)]
    return f"{cut.rstrip()}…" if len(cut) >= 3 else ""


Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the names of its styles."""


class Row:
    """One line of a picture, written into at any column."""

    def __init__(self, width: int) -> None:
        self.cells = [(" ", "")] * width

    def write(self, at: int, *pieces: tuple[str, str]) -> None:
        """Pieces of text, one behind the other, each in its style."""
        for text, style in pieces:
            self.cells[at : at + len(text)] = [(character, style) for character in text]
            at += len(text)

    def is_free(self, left: int, right: int) -> bool:
        """Whether these columns are empty, and one on each side."""
        return all(character == " " for character, _ in self.cells[max(0, left - 1) : right + 1])

    def longest(self, columns: range, character: str) -> range:
        """The longest stretch of a character within these columns."""
        found = columns[:0]
        for same, stretch in groupby(columns, key=lambda at: self.cells[at][0]):
            places = list(stretch)
            if same == character and len(places) > len(found):
                found = range(places[0], places[-1] + 1)
        return found

    def line(self) -> Line:
        """Neighbours of one style together."""
        return [
            ("".join(character for character, _ in same), style)
            for style, same in groupby(self.cells, key=lambda cell: cell[1])
        ]


MOST_ROWS = 3
"""Rows of marks in a lane. More would hide the picture."""

VEILED, EXTENDED, BROKEN = "▒", "»", "╬"
_HELD = (Look.HOLDING.character, Look.VOTE.character, EXTENDED)
_VEILS = (Look.PAUSED, Look.DOWN)
_TINTS = ("cyan", "yellow", "magenta", "blue", "green")
_WIDEST = 0.4
"""A text takes no more than this part of the width."""


class Chart:
    """Flags, lanes and axis; the names of the lanes are in the gutter on the left."""

    def __init__(
        self, lanes: Sequence[Lane], findings: Sequence[Finding], axis: Axis, gutter: int
    ) -> None:
        self._lanes, self._findings, self._axis, self._gutter = lanes, findings, axis, gutter
        self.left_out = 0
        """How many marks found no room."""

    def lines(self) -> list[Line]:
        """From top to bottom."""
        lines = [self._beside("", "", row) for row in self._flags()]
        role = None
        for lane in self._lanes:
            if role is not None and lane.role is not role:
                lines.append([])
            role = lane.role
            name = lane.name
            for row in self._rows(lane):
                lines.append(self._beside(name, f"bold {_tint(lane.tint)}".strip(), row))
                name = ""
        return [*lines, *self._axis_lines()]

    def _beside(self, name: str, style: str, row: Row) -> Line:
        return [(name, style), (" " * (self._gutter - len(name)), ""), *row.line()]

    def _flags(self) -> Iterator[Row]:
        """A row for each label: pointers to what was found, and the label beside them."""
        by_label: dict[str, list[Finding]] = {}
        for finding in sorted(self._findings, key=lambda finding: finding.at):
            by_label.setdefault(finding.label, []).append(finding)
        for label, findings in by_label.items():
            row = Row(self._axis.width)
            columns = self._columns(findings)
            for at in columns:
                row.write(at, ("▼", "red"))
            text = fit(f"✗ {label}", self._axis.width)
            left, right, size = min(columns), max(columns) + 1, len(text)
            places = (right + 1, left - 1 - size, (left + right - size) // 2, 0)
            at = next(place for place in places if 0 <= place <= self._axis.width - size)
            row.write(at, (text, "bold red"))
            yield row

    def _columns(self, findings: Iterable[Finding]) -> set[int]:
        return set(chain(*(self._axis.extent(each.at, each.until) for each in findings)))

    def _rows(self, lane: Lane) -> list[Row]:
        """What is held and waited for, then marks, then cuts."""
        veils = [span for span in lane.spans if span.look in _VEILS]
        cuts = [span for span in lane.spans if span.look is Look.CUT]
        held = [span for span in lane.spans if span.look not in (*_VEILS, Look.CUT)]
        names = {each.name for each in self._lanes}
        about = (
            each for each in self._findings if not names & {*each.who} or lane.name in each.who
        )
        broken = self._columns(about)
        bars = [self._bars(spans, veils, broken) for spans in _without_overlaps(held)]
        if not bars and lane.role in (Role.CLIENT, Role.NODE):
            bars = [self._bars([], veils, broken)]
        marks: list[Row] = []
        for mark in sorted(lane.marks, key=lambda mark: mark.at):
            self.left_out += not self._place(marks, mark)
        return [*bars, *marks, *(self._bars(spans, [], set()) for spans in _without_overlaps(cuts))]

    def _place(self, rows: list[Row], mark: Mark) -> bool:
        """Draw a mark in the first way for which there is room in a row."""
        for at, pieces in _ways(mark, self._axis):
            right = at + sum(len(text) for text, _ in pieces)
            row = next((row for row in rows if row.is_free(at, right)), None)
            if row is None and len(rows) < MOST_ROWS:
                rows.append(row := Row(self._axis.width))
            if row is not None:
                row.write(at, *pieces)
                return True
        return False

    def _bars(self, spans: list[Span], veils: list[Span], broken: set[int]) -> Row:
        """The spans of one row; over them pauses, then what is held when it must not be."""
        row, axis = Row(self._axis.width), self._axis
        for span in spans:
            for at in axis.extent(span.since, span.until):
                row.write(at, (span.look.character, _style(span)))
            for notch in span.notches:
                if span.look is Look.HOLDING and span.since < notch <= span.until:
                    row.write(axis.place(notch), (EXTENDED, _style(span)))
        for veil in veils:
            for at in axis.extent(veil.since, veil.until):
                below, style = row.cells[at]
                if below != Look.EXPIRED.character:
                    over = VEILED if below in _HELD else veil.look.character
                    row.write(at, (over, style))
        for at in broken:
            if row.cells[at][0] in (*_HELD, VEILED):
                row.write(at, (BROKEN, "red"))
        for span in spans:
            _label(row, span, axis.extent(span.since, span.until))
        return row

    def _axis_lines(self) -> Iterator[Line]:
        width = self._axis.width
        line, numbers = Row(width), Row(width)
        line.write(0, ("─" * width, "dim"))
        for at, number in self._axis.ticks():
            line.write(at, ("┴", "dim"))
            numbers.write(min(at, width - len(number)), (number, "dim"))
        yield self._beside("", "", line)
        yield self._beside("s", "dim", numbers)


def _tint(number: int | None, *, on: bool = False) -> str:
    if number is None:
        return ""
    name = _TINTS[number % len(_TINTS)]
    return f"on-{name}" if on else name


def _style(span: Span, *, on: bool = False) -> str:
    """Its colour, or its text's; what is not valid is red."""
    if span.look is Look.EXPIRED:
        return "on-red" if on else "red"
    return _tint(span.tint, on=on)


def _label(row: Row, span: Span, columns: range) -> None:
    """Write a text on a span: where it hides nothing, if there is such a place."""
    for place in (row.longest(columns, span.look.character), columns):
        for text in span.labels:
            if len(text) + 2 <= len(place):
                at = (place.start + place.stop - len(text)) // 2
                row.write(at - 1, (f" {text} ", _style(span, on=True)))
                return


def _without_overlaps(spans: list[Span]) -> list[list[Span]]:
    """The spans of each row: those of one group together, and groups one after the other."""
    groups: dict[object, list[Span]] = {}
    for number, span in enumerate(spans):
        groups.setdefault(span.group or number, []).append(span)
    rows: list[list[Span]] = []
    for group in sorted(groups.values(), key=lambda group: group[0].since):
        since = group[0].since
        free = (row for row in rows if all(span.until <= since for span in row))
        row = next(free, None)
        if row is None:
            rows.append(row := [])
        row += group
    return rows


def _ways(mark: Mark, axis: Axis) -> Iterator[tuple[int, Line]]:
    """How a mark could be drawn, the best way first: with a text on one side of it, or alone."""
    x = axis.place(mark.at)
    symbol = (mark.symbol.character, "red" if mark.is_stray else _tint(mark.tint))
    style = "red" if mark.is_stray else ""
    text = fit(mark.label, _WIDEST * axis.width)
    if text and x + 2 + len(text) <= axis.width:
        yield x, [symbol, (" ", ""), (text, style)]
    elif text and x - 1 - len(text) >= 0:
        yield x - 1 - len(text), [(text, style), (" ", ""), symbol]
    yield x, [symbol]
