"""`python -m holdfast.lab.demo`: about 12 seconds; exit code 0 if no two overlapped."""

import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from holdfast.lab.demo.contest import Contest, Plan
from holdfast.lab.demo.screen import Plain, choose, table, verdict
from holdfast.lab.demo.turn import NAME
from holdfast.lab.pictures.text import Line

FRAME = 0.04
"""Seconds between two looks."""


def main(plan: Plan | None = None) -> int:
    """Show the contest, then what it proves; the exit code."""
    signal.signal(signal.SIGTERM, _leave)
    screen = choose()
    try:
        return show(plan or Plan(), screen)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        screen.close()


def show(plan: Plan, screen: Plain) -> int:
    """The contest on this screen. Whatever happens, no process and no file is left behind."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        screen.print(_introduction(plan))
        with Contest(plan, Path(folder), screen.tell) as contest:
            while not (contest.over or contest.timed_out):
                contest.step()
                screen.draw(contest)
                time.sleep(FRAME)
            screen.draw(contest)
        screen.print([[], *table(contest), [], *verdict(contest), []])
        return 1 if contest.faults() else 0


def _introduction(plan: Plan) -> list[Line]:
    contest = f"{len(plan.contenders)} processes want one lock, {plan.turns} times each, through"
    command = f"holdfast run --url sqlite:///TMP/demo.db --ttl {plan.ttl:g} {NAME} -- worker"
    return [[], [(f"  {contest}", "")], [(f"  {command}", "bold")], []]


def _leave(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
