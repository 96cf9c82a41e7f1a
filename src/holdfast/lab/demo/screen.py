"""Where the demo is shown: a picture that is redrawn in a terminal, or plain lines for a pipe."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from math import inf
from typing import TextIO

from holdfast.lab.demo.contest import Contest
from holdfast.lab.demo.turn import NAME, smallest_gap
from holdfast.lab.demo.worker import clock
from holdfast.lab.pictures import as_text
from holdfast.lab.pictures.text import ASCII, Line, painted

NARROWEST, WIDEST = 78, 110
EVENTS = 6
LEAST_HEIGHT = 17 + EVENTS
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR_LINE, _CLEAR_BELOW, _CLEAR_ALL = "\x1b[K", "\x1b[J", "\x1b[2J\x1b[H"


class Plain:
    """A line for every event."""

    def __init__(self, out: TextIO, *, colour: bool, unicode: bool) -> None:
        self.out, self.colour = out, colour
        self._table = {} if unicode else ASCII
        self._began_at = clock()

    def tell(self, event: str) -> None:
        """Something happened."""
        self.write(f"{clock() - self._began_at:6.2f} s  {event}\n")

    def draw(self, contest: Contest) -> None:
        """Time has passed: a pipe gets no pictures."""

    def close(self) -> None:
        """Leave the terminal as it was."""

    def print(self, lines: Iterable[Line]) -> None:
        """Show these lines, and leave them."""
        self.write("".join(painted(line, colour=self.colour) + "\n" for line in lines))

    def write(self, text: str) -> None:
        """Show a text, as far as there are characters for it."""
        self.out.write(text.translate(self._table))
        self.out.flush()


class Live(Plain):
    """A picture that is drawn again and again in the same place."""

    def __init__(self, out: TextIO, *, colour: bool, unicode: bool) -> None:
        super().__init__(out, colour=colour, unicode=unicode)
        self._events: list[str] = []
        self._drawn = 0
        self._width = _width()
        out.write(_HIDE_CURSOR)

    def tell(self, event: str) -> None:
        """Something happened."""
        self._events.append(f"{clock() - self._began_at:5.1f} s  {event}")

    def draw(self, contest: Contest) -> None:
        """Draw the picture over the last one."""
        width = _width()
        lines = frame(contest, clock(), self._events, width - 1, colour=self.colour)
        start = f"\x1b[{self._drawn}F" if self._drawn else ""
        if width != self._width:  # the old lines may have been wrapped
            self._width, start = width, _CLEAR_ALL
        body = "".join(line + _CLEAR_LINE + "\n" for line in lines)
        self.write(start + body + _CLEAR_BELOW)
        self._drawn = len(lines)

    def close(self) -> None:
        """Show the cursor again."""
        self.write(_SHOW_CURSOR)


def choose(out: TextIO = sys.stdout) -> Plain:
    """The best that `out` can do. `NO_COLOR` is respected."""
    size = shutil.get_terminal_size()
    terminal = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    live = terminal and size.columns >= NARROWEST and size.lines >= LEAST_HEIGHT
    colour = terminal and not os.environ.get("NO_COLOR")
    return (Live if live else Plain)(out, colour=colour, unicode=_writes_unicode(out))


def frame(
    contest: Contest, now: float, events: Sequence[str], width: int, *, colour: bool
) -> list[str]:
    """The contest as it stands, in lines no longer than `width`."""
    elapsed = now - contest.began_at
    picture = as_text(
        contest.history(),
        width=min(width, WIDEST),
        colour=colour,
        until=max(contest.plan.length, elapsed),
        now=elapsed,
        in_words=False,
    )
    shown = [f"  {event}"[:width] for event in events[-EVENTS:]]
    blank = [""] * (EVENTS - len(shown))
    return [*picture.splitlines(), "", *shown, *blank]


def table(contest: Contest) -> list[Line]:
    """Every section: who, fence, from, to, and how it ended."""
    lines: list[Line] = [
        [("  who    fence      from        to     held  how it ended", "dim")],
    ]
    zero, victim = contest.began_at, contest.victim
    for section in contest.sections():
        began, ended = section.began - zero, section.ended - zero
        row = f"{section.fence:5}  {began:6.3f} s  {ended:6.3f} s  {ended - began:5.3f} s  "
        how: Line = [("done", "dim")]
        if section.killed and victim is not None:
            how = [("killed", "red"), (f"; lease until {victim.lease_ends_at - zero:.3f} s", "dim")]
        lines.append([(f"  {section.who:<7}{row}", ""), *how])
    return lines


def verdict(contest: Contest) -> list[Line]:
    """What the table proves, or what contradicts it."""
    faults = contest.faults()
    if faults:
        return [[("  FAILED", "bold red")], *([(f"  - {fault}", "red")] for fault in faults)]
    sections = contest.sections()
    count = len(sections)
    fences = " < ".join(str(section.fence) for section in sections)
    gap = smallest_gap(sections) * 1000
    took, ttl = contest.take_over(), contest.plan.ttl
    blocked = f" for {took:.2f} s" if took < inf else ""
    return [
        [
            ("  no two overlapped", "bold green"),
            (f": {count} sections of {NAME!r}, {count * (count - 1) // 2} pairs compared;", ""),
        ],
        [(f"  the closest two are {gap:.1f} ms apart.", "")],
        [("  fences grew", "bold green"), (f": {fences}", "")],
        [
            ("  the killed holder blocked the others", "bold green"),
            (f"{blocked}, its ttl being {ttl:g} s.", ""),
        ],
    ]


def _writes_unicode(out: TextIO) -> bool:
    try:
        "─█▒†┴".encode(out.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _width() -> int:
    return shutil.get_terminal_size().columns
