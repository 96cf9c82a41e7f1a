"""The picture: which process holds the lock and which wait. Pure: a contest in, lines out."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from holdfast.lab.demo.contest import Contest
from holdfast.lab.demo.turn import NAME, Section, Turn, smallest_gap
from holdfast.lab.pictures.text import Line, painted

_COLOURS = {"ann": "cyan", "ben": "yellow", "cyd": "magenta", "dan": "blue", "eve": "green"}
_STYLES = _COLOURS | {f"on {who}": f"on-{colour}" for who, colour in _COLOURS.items()}


@dataclass(frozen=True, slots=True)
class Ink:
    """Whether there are colours, and characters beyond ASCII."""

    colour: bool
    unicode: bool

    @property
    def waiting(self) -> str:
        """A moment of waiting."""
        return "─" if self.unicode else "-"

    @property
    def holding(self) -> str:
        """A moment under the lock."""
        return " " if self.colour else "█" if self.unicode else "#"

    @property
    def killed(self) -> str:
        """The moment of a kill."""
        return "✗" if self.unicode else "X"

    @property
    def orphaned(self) -> str:
        """A moment of a lease whose holder is dead."""
        return "░" if self.unicode else ":"

    @property
    def axis(self) -> str:
        """A moment."""
        return "─" if self.unicode else "-"

    @property
    def tick(self) -> str:
        """A moment with a number."""
        return "┴" if self.unicode else "+"

    def bar(self, part: float, width: int) -> str:
        """A bar that is full to this part."""
        if not self.unicode:
            full = round(part * width)
            return "#" * full + "." * (width - full)
        eighths = round(part * width * 8)
        full, rest = divmod(eighths, 8)
        return ("█" * full + " ▏▎▍▌▋▊▉"[rest].strip()).ljust(width, "·")

    def line(self, line: Line, width: int | None = None) -> str:
        """A line as text, cut to `width`."""
        dressed = [(piece, _dressed(styles)) for piece, styles in line]
        return painted(dressed, colour=self.colour, width=width)


def _dressed(styles: str) -> str:
    """Styles with the colours of the contenders in the place of their names."""
    if styles in _STYLES:
        return _STYLES[styles]
    return " ".join(_STYLES.get(style, style) for style in styles.split())


NARROWEST, WIDEST = 78, 110
STATE_WIDTH = 32
NAME_WIDTH = 6
EVENTS = 6
BAR = 8


def frame(contest: Contest, now: float, events: Sequence[str], width: int, ink: Ink) -> list[Line]:
    """The contest as it stands, in lines no longer than `width`."""
    chart = Chart(contest, now, min(width, WIDEST) - NAME_WIDTH - STATE_WIDTH, ink)
    lines: list[Line] = [[*_legend(ink), (f"{now - contest.began_at:9.1f} s", "bold")], []]
    for who in contest.plan.contenders:
        lines.append([(f"  {who:<{NAME_WIDTH - 2}}", who), *chart.row(who), ("  ", "")])
        lines[-1] += _state(contest, who, now, ink)
    lines += [*chart.axis(), []]
    shown = list(events)[-EVENTS:]
    lines += [[(f"  {event}", "" if event is shown[-1] else "dim")] for event in shown]
    return lines + [[] for _ in range(EVENTS - len(shown))]


def _legend(ink: Ink) -> Line:
    return [
        (f"  {ink.waiting * 3}", "dim"),
        (" waits   ", ""),
        (f"{ink.holding}4{ink.holding}", "on ann"),
        (" holds, under that fence   ", ""),
        (ink.killed + ink.orphaned * 2, "red"),
        (" killed; lease ends", ""),
    ]


@dataclass(frozen=True, slots=True)
class Chart:
    """Time runs to the right: so many columns for about as long as the contest takes."""

    contest: Contest
    now: float
    width: int
    ink: Ink

    @property
    def _column(self) -> float:
        """Seconds to a column."""
        longest = max(self.contest.plan.length, self.now - self.contest.began_at)
        return longest / self.width

    def _columns(self, began: float, ended: float) -> range:
        zero, step = self.contest.began_at, self._column
        last = min(self.now, ended) - zero
        return range(max(0, round((began - zero) / step)), min(self.width, round(last / step)))

    def row(self, who: str) -> Line:
        """One contender's waits and sections."""
        ink = self.ink
        cells = [(" ", "")] * self.width
        for turn in (turn for turn in self.contest.turns if turn.who == who):
            section = turn.section()
            for place in self._columns(turn.came_at, section.began if section else turn.gone_at):
                cells[place] = (ink.waiting, "dim")
            if section is None:
                continue
            held = self._columns(section.began, section.ended)
            for place in held:
                cells[place] = (ink.holding, f"on {who}")
            self._write_fence(cells, held, section)
            if turn.killed:
                self._mark_death(cells, turn)
        return cells

    def _write_fence(self, cells: Line, held: range, section: Section) -> None:
        text = str(section.fence)
        first = held.start + (len(held) - len(text)) // 2
        if len(held) >= len(text):
            for place, character in enumerate(text, first):
                cells[place] = (character, f"on {section.who}")

    def _mark_death(self, cells: Line, turn: Turn) -> None:
        for place in self._columns(turn.killed_at, turn.lease_ends_at):
            cells[place] = (self.ink.orphaned, "red")
        place = self._columns(turn.killed_at, inf).start
        if place < self.width:
            cells[place] = (self.ink.killed, "red")

    def axis(self) -> list[Line]:
        """The seconds."""
        line, numbers = [self.ink.axis] * self.width, [" "] * (self.width + 4)
        second = 0
        while (place := round(second / self._column)) < self.width:
            line[place] = self.ink.tick
            numbers[place : place + len(str(second))] = str(second)
            second += 2
        margin = " " * NAME_WIDTH
        return [
            [(margin + "".join(line), "dim")],
            [(margin + "".join(numbers).rstrip() + " s", "dim")],
        ]


