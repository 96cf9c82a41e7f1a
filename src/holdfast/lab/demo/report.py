"""What the demo shows in the end: the contest as a picture, and what it proves."""

from math import inf

from holdfast.lab.demo.contest import Contest
from holdfast.lab.demo.turn import NAME, smallest_gap
from holdfast.lab.pictures import as_text
from holdfast.lab.pictures.text import Line


def picture(contest: Contest, width: int, *, colour: bool) -> str:
    """All turns on one axis of time."""
    return as_text(contest.history(), width=width, colour=colour, in_words=False)


def verdict(contest: Contest) -> list[Line]:
    """What the picture proves, or what contradicts it."""
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
