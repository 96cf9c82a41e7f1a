"""A timeline as SVG: one file that needs nothing else, on light and on dark pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from holdfast.lab.history import Finding, History
from holdfast.lab.pictures import pen
from holdfast.lab.pictures.lanes import Lane, Look, Mark, Role, Span, Symbol, names_in
from holdfast.lab.pictures.layout import lay_out
from holdfast.lab.pictures.sheet import (
    Bar,
    Board,
    Flag,
    Sheet,
    Stripe,
    Tag,
    are_extended,
    looks_in,
    symbols_in,
)
from holdfast.lab.pictures.words import clean, tell_findings

PAD = 24.0
TITLE = 24.0
"""Of one line of the title."""
FLAG = 20.0
HEADING = 22.0
TAG = 18.0
CUT = 16.0
_SPACE = 9.0
_BAR = {Role.CLIENT: 24.0, Role.NODE: 17.0, Role.REGISTER: 0.0, Role.RUN: 0.0}
_BETWEEN_BARS = 4.0


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where a lane is."""

    stripe: Stripe
    heading: str
    """What the lanes from here on are, if that is new."""
    top: float

    @property
    def bar_height(self) -> float:
        """Of one row of bars."""
        return _BAR[self.stripe.lane.role]

    def bar_top(self, row: int) -> float:
        """Where a row of bars begins."""
        return self.top + _SPACE + row * (self.bar_height + _BETWEEN_BARS)

    @property
    def bars_bottom(self) -> float:
        """Where the last row of bars ends. There is one, even if it is empty."""
        return self.bar_top(max(1, len(self.stripe.bars)) - 1) + self.bar_height

    @property
    def middle(self) -> float:
        """Of the first row: where the name stands."""
        if not self.bar_height:
            return self.tag_middle(0)
        return self.bar_top(0) + self.bar_height / 2

    def tag_middle(self, row: int) -> float:
        """The middle of a row of tags."""
        gap = 3 if self.bar_height else 0
        return self.bars_bottom + gap + (row + 0.5) * TAG

    def cut_middle(self, row: int) -> float:
        """The middle of a row of cuts."""
        return self.tag_middle(len(self.stripe.tags)) - TAG / 2 + (row + 0.5) * CUT

    @property
    def bottom(self) -> float:
        """Where the next lane begins."""
        return self.cut_middle(len(self.stripe.cuts)) - CUT / 2 + _SPACE - 3


def shelves(board: Board, top: float) -> Iterator[Shelf]:
    """Every lane, from here down."""
    role = None
    for stripe in board.stripes:
        new = stripe.lane.role is not role and stripe.lane.role is not Role.RUN
        role = stripe.lane.role
        shelf = Shelf(stripe, role.value if new else "", top + (HEADING if new else 0))
        yield shelf
        top = shelf.bottom


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
    if board.fences:
        blocks.append(("soft", board.fences))
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


_LEAST_NAME = 36.0
"""How much room names have, so that there is some for what the axis counts, too."""
_WIDEST_NAME = 0.2
"""Names take no more than this part of the width."""
_MOST_LINKS = 24
"""With more writes than this, the lines from client to register would hide what is behind."""
_LEAST_WIDTH = 320


def as_svg(
    history: History,
    *,
    title: str,
    findings: Sequence[Finding] = (),
    caption: str = "",
    width: int = 1000,
    since: float | None = None,
    until: float | None = None,
) -> str:
    """The picture of a history, or of what happened `since` and `until` these instants.

    `findings` are shown in red, and told in words below the lanes.
    """
    if width < _LEAST_WIDTH:
        raise ValueError(f"width must be at least {_LEAST_WIDTH}, not {width}")
    names = max((pen.measure(name, pen.NAME_SIZE) for name in names_in(history)), default=0.0)
    gutter = PAD + max(_LEAST_NAME, min(names, _WIDEST_NAME * width)) + 16
    sheet = Sheet(
        width=width - gutter - PAD,
        grain=2,
        glyph=12,
        half=6,
        space=4,
        gap=8,
        tick=76,
        measure=pen.measure,
    )
    board = lay_out(history, sheet, findings, since, until)
    return _Picture(board, sheet, gutter, width, clean(title)).draw(clean(caption))


