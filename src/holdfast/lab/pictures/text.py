"""What a terminal shows of a history: its events, a line for each, and the timeline, which `svg.py`
makes a file of."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from holdfast.lab.history import Event, Finding, History, seconds
from holdfast.lab.pictures.chart import BROKEN, EXTENDED, VEILED, Axis, Chart, Line
from holdfast.lab.pictures.lanes import Lane, Look, Symbol, lanes_of
from holdfast.lab.pictures.sentences import Facts, describe, describe_findings

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


@dataclass(frozen=True, slots=True)
class Terminal:
    """How wide the lines are, and whether there are colours."""

    width: int
    colour: bool

    def styled(self, text: str, style: str) -> str:
        return painted([(text, style)], colour=self.colour)

    def filled(self, text: str, first: str = "  ", rest: str = "  ") -> str:
        return textwrap.fill(
            text, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )


class Steps:
    """What happens in one run, a line for each event."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._history = History()

    def line(self, event: Event) -> str:
        """What has just happened; in red, if a client did it without a valid lease."""
        self._history.add(event)
        facts = Facts(self._history)
        when = f"{seconds(event.at):>9}  "
        line = self._terminal.filled(describe(event, facts), when, " " * len(when))
        return self._terminal.styled(line, "red") if facts.is_stray(event) else line


_SHORTEST = 0.001
"""Seconds that a picture shows at least."""
_BEYOND = 0.3
"""How much longer than its events a picture may be, to show when the last leases end."""
_MARGIN = 0.02
"""What is left free at either end, as a part of all."""


def as_text(
    history: History,
    *,
    findings: Sequence[Finding] = (),
    width: int = 100,
    colour: bool = False,
) -> str:
    """The picture of a history."""
    lines = drawn(history, findings, width)
    return "".join(painted(line, colour=colour).rstrip() + "\n" for line in lines)


def drawn(history: History, findings: Sequence[Finding], width: int) -> list[Line]:
    """The picture, its legend and what was found, in lines of characters."""
    lanes = lanes_of(history)
    gutter = max((len(lane.name) for lane in lanes), default=0) + 2
    first, last = _extent(history, findings)
    margin = _MARGIN * (last - first)
    axis = Axis(first - margin, last + margin, width - gutter)
    chart = Chart(lanes, findings, axis, gutter)
    lines = [*chart.lines(), *_legend(lanes, width, broken=bool(findings))]
    below: list[Line] = []
    for finding in describe_findings(findings, Facts(history).fences):
        wrapped = textwrap.wrap(finding, width, initial_indent="✗ ", subsequent_indent="  ")
        below += [[(text, "red")] for text in wrapped]
    if chart.left_out:
        below.append([(f"{chart.left_out} more marks found no room.", "dim")])
    return [*lines, *([[], *below] if below else [])]


def _extent(history: History, findings: Sequence[Finding]) -> tuple[float, float]:
    """The first and the last instant worth showing."""
    instants = [event.at for event in history] + [finding.at for finding in findings]
    instants += [finding.until for finding in findings if isfinite(finding.until)]
    first, last = min(instants, default=0.0), max(instants, default=0.0)
    ends = (hold.ended for hold in history.holds() if hold.granted is not None)
    latest = max((end for end in ends if isfinite(end)), default=last)
    return first, max(last, min(latest, last + _BEYOND * (last - first)), first + _SHORTEST)


NO_BREAK = "\N{NO-BREAK SPACE}"


def _legend(lanes: Sequence[Lane], width: int, *, broken: bool) -> list[Line]:
    """What the characters mean that occur."""
    spans = [span for lane in lanes for span in lane.spans]
    looks = {span.look for span in spans}
    marked = {mark.symbol for lane in lanes for mark in lane.marks}
    shown: dict[str, str] = {}
    for look in (look for look in Look if look in looks):
        over_a_hold = VEILED if look in (Look.PAUSED, Look.DOWN) else look.character
        shown[look.meaning] = look.character + over_a_hold
    for symbol in (symbol for symbol in Symbol if symbol in marked):
        shown.setdefault(symbol.meaning, symbol.character)
    if any(span.since < notch <= span.until for span in spans for notch in span.notches):
        shown["extended"] = EXTENDED
    if broken:
        shown["went wrong"] = f"▼{BROKEN}"
    unbroken = (
        f"{character} {meaning}".replace(" ", NO_BREAK) for meaning, character in shown.items()
    )
    rows = textwrap.wrap("   ".join(unbroken), width)
    return [[], *([(row.replace(NO_BREAK, " "), "dim")] for row in rows)]
