"""Honest loss: a client is told of its loss by the deadline, unless it is paused or crashed."""

from collections.abc import Iterator
from math import inf

from holdfast.lab.history import Finding, History, Kind
from holdfast.lab.hold import Hold, Span, seconds


class Absences:
    """The pauses and crashes of everybody."""

    def __init__(self, history: History) -> None:
        self._pauses: dict[str, list[Span]] = {}
        self._crashes: dict[str, list[float]] = {}
        asleep: dict[str, float] = {}
        for event in history.of(Kind.PAUSED, Kind.RESUMED, Kind.CRASHED, Kind.STARTED):
            if event.kind is Kind.PAUSED:
                asleep.setdefault(event.who, event.at)
            elif event.who in asleep:
                self._pauses.setdefault(event.who, []).append((asleep.pop(event.who), event.at))
            if event.kind is Kind.CRASHED:
                self._crashes.setdefault(event.who, []).append(event.at)
        for who, since in asleep.items():
            self._pauses.setdefault(who, []).append((since, inf))

    def crash(self, who: str, since: float) -> float:
        """When it crashed next: the end of all that it had or wanted then; `inf`: it did not."""
        return next((at for at in self._crashes.get(who, ()) if at >= since), inf)

    def due(self, who: str, expired: float, tolerance: float) -> float:
        """By when it must have been told what is true since `expired`.

        A pause within the time for it gives it that time anew, from when it goes on.
        """
        due = expired + tolerance
        for since, until in self._pauses.get(who, ()):
            if since <= due:
                due = max(due, until + tolerance)
        return due

    def present(self, who: str, span: Span) -> Iterator[Span]:
        """What is left of a span without its pauses. An instant is a span, too."""
        begin, end = span
        for since, until in self._pauses.get(who, ()):
            if since < end and until > begin:
                if begin < since:
                    yield begin, since
                begin = until
        if begin <= end:
            yield begin, end


RULE = "told of a loss by the deadline"


def unnotified(history: History, tolerance: float, until: float | None = None) -> list[Finding]:
    """Every lease that ran out without its holder knowing it, `tolerance` seconds later.

    Who was paused gets that time anew when it goes on; who crashed needs to know nothing any more.
    What would have been due after the run was over (at `until`, default: with its last event) is
    not judged. Who lets go of a lock, or extends it, a little late has been told a little late.
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
            yield _finding(lease, expired, renewed)
            return


def _finding(lease: Hold, expired: float, renewed: float) -> Finding:
    told = min(renewed, lease.given_up)
    if told == inf:
        what = "was never told"
    elif told == lease.lost:
        what = f"was told at {seconds(told)}"
    elif told == renewed:
        what = f"extended it at {seconds(told)}"
    else:
        what = f"went on until {seconds(told)}"
    text = f"{lease} had {lease.name} until {seconds(expired)}, and {what}"
    return Finding(RULE, text, expired, told, (lease.who,))
