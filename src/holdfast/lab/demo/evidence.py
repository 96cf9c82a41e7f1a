"""What the workers wrote, and whether it shows what a lock promises.

A section is the time between the first and the last instant at which a worker may have been at
work, by the host's clock. A killed worker writes no end: its section lasts until the demo saw that
it was gone, or until its last sign of life, whichever is later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Section:
    """One worker's time under the lock."""

    who: str
    fence: int
    began: float
    ended: float
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Notes:
    """What one worker has written so far."""

    began: float
    fence: int
    last_alive: float
    ended: float | None


def read_notes(log: Path) -> Notes | None:
    """Read a worker's log; None if it has not begun. An unfinished last line does not count."""
    try:
        lines = [line.split() for line in log.read_text().split("\n")[:-1]]
    except FileNotFoundError:
        return None
    if not lines:
        return None
    _, began, fence = lines[0]
    last_word, last_instant, *_ = lines[-1]
    ended = float(last_instant) if last_word == "ended" else None
    return Notes(float(began), int(fence), float(last_instant), ended)


def find_faults(sections: Sequence[Section]) -> list[str]:
    """Everything that contradicts "one at a time, and fences grow"; empty if nothing does."""
    ordered = sorted(sections, key=lambda section: section.began)
    faults = []
    for place, first in enumerate(ordered):
        for second in ordered[place + 1 :]:
            if second.began < first.ended:
                both = min(first.ended, second.ended) - second.began
                faults.append(
                    f"{first.who} (fence {first.fence}) and {second.who} (fence {second.fence}) "
                    f"overlapped for {both * 1000:.1f} ms"
                )
    faults += [
        f"{second.who} got fence {second.fence} after {first.who} had {first.fence}"
        for first, second in pairwise(ordered)
        if second.fence <= first.fence
    ]
    return faults


def smallest_gap(sections: Sequence[Section]) -> float:
    """The shortest time between two sections, in seconds."""
    ordered = sorted(sections, key=lambda section: section.began)
    return min(second.began - first.ended for first, second in pairwise(ordered))