def _state(contest: Contest, who: str, now: float, ink: Ink) -> Line:
    turn = contest.current(who)
    if turn is None:
        return []
    if turn.killed:
        left = turn.lease_ends_at - now
        if left > 0 and contest.take_over() == inf:
            return [("killed ", "red"), *_bar(left, contest.plan.ttl, "red", ink)]
        return [("killed", "red")]
    if turn.over:
        return [(f"had {turn.number} of {contest.plan.turns} turns", "dim")]
    notes = turn.notes
    if notes is None:
        return [(f"waits {now - turn.came_at:4.1f} s", "")]
    left = turn.lease_ends_at - now
    return [(f"fence {notes.fence:<3}", f"bold {who}"), *_bar(left, contest.plan.ttl, who, ink)]


def _bar(left: float, ttl: float, style: str, ink: Ink) -> Line:
    """How much of its ttl a lease has left."""
    left = min(max(0.0, left), ttl)
    return [(ink.bar(left / ttl, BAR), style), (f" {left:.1f} s left", "dim")]


def table(contest: Contest) -> list[Line]:
    """Every section: who, fence, from, to, and how it ended."""
    lines: list[Line] = [
        [("  who    fence      from        to     held  how it ended", "dim")],
    ]
    zero = contest.began_at
    for section in contest.sections():
        began, ended = section.began - zero, section.ended - zero
        row = f"{section.fence:5}  {began:6.3f} s  {ended:6.3f} s  {ended - began:5.3f} s  "
        lines.append([(f"  {section.who:<7}", section.who), (row, ""), *_ending(contest, section)])
    return lines


def _ending(contest: Contest, section: Section) -> Line:
    victim = contest.victim
    if not section.killed or victim is None:
        return [("done", "dim")]
    until = victim.lease_ends_at - contest.began_at
    return [("killed", "red"), (f"; lease until {until:.3f} s", "dim")]


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
    return [
        [
            ("  no two overlapped", "bold green"),
            (f": {count} sections of {NAME!r}, {count * (count - 1) // 2} pairs compared;", ""),
        ],
        [(f"  the closest two are {gap:.1f} ms apart.", "")],
        [("  fences grew", "bold green"), (f": {fences}", "")],
        [
            ("  the killed holder blocked the others", "bold green"),
            (f" for {took:.2f} s, its ttl being {ttl:g} s.", ""),
        ],
    ]
