"""Where the demo is shown: a terminal that is redrawn, or plain lines for a pipe."""

import os
import shutil
import sys
from collections.abc import Iterable
from typing import Protocol, TextIO

from holdfast.lab.demo.contest import Contest
from holdfast.lab.demo.picture import EVENTS, NARROWEST, Ink, frame
from holdfast.lab.demo.worker import clock
from holdfast.lab.pictures.text import Line

LEAST_HEIGHT = 9 + EVENTS
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR_LINE, _CLEAR_BELOW, _CLEAR_ALL = "\x1b[K", "\x1b[J", "\x1b[2J\x1b[H"


class Screen(Protocol):
    """What the contest is shown on."""

    def tell(self, event: str) -> None:
        """Something happened."""
        ...

    def draw(self, contest: Contest) -> None:
        """Time has passed."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...

    def print(self, lines: Iterable[Line]) -> None:
        """Show these lines, and leave them."""
        ...


class Plain:
    """A line for every event."""

    def __init__(self, out: TextIO, ink: Ink) -> None:
        self._out, self._ink = out, ink
        self._began_at = clock()

    def tell(self, event: str) -> None:
        """Something happened."""
        self._out.write(f"{clock() - self._began_at:6.2f} s  {event}\n")
        self._out.flush()

    def draw(self, contest: Contest) -> None:
        """Nothing: a pipe gets no pictures."""

    def close(self) -> None:
        """Nothing to undo."""

    def print(self, lines: Iterable[Line]) -> None:
        """Show these lines."""
        self._out.writelines(self._ink.line(line) + "\n" for line in lines)
        self._out.flush()


class Live(Plain):
    """A picture that is drawn again and again in the same place."""

    def __init__(self, out: TextIO, ink: Ink) -> None:
        super().__init__(out, ink)
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
        lines = frame(contest, clock(), self._events, width - 1, self._ink)
        start = f"\x1b[{self._drawn}F" if self._drawn else ""
        if width != self._width:  # the old lines may have been wrapped
            self._width, start = width, _CLEAR_ALL
        body = "".join(self._ink.line(line, width - 1) + _CLEAR_LINE + "\n" for line in lines)
        self._out.write(start + body + _CLEAR_BELOW)
        self._out.flush()
        self._drawn = len(lines)

    def close(self) -> None:
        """Give the cursor back."""
        self._out.write(_SHOW_CURSOR)
        self._out.flush()


def choose(out: TextIO = sys.stdout) -> Screen:
    """The best that `out` can do. `NO_COLOR` is respected."""
    size = shutil.get_terminal_size()
    terminal = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    ink = Ink(colour=terminal and not os.environ.get("NO_COLOR"), unicode=_writes_unicode(out))
    if terminal and size.columns >= NARROWEST and size.lines >= LEAST_HEIGHT:
        return Live(out, ink)
    return Plain(out, ink)


def _writes_unicode(out: TextIO) -> bool:
    try:
        "─█✗░┴▏·".encode(out.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _width() -> int:
    return shutil.get_terminal_size().columns
