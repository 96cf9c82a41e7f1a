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

from collections.abc import Collection, Iterator
from math import inf
from typing import NamedTuple

from holdfast.lab.history import Absences, Event, Finding, History, Hold, Kind, Span, seconds

TWO_HOLDERS = "two holders at once"
NOT_GREATER = "fence not greater than before"
UNCHECKED_WRITE = "stale write accepted (fence not checked)"
LATE_LOSS = "loss noticed too late"
NOT_GRANTED = "free lock granted to no one"


def judge(
    history: History,
    *,
    tolerance: float,
    bound: float,
    until: float | None = None,
    unchecked: Collection[str] = (),
) -> list[Finding]:
    """Everything that is wrong with a run, in the order of time.

    `tolerance` is how late a loss may be noticed, `bound` how long a lock may stay free while it is
    wanted, in seconds. The run was over at `until`; default: with its last event. The registers
    that are `unchecked` compare no fences: stale writes to them are findings, too.
    """
    over = history.end if until is None else until
    findings = [
        *overlaps(history),
        *disorder(history),
        *unnotified(history, tolerance, over),
        *starvation(history, bound, over),
        *corruption(history, unchecked),
    ]
    return sorted(findings, key=lambda finding: finding.at)


class Believed(NamedTuple):
    """A stretch of time in which a lease was valid."""

    since: float
    until: float
    lease: Hold


def overlaps(history: History, broken_at: float = inf) -> list[Finding]:
    """Every stretch that began while another lease on the same name was valid, which it may not
    share the lock with.

    Of several others it names the one that was valid for longest. A lease that ends in the instant
    in which the next begins does not overlap it. Nor is judged what began after an operator first
    broke a lock: its holder learns of that later.
    """
    return [
        finding
        for name, leases in history.leases().items()
        for finding in _sweep(name, leases)
        if finding.at < broken_at
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


def disorder(history: History, broken_at: float = inf) -> list[Finding]:
    """Every grant whose fence is not greater than that of each earlier grant of the name; if it is
    shared, of each earlier one that was not. Once an operator has broken a lock, a valid lease may
    not be on the engine any more, which is no proof of the order then."""
    findings: list[Finding] = []
    for name, leases in history.leases().items():
        for number, later in enumerate(leases):
            wrong = [each for each in leases[:number] if _is_wrong(each, later, broken_at)]
            if wrong:
                findings.append(_not_greater(name, max(wrong, key=_fence), later))
    return findings


def _fence(lease: Hold) -> int:
    return lease.fence or 0


def _is_wrong(before: Hold, later: Hold, broken_at: float) -> bool:
    """Whether the fence of a lease that is known of later must be greater, and is not."""
    if before.fence is None or later.fence is None or before.fence < later.fence:
        return False
    if before.shares != 1 and later.shares != 1:
        return False
    return before.fence == later.fence or _is_surely_before(before, later, broken_at)


def _is_surely_before(before: Hold, later: Hold, broken_at: float) -> bool:
    known, known_later = before.at(Kind.GRANTED), later.at(Kind.GRANTED)
    valid = known < before.ended and known_later < min(later.ended, broken_at)
    return known < later.asked or (valid and before.ended <= known_later)


def _not_greater(name: str, before: Hold, later: Hold) -> Finding:
    at, before_at = later.at(Kind.GRANTED), before.at(Kind.GRANTED)
    text = (
        f"{later.who} was granted {name} with fence {later.fence} at {seconds(at)}, "
        f"although {before.who} had been granted fence {before.fence} before, "
        f"at {seconds(before_at)}"
    )
    return Finding(NOT_GREATER, text, before_at, at, (before.who, later.who))


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


def unnotified(history: History, tolerance: float, over: float) -> list[Finding]:
    """Every lease that expired without its holder noticing within `tolerance` seconds.

    A client that was paused gets that time anew when it resumes; a crashed one is not judged.
    What would have been due after the run was `over` is not judged. A release or an extension that
    comes a little late counts as a late notice.
    """
    absences, findings = Absences(history), list[Finding]()
    for lease in history.holds():
        for since, deadline, renewed in lease.terms:
            expired = max(since, deadline)  # it may have run out before it was granted
            due = absences.due(lease.who, expired, tolerance)
            crash = absences.crash(lease.who, since)
            if due < min(renewed, lease.given_up, crash, over):
                findings.append(_late_loss(lease, expired, renewed))
                break  # what follows is no news
    return findings


def _late_loss(lease: Hold, expired: float, renewed: float) -> Finding:
    noticed = min(renewed, lease.given_up)
    if noticed == inf:
        what = "never learned of it"
    elif noticed == lease.at(Kind.LOST):
        what = f"learned of it at {seconds(noticed)}"
    elif noticed == renewed:
        what = f"extended it at {seconds(noticed)}"
    else:
        what = f"went on until {seconds(noticed)}"
    text = f"{lease} had {lease.name} until {seconds(expired)}, and {what}"
    return Finding(LATE_LOSS, text, expired, noticed, (lease.who,))


def starvation(history: History, bound: float, over: float) -> list[Finding]:
    """Every request that was not granted a lock which was free for longer than `bound` seconds.

    Counted from when the last fault was over; a history without that event is not judged. A lock
    is free when no lease on it is valid, so a crashed holder keeps what is left of its time.
    """
    healed = [event.at for event in history.of(Kind.HEALED) if not event.peer]
    if not healed:
        return []
    absences, leases = Absences(history), history.leases()
    findings: list[Finding] = []
    for hold in history.holds():
        wanted_until = min(hold.answered, absences.crash(hold.who, hold.asked), over)
        wanted = max(hold.asked, healed[-1]), wanted_until
        for since, end in _gaps(leases.get(hold.name, []), wanted):
            if end - since > bound:
                text = (
                    f"{hold.name} was free from {seconds(since)} to {seconds(end)}, "
                    f"and {hold.who} wanted it, and was not granted it"
                )
                findings.append(Finding(NOT_GRANTED, text, since, end, (hold.who,)))
    return findings


def _gaps(leases: list[Hold], judged: Span) -> Iterator[Span]:
    """When it was free."""
    free_since, over = judged
    for since, until in sorted(span for lease in leases for span in lease.spans):
        yield free_since, min(since, over)
        free_since = max(free_since, until)
    yield free_since, over
