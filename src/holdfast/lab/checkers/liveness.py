"""Liveness: a holder learns of its loss, and a free lock is granted."""

from collections.abc import Iterator
from math import inf

from holdfast.lab.history import Finding, History, Hold, Kind, Span, seconds


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


LATE_LOSS = "loss noticed too late"
NOT_GRANTED = "free lock granted to no one"


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
