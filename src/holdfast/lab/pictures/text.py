"""A timeline in characters: a few rows for each lane, for the terminal and for SVG."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import floor
from typing import TypeAlias

from holdfast.lab.history import Finding, History
from holdfast.lab.pictures.lanes import Look, Role, Symbol, names_in
from holdfast.lab.pictures.layout import lay_out
from holdfast.lab.pictures.sentences import describe, describe_fences, describe_findings
from holdfast.lab.pictures.sheet import (
    Bar,
    Board,
    Stripe,
    are_extended,
    column,
    columns,
    fit,
    looks_in,
    symbols_in,
)

Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the names of its styles."""

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "on-red": "97;41",
    "on-green": "30;42",
    "on-yellow": "30;43",
    "on-blue": "97;44",
    "on-magenta": "30;45",
    "on-cyan": "30;46",
}


def painted(line: Line, *, colour: bool) -> str:
    """A line as text; with ANSI codes for its styles if there are colours."""
    text = ""
    for piece, styles in line:
        codes = ";".join(_CODES[style] for style in styles.split()) if colour and piece else ""
        text += f"\x1b[{codes}m{piece}\x1b[0m" if codes else piece
    return text


ASCII = str.maketrans("─█▞▄░▒╌┄»╬□◆●⊘‖†▶✓◷•┴▼✗…", "-#^=:%.~>X?!o/|x*v@.+Vx.")
"""The characters of a picture, for a terminal that has no others."""


class Row:
    """One line of a picture, written into at any place."""

    def __init__(self, width: int) -> None:
        self.cells = [(" ", "")] * width

    def write(self, place: float, text: str, style: str) -> None:
        """A text. A wide character takes two cells; the second stays empty."""
        at = floor(place)
        for character in text:
            size = column(character)
            if size == 0:
                before, its_style = self.cells[at - 1]
                self.cells[at - 1] = (before + character, its_style)
                continue
            self.cells[at : at + size] = [(character, style), ("", style)][:size]
            at += size

    def line(self) -> Line:
        """Neighbours of one style together."""
        return [
            ("".join(character for character, _ in same), style)
            for style, same in groupby(self.cells, key=lambda cell: cell[1])
        ]


def across(left: float, right: float) -> range:
    """The columns from left to right: at least one."""
    return range(floor(left), max(floor(left) + 1, floor(right)))


MOST_EVENTS = 40
"""A longer list of events would bury the picture."""
_LEAST_WIDTH = 40
_WIDEST_NAME = 16
_TINTS = ("cyan", "yellow", "magenta", "blue", "green")
_LOOKS = {
    Look.WAITING: "─",
    Look.HOLDING: "█",
    Look.EXPIRED: "▞",
    Look.VOTE: "▄",
    Look.PAUSED: "░",
    Look.DOWN: "╌",
    Look.CUT: "┄",
}
_VEILED, _EXTENDED, _BROKEN = "▒", "»", "╬"
_SYMBOLS = {
    Symbol.REFUSED: "□",
    Symbol.LOST: "◆",
    Symbol.WROTE: "●",
    Symbol.REJECTED: "⊘",
    Symbol.PAUSED: "‖",
    Symbol.CRASHED: "†",
    Symbol.STARTED: "▶",
    Symbol.HEALED: "✓",
    Symbol.JUMPED: "◷",
    Symbol.NOTED: "•",
}


def as_text(
    history: History,
    *,
    findings: Sequence[Finding] = (),
    width: int = 100,
    colour: bool = False,
    until: float | None = None,
    in_words: bool = True,
) -> str:
    """The picture of a history, up to `until`, or the last event.

    A short history is followed by a list of its events, unless `in_words` is false.
    """
    if until is not None:
        history = History(event for event in history if event.at <= until)
    board, lines = drawn(history, findings, width, until)
    if in_words:
        lines += _listing(board, history)
    return "".join(painted(line, colour=colour).rstrip() + "\n" for line in lines)


def drawn(
    history: History, findings: Sequence[Finding], width: int, until: float | None = None
) -> tuple[Board, list[Line]]:
    """The picture, its legend and what was found, in lines of characters."""
    if width < _LEAST_WIDTH:
        raise ValueError(f"width must be at least {_LEAST_WIDTH}, not {width}")
    names = max((columns(name) for name in names_in(history)), default=0)
    gutter = min(names, _WIDEST_NAME) + 2
    board = lay_out(history, width - gutter, findings, until)
    return board, [*_Chart(board, gutter).lines(), *_legend(board, width), *_findings(board, width)]


def _tint(number: int | None, *, on: bool = False) -> str:
    if number is None:
        return ""
    name = _TINTS[number % len(_TINTS)]
    return f"on-{name}" if on else name


def _style(bar: Bar, *, on: bool = False) -> str:
    if bar.span.look is Look.EXPIRED:
        return "on-red" if on else "red"
    return _tint(bar.span.tint, on=on)


