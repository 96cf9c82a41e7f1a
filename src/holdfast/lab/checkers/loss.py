"""Honest loss: a holder whose time has run out knows it."""

from collections.abc import Iterator
from math import inf

from holdfast.lab.checkers.absence import Absences
from holdfast.lab.history import Finding, History
from holdfast.lab.hold import Hold, seconds

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
