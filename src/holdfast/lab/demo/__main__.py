"""`python -m holdfast.lab.demo`: about 12 seconds; exit code 0 if no two overlapped."""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import TextIO

from holdfast.lab.demo.contest import Contest, Plan
from holdfast.lab.demo.report import picture, verdict
from holdfast.lab.demo.turn import NAME
from holdfast.lab.demo.worker import clock
from holdfast.lab.pictures.text import ASCII, Line, painted

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
        write("\n" + picture(contest, max(NARROWEST, min(columns, WIDEST)), colour=colour))
        write_lines([[], *verdict(contest), []])
        return 1 if contest.faults() else 0


def _introduction(plan: Plan) -> list[Line]:
    contest = f"{len(plan.contenders)} processes want one lock, {plan.turns} times each, through"
    command = f"holdfast run --url sqlite:///TMP/demo.db --ttl {plan.ttl:g} {NAME} -- worker"
    return [[], [(f"  {contest}", "")], [(f"  {command}", "bold")], []]


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