class _Chart:
    """Flags, lanes and axis."""

    def __init__(self, board: Board, gutter: int) -> None:
        self._board, self._gutter, self._width = board, gutter, board.axis.width

    def lines(self) -> list[Line]:
        """From top to bottom."""
        lines = [self._beside("", "", row) for row in self._flags()]
        role = None
        for number, stripe in enumerate(self._board.stripes):
            if role is not None and stripe.lane.role is not role:
                lines.append([])
            role = stripe.lane.role
            name = fit(stripe.lane.name, self._gutter - 2)
            for row in self._rows(number, stripe):
                lines.append(self._beside(name, f"bold {_tint(stripe.lane.tint)}".strip(), row))
                name = ""
        return [*lines, *self._axis()]

    def _beside(self, name: str, style: str, row: Row) -> Line:
        return [(name, style), (" " * (self._gutter - columns(name)), ""), *row.line()]

    def _flags(self) -> Iterator[Row]:
        for flags in self._board.flags:
            row = Row(self._width)
            for flag in flags:
                for place in across(flag.band.left, flag.band.right):
                    row.write(place, "▼", "red")
                row.write(flag.label_at, flag.label, "bold red")
            yield row

    def _rows(self, number: int, stripe: Stripe) -> Iterator[Row]:
        bars = stripe.bars
        if stripe.lane.role in (Role.CLIENT, Role.NODE):
            bars = bars or [[]]
        for row in bars:
            yield self._bars(number, row, stripe.veils)
        for tags in stripe.tags:
            row_of_tags = Row(self._width)
            for tag in tags:
                stray = tag.mark.is_stray
                style = "red" if stray else _tint(tag.mark.tint)
                row_of_tags.write(tag.x, _SYMBOLS[tag.mark.symbol], style)
                row_of_tags.write(tag.label_at, tag.label, "red" if stray else "")
            yield row_of_tags
        for cuts in stripe.cuts:
            row_of_cuts = Row(self._width)
            for cut in cuts:
                for place in across(cut.left, cut.right):
                    row_of_cuts.write(place, _LOOKS[Look.CUT], "dim")
                row_of_cuts.write(cut.left, cut.label and f"{cut.label} ", "dim")
            yield row_of_cuts

    def _bars(self, number: int, bars: list[Bar], veils: list[Bar]) -> Row:
        row = Row(self._width)
        for bar in bars:
            held = bar.span.look is not Look.WAITING
            style = _style(bar)
            for place in across(bar.left, bar.right):
                row.write(place, _LOOKS[bar.span.look], style)
            for notch in bar.notches if held else ():
                row.write(min(notch, self._width - 1), _EXTENDED, style)
        self._veil(row, veils)
        self._break(row, number)
        for bar in bars:
            if bar.label:
                row.write(bar.label_at - 1, f" {bar.label} ", _style(bar, on=True))
        return row

    def _veil(self, row: Row, veils: list[Bar]) -> None:
        for veil in veils:
            for place in across(veil.left, veil.right):
                below, style = row.cells[place]
                if below == _LOOKS[Look.EXPIRED]:
                    continue
                covers = below in (_LOOKS[Look.HOLDING], _LOOKS[Look.VOTE], _EXTENDED)
                row.write(place, _VEILED if covers else _LOOKS[veil.span.look], style)

    def _break(self, row: Row, number: int) -> None:
        """What is held at a time when it must not be."""
        held = (_LOOKS[Look.HOLDING], _LOOKS[Look.VOTE], _VEILED, _EXTENDED)
        for band in (band for band in self._board.bands if number in band.lanes):
            for place in across(band.left, band.right):
                if row.cells[place][0] in held:
                    row.write(place, _BROKEN, "red")

    def _axis(self) -> Iterator[Line]:
        line, numbers = Row(self._width), Row(self._width)
        line.write(0, "─" * self._width, "dim")
        for place, number in self._board.axis.ticks():
            at = min(floor(place), self._width - 1)
            line.write(at, "┴", "dim")
            numbers.write(min(at, self._width - len(number)), number, "dim")
        yield self._beside("", "", line)
        yield self._beside(self._board.axis.unit, "dim", numbers)


def _legend(board: Board, width: int) -> list[Line]:
    """What the characters mean that occur."""
    looks = looks_in(board)
    items = [f"{_LOOKS[look]}{_over_a_hold(look)} {look.value}" for look in looks]
    if are_extended(board):
        items.insert(looks.index(Look.HOLDING) + 1, f"{_EXTENDED} extended")
    items += [f"{_SYMBOLS[symbol]} {symbol.value}" for symbol in symbols_in(board)]
    if board.bands:
        items.append(f"▼{_BROKEN} went wrong")
    rows = [""]
    for item in items:
        if rows[-1] and columns(rows[-1]) + 3 + columns(item) > width:
            rows.append("")
        rows[-1] += f"{'   ' if rows[-1] else ''}{item}"
    rows.append(describe_fences(board.fences))
    return [[], *([(row, "dim")] for row in rows if row)]


def _over_a_hold(look: Look) -> str:
    return _VEILED if look in (Look.PAUSED, Look.DOWN) else _LOOKS[look]


def _findings(board: Board, width: int) -> list[Line]:
    """The findings, and what is not in the picture."""
    lines: list[Line] = []
    for finding in describe_findings(board.findings, board.axis.instant, board.fences):
        wrapped = textwrap.wrap(finding, width, initial_indent="✗ ", subsequent_indent="  ")
        lines += [[(text, "red")] for text in wrapped]
    if board.left_out:
        lines.append([(f"{board.left_out} more marks found no room.", "dim")])
    return [[], *lines] if lines else []


def _listing(board: Board, history: History) -> list[Line]:
    """The events one by one, if they are few."""
    if len(history) > MOST_EVENTS:
        return []
    instant = board.axis.instant
    widest = max((len(instant(event.at)) for event in history), default=0)
    return [
        [],
        *(
            [
                (f"{instant(event.at):>{widest}}  ", "dim"),
                (describe(event, instant, board.fences), ""),
            ]
            for event in history
        ),
    ]
