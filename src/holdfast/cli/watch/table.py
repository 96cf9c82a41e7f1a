"""The table of locks: its cursor, its order, and at the end of the file its columns.

Only the lines that are seen are drawn: 10,000 cost no more than 30.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from holdfast.cli.output import duration
from holdfast.cli.watch.looks import WAITS, Row

BAR = 8
NARROW = 100
"""In a terminal of fewer columns, the bars, the sparklines and the fences are left out."""

_HEAD, _NAME, _DIM = Style(bold=True, color="cyan"), Style(bold=True), Style(dim=True)
_GOOD, _LATE, _ENDING = Style(color="green"), Style(color="yellow"), Style(color="red")
_HOT, _EMPTY = Style(color="magenta"), Style(color="grey30")
_CURSOR = Style(bgcolor="grey23")
_SPARKS = " ▁▂▃▄▅▆▇█"
_GAP = Segment("  ")


class LockTable(ScrollView, can_focus=True):
    """One line for each holder of each lock, below a line of titles."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000000)", "First", show=False),
        Binding("end", "move(1000000000)", "Last", show=False),
        Binding("enter", "app.open", "Show"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
    ]
    DEFAULT_CSS = "LockTable { overflow-x: hidden; overflow-y: auto; height: 1fr; }"

    cursor = reactive(0)

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.column, self.descending = "NAME", False
        self.nothing = ""
        self._widths: dict[str, int] = {}
        self._measured_for = 0

    def show(self, rows: Iterable[Row], nothing: str) -> None:
        """Show these rows, with the cursor on what it was on; or this text, if there are none."""
        before = self.selected
        rows = sorted(rows, key=COLUMNS["NAME"].sorted_by)
        if self.column != "NAME" or self.descending:
            rows.sort(key=COLUMNS[self.column].sorted_by, reverse=self.descending)
        self.rows, self.nothing = rows, nothing
        if before and not (self.cursor < len(rows) and rows[self.cursor].key == before.key):
            keys = (index for index, row in enumerate(rows) if row.key == before.key)
            self.cursor = next(keys, self.cursor)
        self.cursor = self.validate_cursor(self.cursor)
        self._measured_for = 0
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self.refresh()

    @property
    def selected(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def validate_cursor(self, cursor: int) -> int:
        """It stays on a row."""
        return max(0, min(cursor, len(self.rows) - 1))

    def watch_cursor(self) -> None:
        """It stays in sight."""
        height = max(1, self.size.height - 1)
        top = round(self.scroll_offset.y)
        if not top <= self.cursor < top + height:
            wanted = self.cursor if self.cursor < top else self.cursor - height + 1
            self.scroll_to(y=wanted, animate=False, force=True)
        self.refresh()

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        self.cursor += lines

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is seen at once."""
        self.cursor += pages * max(1, self.size.height - 1)

    def action_sort(self) -> None:
        """Sort by the next column."""
        titles = list(COLUMNS)
        self.column = titles[(titles.index(self.column) + 1) % len(titles)]
        self.show(self.rows, self.nothing)

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self.descending = not self.descending
        self.show(self.rows, self.nothing)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the line."""
        if event.y > 0:
            self.cursor = round(self.scroll_offset.y) + event.y - 1

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        width = self.size.width
        if width != self._measured_for:
            self._measure(width)
        index = round(self.scroll_offset.y) + y - 1
        if y == 0:
            segments, style = self._titles(), self.rich_style
        elif index < len(self.rows):
            under = index == self.cursor
            segments = self._line(self.rows[index], time.time())
            style = self.rich_style + _CURSOR if under else self.rich_style
        else:
            text = self.nothing if not self.rows and y == 2 else ""
            segments, style = [Segment(text.center(width), _DIM)], self.rich_style
        strip = Strip(Segment.apply_style(segments, style)).adjust_cell_length(width, style)
        return strip.crop(0, width)

    def _measure(self, width: int) -> None:
        """How wide each column is: name and holder share what the others leave."""
        self._measured_for, wide = width, width >= NARROW
        kind = max((len(row.kind) for row in self.rows if row.info.shares != 1), default=4)
        fence = len(str(max((row.info.fence for row in self.rows), default=0)))
        widths = {"KIND": max(5, kind), "AGE": 7, "LEFT": 7, "WAITERS": 8}
        if wide:
            widths.update(LEFT=7 + BAR, FENCE=max(6, fence), WAITERS=5 + WAITS)
        rest = max(0, width - sum(widths.values()) - 2 * (len(widths) + 2))
        longest = max((len(row.name) for row in self.rows), default=0)
        name = min(max(longest, 6), max(rest // 2, 6))
        widths.update({"NAME": name, "HELD BY": max(0, rest - name)})
        self._widths = {title: widths[title] for title in COLUMNS if title in widths}

    def _titles(self) -> list[Segment]:
        arrow = " ▼" if self.descending else " ▲"
        segments = []
        for title, width in self._widths.items():
            text = f"{title}{arrow if title == self.column else ''}"
            right = title in ("AGE", "FENCE") and width > len(title)
            segments += [_cell(text, width, _HEAD, right), _GAP]
        return segments

    def _line(self, row: Row, now: float) -> list[Segment]:
        segments = []
        for title, width in self._widths.items():
            segments += [*COLUMNS[title].draw(row, width, now), _GAP]
        return segments


def _left(row: Row, width: int, now: float) -> list[Segment]:
    """A lease is renewed when two thirds are left: less than that is a renewal that is late."""
    left = row.left(now)
    part = min(1.0, left / row.seen.most) if row.seen.most else 0.0
    style = _GOOD if part > 0.6 else _LATE if part > 1 / 3 else _ENDING
    text = _cell(duration(left), 7, style, right=True)
    if width < BAR:
        return [text]
    full, half = divmod(round(part * BAR * 2), 2)
    drawn = "━" * full + "╸" * half
    return [Segment(drawn, style), Segment("━" * (BAR - len(drawn)), _EMPTY), text]


def _waiters(row: Row, width: int, now: float) -> list[Segment]:
    count = "?" if row.info.waiters is None else str(row.info.waiters)
    style = _HOT if row.info.waiters else _DIM
    if width <= WAITS:
        return [_cell(count, 7, style, right=True), Segment(" ")]
    most = max(row.waits, default=0)
    drawn = "".join(_SPARKS[round(8 * each / most) if most else 0] for each in row.waits)
    return [_cell(count, 4, style, right=True), Segment(f" {drawn:>{WAITS}}", _HOT)]


def _cell(text: str, width: int, style: Style | None = None, right: bool = False) -> Segment:
    if cell_len(text) > width:
        text = set_cell_size(text, max(0, width - 1)) + "…" if width else ""
    if right:
        text = " " * (width - cell_len(text)) + text
    return Segment(set_cell_size(text, width), style)


class Column(NamedTuple):
    """What it is sorted by, and how a row is drawn in that many cells at this time."""

    sorted_by: Callable[[Row], Any]
    draw: Callable[[Row, int, float], list[Segment]]


COLUMNS = {
    "NAME": Column(
        lambda row: row.key,
        lambda row, width, now: [_cell(row.name, width, _NAME)],
    ),
    "KIND": Column(
        lambda row: row.kind,
        lambda row, width, now: [_cell(row.kind, width, _DIM)],
    ),
    "HELD BY": Column(
        lambda row: row.holder,
        lambda row, width, now: [_cell(row.holder, width)],
    ),
    "AGE": Column(
        lambda row: -row.seen.since,
        lambda row, width, now: [_cell(row.age(now), width, right=True)],
    ),
    "LEFT": Column(lambda row: row.member.remaining, _left),
    "FENCE": Column(
        lambda row: row.info.fence,
        lambda row, width, now: [_cell(str(row.info.fence), width, _DIM, right=True)],
    ),
    "WAITERS": Column(lambda row: (row.info.waiters or 0, sum(row.waits)), _waiters),
}
