"""Progress: once the faults are over, a lock that is free and wanted is granted to somebody."""

from collections import deque
from collections.abc import Iterable, Iterator
from math import inf

from holdfast.lab.checkers.loss import Absences
from holdfast.lab.history import Finding, History, Kind
from holdfast.lab.hold import Hold, Span, seconds

RULE = "granted to somebody once the faults are over"


def starvation(history: History, bound: float, until: float | None = None) -> list[Finding]:
    """Every name that was free and wanted for longer than `bound` seconds, and nobody got it.

    Counted from when the last fault was over; a history that does not say so is not judged. A name
    is free when nobody's lease on it is valid, so a crashed holder has what is left of its time. It
    is wanted from the first request in a gap to the last, however many of them are refused. The run
    was over at `until`; default: with its last event.
    """
    healed = [event.at for event in history.of(Kind.HEALED) if not event.peer]
    if not healed:
        return []
    over = history.end if until is None else until
    absences = Absences(history)
    leases = history.leases()
    wanted: dict[str, list[Hold]] = {}
    for hold in history.holds():
        wanted.setdefault(hold.name, []).append(hold)
    findings: list[Finding] = []
    for name, requests in wanted.items():
        gaps = _gaps(leases.get(name, []), (healed[-1], over))
        wants = sorted(want for hold in requests for want in _wants(hold, absences))
        findings += (
            _finding(name, span, requests)
            for span in _unmet(wants, gaps)
            if span[1] - span[0] > bound
        )
    return findings


def _gaps(leases: list[Hold], judged: Span) -> Iterator[Span]:
    """When nobody had it."""
    free_since, over = judged
    for since, until in sorted(span for lease in leases for span in lease.spans):
        if since > free_since:
            yield free_since, since
        free_since = max(free_since, until)
    if free_since < over:
        yield free_since, over


def _wants(hold: Hold, absences: Absences) -> Iterator[Span]:
    """When somebody was there and waited for an answer."""
    crash = absences.crash(hold.who, hold.asked)
    yield from absences.present(hold.who, (hold.asked, min(hold.answered, crash)))


def _unmet(wants: list[Span], gaps: Iterable[Span]) -> Iterator[Span]:
    """Of each gap, the part from the first want to the last. Both come in the order of time."""
    ahead = deque(wants)
    last = -inf
    for free_since, free_until in gaps:
        first = free_since if last > free_since else inf
        while ahead and ahead[0][0] < free_until:
            since, until = ahead.popleft()
            if until > free_since:
                first = min(first, max(since, free_since))
            last = max(last, until)
        if first < inf:
            yield first, min(last, free_until)


def _finding(name: str, span: Span, requests: list[Hold]) -> Finding:
    since, until = span
    who = {hold.who for hold in requests if hold.asked < until and hold.answered > since}
    text = (
        f"{name} was free and wanted from {seconds(since)} to {seconds(until)}, "
        f"and none of {', '.join(sorted(who))} was granted it"
    )
    return Finding(RULE, text, since, until, tuple(sorted(who)))