class _Picture:
    """Everything in layers: what is drawn first lies behind."""

    def __init__(self, board: Board, sheet: Sheet, gutter: float, width: float, title: str) -> None:
        self._board, self._sheet, self._gutter, self._width = board, sheet, gutter, width
        self._title = title
        self._title_lines = pen.wrap(title, width - 2 * PAD, pen.TITLE_SIZE)
        self._flags_top = PAD + TITLE * len(self._title_lines) + 2
        self._top = self._flags_top + FLAG * len(board.flags) + (4 if board.flags else 0)
        self._shelves = list(shelves(board, self._top))
        self._bottom = self._shelves[-1].bottom if self._shelves else self._top
        self._right = width - PAD

    def draw(self, caption: str) -> str:
        """The whole document."""
        axis_height = 30
        below, height = foot(self._board, caption, self._bottom + axis_height, self._width)
        pieces = [
            pen.element("title", escape(self._title)),
            pen.element("desc", escape(self._description())),
            pen.element("style", f"{pen.STYLE}@media (prefers-color-scheme:dark){{{pen.DARK}}}"),
            pen.PATTERNS,
            pen.box(0.5, 0.5, self._width - 0.5, height - 0.5, "card", rx=10),
            *(
                pen.text(line, PAD, PAD + TITLE * number + 10, "title")
                for number, line in enumerate(self._title_lines)
            ),
            *self._grid(),
            *self._links(),
            *(piece for shelf in self._shelves for piece in self._shapes(shelf)),
            *self._bands(),
            *(piece for shelf in self._shelves for piece in self._writing(shelf)),
            *self._flags(),
            *below,
        ]
        size = f"0 0 {self._width:g} {height:g}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" role="img" viewBox="{size}" '
            f'width="{self._width:g}" height="{height:g}" aria-label="{escape(self._title)}">\n'
            + "\n".join(pieces)
            + "\n</svg>\n"
        )

    def _description(self) -> str:
        axis = self._board.axis
        lanes = ", ".join(stripe.lane.name for stripe in self._board.stripes if stripe.lane.name)
        told = ". ".join(tell_findings(self._board.findings, axis.say))
        span = f"{axis.say(axis.since)} to {axis.say(axis.until)}"
        return f"A timeline of {lanes}, from {span}. {told}".strip()

    def _x(self, place: float) -> float:
        return self._gutter + place

    def _grid(self) -> Iterator[str]:
        bottom, board = self._bottom + 4, self._board
        for place, number in board.axis.ticks():
            x = self._x(place)
            yield pen.line(x, self._top, x, bottom, "grid")
            yield pen.text(number, x, bottom + 16, "soft", text_anchor="middle")
        yield pen.line(self._gutter, bottom, self._right, bottom, "axis")
        yield pen.text(board.axis.unit, self._gutter - 24, bottom + 16, "soft", text_anchor="end")

    def _bands(self) -> Iterator[str]:
        for band in self._board.bands:
            concerned = [self._shelves[number] for number in band.lanes]
            left, right = self._x(band.left), self._x(band.right)
            for shelf in concerned:
                yield pen.box(left, shelf.top + 1, right, shelf.bottom, "breached")
            bottom = max((shelf.bottom for shelf in concerned), default=self._top)
            for x in (left, right):
                yield pen.line(x, self._top - 6, x, bottom, "edge")

    def _links(self) -> Iterator[str]:
        """From the client to the register that it wrote to."""
        writers = {
            shelf.stripe.lane.name: shelf
            for shelf in self._shelves
            if shelf.stripe.lane.tint is not None
        }
        tags = [
            (shelf.tag_middle(row), tag)
            for shelf in self._shelves
            for row, tags in enumerate(shelf.stripe.tags)
            for tag in tags
            if tag.mark.sender
        ]
        for y, tag in tags if len(tags) <= _MOST_LINKS else ():
            x, writer = self._x(tag.x), writers[tag.mark.sender]
            dress = f"line thin {pen.tint(tag.mark.tint)}"
            yield pen.line(x, writer.middle + writer.bar_height / 2, x, y, dress)

    def _shapes(self, shelf: Shelf) -> Iterator[str]:
        """What may lie behind a band."""
        lane = shelf.stripe.lane
        if shelf.heading:
            yield pen.text(shelf.heading.upper(), PAD, shelf.top - 4, "group")
            yield pen.line(PAD, shelf.top + 1, self._right, shelf.top + 1, "grid")
        if shelf.bar_height:
            yield pen.line(self._gutter, shelf.middle, self._right, shelf.middle, "grid")
        for row, bars in enumerate(shelf.stripe.bars):
            for bar in bars:
                yield from self._bar(bar, lane, shelf.bar_top(row), shelf.bar_height)
        for bar in shelf.stripe.veils:
            yield from self._veil(bar, shelf)

    def _writing(self, shelf: Shelf) -> Iterator[str]:
        """What is to be read, before everything else."""
        yield from self._name(shelf)
        for row, bars in enumerate(shelf.stripe.bars):
            for bar in (bar for bar in bars if bar.label):
                base = shelf.bar_top(row) + shelf.bar_height / 2 + 4
                yield pen.text(bar.label, self._x(bar.label_at), base, "in")
        for row, tags in enumerate(shelf.stripe.tags):
            for tag in tags:
                yield from self._tag(tag, shelf, shelf.tag_middle(row))
        for row, cuts in enumerate(shelf.stripe.cuts):
            for cut in cuts:
                yield from self._cut(cut, shelf.cut_middle(row))

    def _name(self, shelf: Shelf) -> Iterator[str]:
        lane = shelf.stripe.lane
        if lane.name:
            name = self._sheet.fit(lane.name, (self._gutter - PAD - 12) * pen.SIZE / pen.NAME_SIZE)
            yield pen.text(name, PAD, shelf.middle + 4.5, f"who fill {pen.tint(lane.tint)}")

    def _bar(self, bar: Bar, lane: Lane, top: float, height: float) -> Iterator[str]:
        left, right, middle = self._x(bar.left), self._x(bar.right), top + height / 2
        colour = pen.tint(bar.span.tint)
        if bar.span.look is Look.WAITING:
            yield pen.line(left, middle, right, middle, f"line wait {colour}")
            return
        tip = self._tip(lane, bar.span)
        yield pen.box(
            left, top, right, top + height, f"fill {colour}", tip, rx=min(4, (right - left) / 3)
        )
        for notch in map(self._x, bar.notches):
            yield pen.line(notch, top, notch, top + 5, "notch")
            yield pen.line(notch, top + height - 5, notch, top + height, "notch")

    def _tip(self, lane: Lane, span: Span) -> str:
        axis = self._board.axis
        said = span.labels[0] if span.labels else span.look.value
        until = f" to {axis.say(span.until)}" if span.until <= axis.until else ""
        return f"{lane.name}: {said}, {axis.say(span.since)}{until}"

    def _veil(self, bar: Bar, shelf: Shelf) -> Iterator[str]:
        left, right = self._x(bar.left), self._x(bar.right)
        top, bottom = shelf.bar_top(0), shelf.bars_bottom
        tip = self._tip(shelf.stripe.lane, bar.span)
        if bar.span.look is Look.PAUSED:
            yield pen.box(left, top, right, bottom, "hatched", tip)
        else:
            yield pen.box(left, top, right, bottom, "down", tip, rx=3)

    def _tag(self, tag: Tag, shelf: Shelf, middle: float) -> Iterator[str]:
        x, colour = self._x(tag.x), pen.tint(tag.mark.tint)
        if shelf.bar_height:
            yield pen.line(x, shelf.bars_bottom, x, middle - 6, f"line thin {colour}")
        tip = self._mark_tip(shelf.stripe.lane, tag.mark)
        yield pen.symbol(tag.mark.symbol, x, middle, colour, tip)
        if tag.label:
            yield pen.text(tag.label, self._x(tag.label_at), middle + 4, "halo")

    def _mark_tip(self, lane: Lane, mark: Mark) -> str:
        said = mark.labels[0] if mark.labels else mark.symbol.value
        return f"{lane.name}: {said}, {self._board.axis.say(mark.at)}".removeprefix(": ")

    def _cut(self, cut: Bar, middle: float) -> Iterator[str]:
        left, right = self._x(cut.left), self._x(cut.right)
        begin = left
        if cut.label:
            yield pen.text(cut.label, left, middle + 4, "soft halo")
            begin = left + pen.measure(cut.label) + 4
        yield pen.line(begin, middle, right, middle, "line cut ink")

    def _flags(self) -> Iterator[str]:
        for row, flags in enumerate(self._board.flags):
            for flag in flags:
                yield from self._flag(flag, row)

    def _flag(self, flag: Flag, row: int) -> Iterator[str]:
        left, right = self._x(flag.band.left), self._x(flag.band.right)
        top, bottom = self._flags_top + FLAG * row, self._flags_top + FLAG * (row + 1) - 4
        yield pen.box(left, top, right, bottom, "fill wrong", rx=min(3, (right - left) / 3))
        if flag.label:
            dress = "in" if flag.is_within else "wrong halo"
            yield pen.text(flag.label, self._x(flag.label_at), top + 12.5, dress)
