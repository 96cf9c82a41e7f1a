"""Safety: no two leases on one name are valid at the same instant, unless they share it, and then
no more than may; a later grant has a greater fence, unless both are shared; and a register accepts
no smaller one.

Clients learn of their grants late, and not in the order in which the engine made them. So a grant
is surely the earlier of two

1. if its client knew of it before the other was asked for, or
2. if both were valid when their clients learned of them, and it had ended by the time of the other.

(A lease that is valid is its holder's on the engine, too: what follows its end was granted later.)
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import inf
from operator import le, lt
from typing import NamedTuple

from holdfast.lab.history import Event, Finding, History, Hold, Kind, seconds

TWO_HOLDERS = "two holders at once"
NOT_GREATER = "fence not greater than before"
STALE_WRITE = "stale write accepted"
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


def stale_writes(history: History, unfenced: Collection[str] = ()) -> list[Finding]:
    """Every write that a register accepted with a lower fence than one before, or with none.

    The registers that are `unfenced` may accept any write.
    """
    findings: list[Finding] = []
    newest: dict[str, Event] = {}
    for write in history.of(Kind.WROTE):
        if write.name in unfenced:
            continue
        if write.fence is None:
            text = (
                f"{write.name} accepted a write by {write.who} at {seconds(write.at)} with no fence"
            )
            findings.append(Finding(STALE_WRITE, text, write.at, write.at, (write.who,)))
        elif (finding := _behind(STALE_WRITE, write, newest)) is not None:
            findings.append(finding)
    return findings


def corruption(history: History, registers: Collection[str]) -> list[Finding]:
    """Every stale write that one of these registers accepted: they check no fences.

    Its writer did not hold the lock while another client did, or it has a lower fence than one that
    was accepted before.
    """
    findings: list[Finding] = []
    newest: dict[str, Event] = {}
    holds = {hold.hold: hold for hold in history.holds()}
    for write in history.of(Kind.WROTE):
        if write.name in registers:
            behind = _behind(UNCHECKED_WRITE, write, newest)
            finding = _intrusion(write, holds) or behind
            findings += [] if finding is None else [finding]
    return findings


def _intrusion(write: Event, holds: Mapping[str, Hold]) -> Finding | None:
    own = holds.get(write.hold)
    # The instant in which it ends is its own, too: what happened first within it is not known.
    if own is None or any(since <= write.at <= until for since, until in own.spans):
        return None
    others = (each for each in holds.values() if each.name == own.name and each is not own)
    valid = [each for each in others if any(a <= write.at < b for a, b in each.spans)]
    if not valid:
        return None
    other = min(valid, key=lambda hold: hold.granted or 0.0)
    text = (
        f"{own} wrote {write.note!r} to {write.name} at {seconds(write.at)} "
        f"without having {own.name}, which {other} had"
    )
    return Finding(UNCHECKED_WRITE, text, write.at, write.at, (own.who, other.who))


def _behind(label: str, write: Event, newest: dict[str, Event]) -> Finding | None:
    """A finding if a write is older than the newest of its register; else it is the newest."""
    before = newest.get(write.name)
    if write.fence is None:
        return None
    if before is None or before.fence is None or before.fence <= write.fence:
        newest[write.name] = write
        return None
    text = (
        f"{write.name} accepted a write by {write.who} with fence {write.fence} "
        f"at {seconds(write.at)}, after one by {before.who} with fence {before.fence} "
        f"at {seconds(before.at)}"
    )
    return Finding(label, text, before.at, write.at, (before.who, write.who))
