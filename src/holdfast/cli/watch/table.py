"""The table of locks, with its cursor and its order; at the end of the file its columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from holdfast import LeaseInfo, Member
from holdfast.cli.console import duration
from holdfast.cli.options import describe_holder
from holdfast.monitor import Seen, Watched, kind_of
from holdfast.options import printable

SAMPLE = 100
"""About how many rows say how wide the columns must be."""

NARROW = 100
"""In a terminal of fewer columns, bars, sparklines and fences are left out."""

SPARE = 0.02
"""Of what part of the rows may stay, blank, at the end: making the table anew takes its time."""

BAR, WAITS = 8, 8
"""The cells of a bar, and how many looks a sparkline shows."""

_SPARKS = " ▁▂▃▄▅▆▇█"


class Row(NamedTuple):
    """One holder of one lock, as it was seen."""

    lock: Watched
    info: LeaseInfo
    member: Member
    seen: Seen

    @property
    def key(self) -> tuple[str, str]:
        return self.info.name, self.member.holder

    @property
    def name(self) -> str:
        return printable(self.info.name)

    @property
    def holder(self) -> str:
        return describe_holder(self.member.holder)

    def has(self, text: str) -> bool:
        """Whether this (of lower case) is a part of the name or of the holder."""
        return text in self.info.name.casefold() or text in self.holder.casefold()

    def left(self, now: float) -> float:
        """Seconds until the lease ends, if it was not renewed since the look."""
        return max(0.0, self.member.remaining - (now - self.lock.seen_at))


class Cell:
    """A place in the table. It is drawn while it is on the screen: the others cost nothing."""

    def __init__(self, held: list[Row], index: int, column: Column) -> None:
        self._held, self._index, self._column = held, index, column

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if self._index < len(self._held) and options.max_width:
            text = self._column.draw(self._held[self._index], time.time())
            text.truncate(options.max_width, overflow=text.overflow or "ellipsis")
            yield text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, 1)  # the columns have widths of their own


class LockTable(DataTable[Cell]):
    """One line for each holder of each lock. The cells stay, and draw what is held now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_up", "Up", show=False),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("home", "scroll_top", "First", show=False),
        Binding("end", "scroll_bottom", "Last", show=False),
        Binding("enter", "app.open", "Show"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
    ]

    DEFAULT_CSS = "LockTable { overflow-x: hidden; }"

    def __init__(self) -> None:
        super().__init__(cursor_type="row")
        self.held: list[Row] = []
        self.column, self.descending = "NAME", False

    def show(self, rows: Iterable[Row]) -> None:
        """Show these rows, with the cursor on what it was on."""
        before, at, top = self.selected, self.cursor_row, self.scroll_y
        held = sorted(rows, key=lambda row: row.key)
        held.sort(key=COLUMNS[self.column].sorted_by, reverse=self.descending)
        self.held[:] = held
        # The cursor is set without its watcher, which would scroll to it at each look.
        self.set_reactive(DataTable.cursor_coordinate, Coordinate(0, 0))
        self._fit()
        same = (index for index, row in enumerate(held) if before and row.key == before.key)
        at = next(same, max(0, min(at, len(held) - 1)))
        self.set_reactive(DataTable.cursor_coordinate, Coordinate(at, 0))
        self.scroll_to(y=top, animate=False, force=True, immediate=True)
        self._clear_caches()  # of what was drawn
        self.refresh()

    def validate_cursor_coordinate(self, value: Coordinate) -> Coordinate:
        """Not on a blank row."""
        last = max(0, len(self.held) - 1)
        return super().validate_cursor_coordinate(Coordinate(min(value.row, last), value.column))

    def on_resize(self) -> None:
        self.show([*self.held])

    def _fit(self) -> None:
        """As many rows as are held, and columns that fit the terminal."""
        count = len(self.held)
        if not self.columns or self.row_count > count * (1 + SPARE):
            self.clear(columns=True)
            for title in COLUMNS:
                self.add_column(title, width=0)
        for shown, (title, width) in zip(self.ordered_columns, self._widths().items(), strict=True):
            arrow = " ▼" if self.descending else " ▲"
            shown.label = Text((title + arrow * (title == self.column))[:width])
            shown.width = width
        self._require_update_dimensions = True
        for index in range(self.row_count, count):
            self.add_row(*(Cell(self.held, index, column) for column in COLUMNS.values()))

    def _widths(self) -> dict[str, int]:
        """In cells: what most rows need; name and holder share what the others leave."""
        now, sample = time.time(), self.held[:: len(self.held) // SAMPLE + 1]
        widths = {
            title: max([len(title) + 2, *(column.draw(row, now).cell_len for row in sample)])
            for title, column in COLUMNS.items()
        }
        if self.size.width < NARROW:
            widths.update(LEFT=7, FENCE=0, WAITERS=7)
        others = sum(widths[title] for title in COLUMNS if title not in ("NAME", "HELD BY"))
        padding = 2 * self.cell_padding * len(widths)
        rest = self.scrollable_content_region.width - others - padding
        widths["NAME"] = min(widths["NAME"], max(6, rest // 2))
        widths["HELD BY"] = max(6, rest - widths["NAME"])
        return widths

    @property
    def selected(self) -> Row | None:
        return self.held[self.cursor_row] if self.cursor_row < len(self.held) else None

    def action_sort(self) -> None:
        titles = list(COLUMNS)
        self.column = titles[(titles.index(self.column) + 1) % len(titles)]
        self.show([*self.held])

    def action_reverse(self) -> None:
        self.descending = not self.descending
        self.show([*self.held])


def _left(row: Row, now: float) -> Text:
    """A lease is renewed when two thirds are left: less than that is a renewal that is late. A
    narrow column has no bar."""
    left = row.left(now)
    part = min(1.0, left / row.seen.most) if row.seen.most else 0.0
    style = "green" if part > 0.6 else "yellow" if part > 1 / 3 else "red"
    return Text(f"{duration(left):>7} {'━' * round(part * BAR):<{BAR}}", style, overflow="crop")


def _waiters(row: Row, now: float) -> Text:
    if row.info.waiters is None:
        return Text(f"{'?':>6}", "dim")
    waits = list(row.lock.waiters)[-WAITS:]
    drawn = "".join(_SPARKS[round(8 * each / max(*waits, 1))] for each in waits)
    style = "magenta" if row.info.waiters else "dim"
    return Text(f"{row.info.waiters:>6} {drawn:<{WAITS}}", style, overflow="crop")


class Column(NamedTuple):
    """What it is sorted by, and how a row is drawn at this time."""

    sorted_by: Callable[[Row], Any]
    draw: Callable[[Row, float], Text]


COLUMNS = {
    "NAME": Column(lambda row: row.key, lambda row, now: Text(row.name, "bold")),
    "KIND": Column(lambda row: kind_of(row.info), lambda row, now: Text(kind_of(row.info), "dim")),
    "HELD BY": Column(lambda row: row.holder, lambda row, now: Text(row.holder)),
    "AGE": Column(
        lambda row: -row.seen.since,
        lambda row, now: Text(f"{row.seen.mark + duration(row.seen.lasts(now)):>7}"),
    ),
    "LEFT": Column(lambda row: row.member.remaining, _left),
    "FENCE": Column(
        lambda row: row.info.fence,
        lambda row, now: Text(str(row.info.fence), "dim", justify="right"),
    ),
    "WAITERS": Column(lambda row: (row.info.waiters or 0, sum(row.lock.waiters)), _waiters),
}
