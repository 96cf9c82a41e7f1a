"""Safety: no two leases on one name are valid at the same instant, unless they share it, and then
no more than may; and a later grant has a greater fence, unless both are shared.

Clients learn of their grants late, and not in the order in which the engine made them. So a grant
is surely the earlier of two

1. if its client knew of it before the other was asked for, or
2. if both were valid when their clients learned of them, and it had ended by the time of the other.

(A lease that is valid is its holder's on the engine, too: what follows its end was granted later.)
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from math import inf
from operator import le, lt
from typing import NamedTuple

from holdfast.lab.history import Event, Finding, History, Hold, Kind, seconds

TWO_HOLDERS = "two holders at once"
NOT_GREATER = "fence not greater than before"
UNCHECKED_WRITE = "stale write accepted (fence not checked)"


class Believed(NamedTuple):
    """A stretch of time in which a lease was valid."""

    since: float
    until: float
    lease: Hold


def overlaps(history: History) -> list[Finding]:
    """Every stretch that began while another lease on the same name was valid, which it may not
    share the lock with.

    Of several others it names the one that was valid for longest. A lease that ends in the instant
    in which the next begins does not overlap it.
    """
    return [
        finding for name, leases in history.leases().items() for finding in _sweep(name, leases)
    ]


def _sweep(name: str, leases: list[Hold]) -> Iterator[Finding]:
    stretches = [Believed(*span, lease) for lease in leases for span in lease.spans]
    stretches.sort(key=lambda each: (each.since, each.until))
    valid: list[Believed] = []
    for each in stretches:
        valid = [other for other in valid if each.since < other.until]
        if in_the_way := _in_the_way(each, valid):
            yield _overlap(name, max(in_the_way, key=lambda other: other.until), each)
        valid.append(each)


def _in_the_way(one: Believed, others: list[Believed]) -> list[Believed]:
    """Those that it may not be valid together with."""
    shares = one.lease.shares
    if any(other.lease.shares != shares for other in others):
        return [other for other in others if other.lease.shares != shares]
    return others if shares and len(others) >= shares else []


def _overlap(name: str, one: Believed, other: Believed) -> Finding:
    got = "was granted" if other.since == other.lease.granted else "went on with"
    fence = "" if other.lease.fence is None else f" (fence {other.lease.fence})"
    valid = "valid forever" if one.until == inf else f"valid until {seconds(one.until)}"
    text = (
        f"{other.lease.who} {got} {name}{fence} at {seconds(other.since)} "
        f"while {one.lease} was {valid}"
    )
    who = (one.lease.who, other.lease.who)
    return Finding(TWO_HOLDERS, text, other.since, min(one.until, other.until), who)


class Grant(NamedTuple):
    """A lease that has a fence."""

    fence: int
    who: str
    asked: float
    known: float
    ended: float
    valid: bool
    """Whether it was when its holder learned of it."""
    shared: bool


def disorder(history: History) -> list[Finding]:
    """Every grant whose fence is not greater than that of each earlier grant of the name; if it is
    shared, of each earlier one that was not."""
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
            known, ended = lease.window
            shared = lease.shares != 1
            yield Grant(lease.fence, lease.who, lease.asked, known, ended, known < ended, shared)


def _repeated(grants: list[Grant]) -> Iterator[tuple[Grant, Grant]]:
    """Each grant with the first that has the same fence, unless both are shared."""
    first: dict[int, Grant] = {}
    for grant in grants:
        before = first.setdefault(grant.fence, grant)
        if before is not grant and not (before.shared and grant.shared):
            yield before, grant


def _inverted(grants: list[Grant]) -> Iterator[tuple[Grant, Grant]]:
    """Each grant with the greatest fence before it, if that is greater; for either reason."""
    valid = [grant for grant in grants if grant.valid]
    yield from _exceeded(grants, lambda grant: grant.known, lt, lambda grant: grant.asked)
    yield from _exceeded(valid, lambda grant: grant.ended, le, lambda grant: grant.known)


def _exceeded(
    grants: list[Grant],
    end: Callable[[Grant], float],
    before: Callable[[float, float], bool],
    beginning: Callable[[Grant], float],
) -> Iterator[tuple[Grant, Grant]]:
    waiting = sorted(grants, key=end, reverse=True)
    greatest: dict[bool, Grant] = {}  # by whether shared ones count
    for grant in sorted(grants, key=beginning):
        while waiting and before(end(waiting[-1]), beginning(grant)):
            candidate = waiting.pop()
            for counts in {True, candidate.shared}:
                if counts not in greatest or candidate.fence > greatest[counts].fence:
                    greatest[counts] = candidate
        highest = greatest.get(not grant.shared)
        if highest is not None and highest.fence > grant.fence:
            yield highest, grant


def _repetition(name: str, one: Grant, other: Grant) -> Finding:
    text = (
        f"{other.who} was granted {name} with fence {other.fence} at {seconds(other.known)}, "
        f"which {one.who} had been granted at {seconds(one.known)}"
    )
    return Finding(NOT_GREATER, text, one.known, other.known, (one.who, other.who))


def _inversion(name: str, before: Grant, later: Grant) -> Finding:
    text = (
        f"{later.who} was granted {name} with fence {later.fence} at {seconds(later.known)}, "
        f"although {before.who} had been granted fence {before.fence} before, "
        f"at {seconds(before.known)}"
    )
    return Finding(NOT_GREATER, text, before.known, later.known, (before.who, later.who))


def corruption(history: History, registers: Collection[str]) -> list[Finding]:
    """Every write with a lower fence than one before that one of these registers accepted: they
    check no fences."""
    findings: list[Finding] = []
    newest: dict[str, tuple[int, Event]] = {}
    for write in history.of(Kind.WROTE):
        if write.name not in registers or write.fence is None:
            continue
        greatest, before = newest.get(write.name, (write.fence, write))
        if write.fence >= greatest:
            newest[write.name] = write.fence, write
            continue
        text = (
            f"{write.name} accepted a write by {write.who} with fence {write.fence} "
            f"at {seconds(write.at)}, after one by {before.who} with fence {greatest} "
            f"at {seconds(before.at)}"
        )
        who = (before.who, write.who)
        findings.append(Finding(UNCHECKED_WRITE, text, write.at, write.at, who))
    return findings
