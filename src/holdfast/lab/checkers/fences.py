"""Fencing tokens: whoever gets a lock later gets the greater one.

Clients hear of their grants late, and not in the order in which they were given. So a grant is
surely the earlier of two

1. if it was heard before the other was asked for, or
2. if both were valid when they were heard, and it had ended when the other was heard.

(A lease that is valid is its holder's on the engine, too: what follows its end was granted later.)
"""

from collections.abc import Callable, Iterable, Iterator
from operator import le, lt
from typing import NamedTuple

from holdfast.lab.history import Finding, History
from holdfast.lab.hold import Hold, seconds

RULE = "fences grow"


class Grant(NamedTuple):
    """A lease that has a fence."""

    fence: int
    who: str
    asked: float
    heard: float
    ended: float
    valid: bool
    """Whether it was when its holder heard of it."""


def disorder(history: History) -> list[Finding]:
    """Every grant whose fence is not greater than that of each earlier grant of the name."""
    findings: list[Finding] = []
    for name, leases in history.leases().items():
        grants = list(_grants(leases))
        findings += (_repetition(name, *pair) for pair in _repeated(grants))
        wrong = {later: before for before, later in _inverted(grants)}
        findings += (_inversion(name, before, later) for later, before in wrong.items())
    return findings


def _grants(leases: Iterable[Hold]) -> Iterator[Grant]:
    for lease in leases:
        if lease.fence is not None:
            heard, ended = lease.window
            yield Grant(lease.fence, lease.who, lease.asked, heard, ended, heard < ended)


def _repeated(grants: list[Grant]) -> Iterator[tuple[Grant, Grant]]:
    """Each grant with the first that has the same fence."""
    first: dict[int, Grant] = {}
    for grant in grants:
        if grant.fence in first:
            yield first[grant.fence], grant
        else:
            first[grant.fence] = grant


def _inverted(grants: list[Grant]) -> Iterator[tuple[Grant, Grant]]:
    """Each grant with the greatest fence before it, if that is greater; for either rule."""
    valid = [grant for grant in grants if grant.valid]
    yield from _exceeded(grants, lambda grant: grant.heard, lt, lambda grant: grant.asked)
    yield from _exceeded(valid, lambda grant: grant.ended, le, lambda grant: grant.heard)


def _exceeded(
    grants: list[Grant],
    end: Callable[[Grant], float],
    before: Callable[[float, float], bool],
    beginning: Callable[[Grant], float],
) -> Iterator[tuple[Grant, Grant]]:
    waiting = sorted(grants, key=end, reverse=True)
    greatest: Grant | None = None
    for grant in sorted(grants, key=beginning):
        while waiting and before(end(waiting[-1]), beginning(grant)):
            candidate = waiting.pop()
            if greatest is None or candidate.fence > greatest.fence:
                greatest = candidate
        if greatest is not None and greatest.fence > grant.fence:
            yield greatest, grant


def _repetition(name: str, one: Grant, other: Grant) -> Finding:
    text = (
        f"{other.who} was granted {name} with fence {other.fence} at {seconds(other.heard)}, "
        f"which {one.who} had been granted at {seconds(one.heard)}"
    )
    return Finding(RULE, text, one.heard, other.heard, (one.who, other.who))


def _inversion(name: str, before: Grant, later: Grant) -> Finding:
    text = (
        f"{later.who} was granted {name} with fence {later.fence} at {seconds(later.heard)}, "
        f"although {before.who} had been granted fence {before.fence} before, "
        f"at {seconds(before.heard)}"
    )
    return Finding(RULE, text, before.heard, later.heard, (before.who, later.who))
