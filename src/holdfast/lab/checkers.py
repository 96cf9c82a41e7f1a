"""Whether a history keeps the promises of a lock. Each checker gives what it found wrong.

| checker | the promise |
|---|---|
| `overlaps` | at any instant at most one lease on a name is valid, unless they share it |
| `disorder` | each grant has a greater fence than every earlier one, unless both are shared |
| `unnotified` | a holder learns of a loss by its deadline |
| `starvation` | once the faults are over, what is wanted and free is granted |

`corruption` is for the opposite: it shows what happens to a register that checks no fences.

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

from holdfast.lab.history import Event, Finding, History, Hold, Kind, Span, seconds

TWO_HOLDERS = "two holders at once"
NOT_GREATER = "fence not greater than before"
UNCHECKED_WRITE = "stale write accepted (fence not checked)"
LATE_LOSS = "loss noticed too late"
NOT_GRANTED = "free lock granted to no one"


def judge(
    history: History, *, tolerance: float, bound: float, until: float | None = None
) -> list[Finding]:
    """Everything that is wrong with a run, in the order of time.

    `tolerance` is how late a loss may be noticed, `bound` how long a lock may stay free while it is
    wanted, in seconds. The run was over at `until`; default: with its last event.
    """
    over = history.end if until is None else until
    findings = [
        *overlaps(history),
        *disorder(history),
        *unnotified(history, tolerance, over),
        *starvation(history, bound, over),
    ]
    return sorted(findings, key=lambda finding: finding.at)


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


class Absences:
    """The pauses and crashes of all clients."""

    def __init__(self, history: History) -> None:
        self._pauses: dict[str, list[Span]] = {}
        self._crashes: dict[str, list[float]] = {}
        for outage in history.outages():
            if outage.kind is Kind.PAUSED:
                self._pauses.setdefault(outage.who, []).append((outage.since, outage.until))
        for event in history.of(Kind.CRASHED):
            self._crashes.setdefault(event.who, []).append(event.at)

    def crash(self, who: str, since: float) -> float:
        """When it crashed next: the end of all that it had or wanted then; `inf`: it did not."""
        return next((at for at in self._crashes.get(who, ()) if at >= since), inf)

    def due(self, who: str, expired: float, tolerance: float) -> float:
        """By when it must have noticed what is true since `expired`.

        A pause within the time for it gives it that time anew, from when it goes on.
        """
        due = expired + tolerance
        for since, until in self._pauses.get(who, ()):
            if since <= due:
                due = max(due, until + tolerance)
        return due


def unnotified(history: History, tolerance: float, until: float | None = None) -> list[Finding]:
    """Every lease that expired without its holder noticing within `tolerance` seconds.

    A client that was paused gets that time anew when it resumes; a crashed one is not judged.
    What would have been due after the run was over (at `until`, default: with its last event) is
    not judged. A release or an extension that comes a little late counts as a late notice.
    """
    over = history.end if until is None else until
    absences = Absences(history)
    return [
        finding
        for leases in history.leases().values()
        for lease in leases
        for finding in _silence(lease, absences, tolerance, over)
    ]


def _silence(lease: Hold, absences: Absences, tolerance: float, over: float) -> Iterator[Finding]:
    """The first deadline that passed in silence, if there is one."""
    for since, deadline, renewed in lease.terms:
        expired = max(since, deadline)  # it may have run out before it was granted
        due = absences.due(lease.who, expired, tolerance)
        crash = absences.crash(lease.who, since)
        if due < min(renewed, lease.given_up, crash, over):
            yield _late_loss(lease, expired, renewed)
            return


def _late_loss(lease: Hold, expired: float, renewed: float) -> Finding:
    noticed = min(renewed, lease.given_up)
    if noticed == inf:
        what = "never learned of it"
    elif noticed == lease.lost:
        what = f"learned of it at {seconds(noticed)}"
    elif noticed == renewed:
        what = f"extended it at {seconds(noticed)}"
    else:
        what = f"went on until {seconds(noticed)}"
    text = f"{lease} had {lease.name} until {seconds(expired)}, and {what}"
    return Finding(LATE_LOSS, text, expired, noticed, (lease.who,))


def starvation(history: History, bound: float, until: float | None = None) -> list[Finding]:
    """Every name that was free and wanted for longer than `bound` seconds, and was not granted.

    Counted from when the last fault was over; a history without that event is not judged. A name
    is free when no lease on it is valid, so a crashed holder keeps what is left of its time. It
    is wanted from the first request in a gap to the last, however many of them are refused. The run
    was over at `until`; default: with its last event.
    """
    healed = [event.at for event in history.of(Kind.HEALED) if not event.peer]
    if not healed:
        return []
    over = history.end if until is None else until
    absences = Absences(history)
    leases = history.leases()
    wanted: dict[str, list[tuple[float, float, str]]] = {}
    for hold in history.holds():
        end = min(hold.answered, absences.crash(hold.who, hold.asked))
        wanted.setdefault(hold.name, []).append((hold.asked, end, hold.who))
    findings: list[Finding] = []
    for name, wants in wanted.items():
        for free_since, free_until in _gaps(leases.get(name, []), (healed[-1], over)):
            if free_until - free_since <= bound:
                continue
            within = [want for want in wants if want[0] < free_until and want[1] > free_since]
            first = max(free_since, min((asked for asked, _, _ in within), default=inf))
            last = min(free_until, max((end for _, end, _ in within), default=-inf))
            if last - first > bound:
                findings.append(_not_granted(name, (first, last), {who for _, _, who in within}))
    return findings


def _gaps(leases: list[Hold], judged: Span) -> Iterator[Span]:
    """When it was free."""
    free_since, over = judged
    for since, until in sorted(span for lease in leases for span in lease.spans):
        if since > free_since:
            yield free_since, since
        free_since = max(free_since, until)
    if free_since < over:
        yield free_since, over


def _not_granted(name: str, span: Span, who: set[str]) -> Finding:
    since, until = span
    text = (
        f"{name} was free and wanted from {seconds(since)} to {seconds(until)}, "
        f"and none of {', '.join(sorted(who))} was granted it"
    )
    return Finding(NOT_GRANTED, text, since, until, tuple(sorted(who)))
