"""`python -m holdfast.lab.demo`: about 12 seconds; exit code 0 if no two overlapped."""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from types import FrameType
from typing import TextIO

from holdfast.lab.demo.contest import Contest, Plan
from holdfast.lab.demo.turn import NAME
from holdfast.lab.demo.worker import clock
from holdfast.lab.history import Span
from holdfast.lab.pictures import as_text
from holdfast.lab.pictures.sheet import Line
from holdfast.lab.pictures.text import ASCII, painted

STEP = 0.04
"""Seconds between two looks."""

NARROWEST, WIDEST = 78, 110


def main() -> int:
    """Show the contest, then what it proves; the exit code."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        return show(Plan(), sys.stdout)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def show(plan: Plan, out: TextIO) -> int:
    """The contest, a line for each event. Whatever happens, no process and no file is left."""
    began_at = clock()
    colour = out.isatty() and "NO_COLOR" not in os.environ

    def write(text: str) -> None:
        out.write(text if _writes_unicode(out) else text.translate(ASCII))
        out.flush()

    def write_lines(lines: Iterable[Line]) -> None:
        write("".join(painted(line, colour=colour) + "\n" for line in lines))

    def show_event(event: str) -> None:
        write(f"{clock() - began_at:6.2f} s  {event}\n")

    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        write_lines(_introduction(plan))
        with Contest(plan, Path(folder), show_event) as contest:
            while not (contest.over or contest.timed_out):
                contest.step()
                time.sleep(STEP)
        columns = shutil.get_terminal_size((WIDEST, 24)).columns - 1
        width = max(NARROWEST, min(columns, WIDEST))
        write("\n" + as_text(contest.history(), width=width, colour=colour, in_words=False))
        write_lines([[], *verdict(contest), []])
        return 1 if contest.faults() else 0


def _introduction(plan: Plan) -> list[Line]:
    contest = f"{len(plan.contenders)} processes want one lock, {plan.turns} times each, through"
    command = f"holdfast run --url sqlite:///TMP/demo.db --ttl {plan.ttl:g} {NAME} -- worker"
    return [[], [(f"  {contest}", "")], [(f"  {command}", "bold")], []]


def verdict(contest: Contest) -> list[Line]:
    """What the picture proves, or what contradicts it."""
    faults = contest.faults()
    if faults:
        return [[("  FAILED", "bold red")], *([(f"  - {fault}", "red")] for fault in faults)]
    turns = contest.begun()
    count = len(turns)
    gap = smallest_gap([(turn.began, turn.ended) for turn in turns]) * 1000
    fences = " < ".join(str(turn.notes.fence) for turn in turns if turn.notes)
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


def smallest_gap(spans: Sequence[Span]) -> float:
    """The shortest time between two spans, in seconds."""
    return min(later[0] - earlier[1] for earlier, later in pairwise(sorted(spans)))


def _writes_unicode(out: TextIO) -> bool:
    try:
        "─█▒†┴".encode(out.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _leave(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
