"""Mutual exclusion: no two leases on one name are valid at the same instant."""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from holdfast.lab.history import Finding, History, Hold, seconds

TWO_HOLDERS = "two holders at once"


class Believed(NamedTuple):
    """A stretch of time in which a lease was valid."""

    since: float
    until: float
    lease: Hold


def overlaps(history: History) -> list[Finding]:
    """Every stretch that began while another lease on the same name was valid.

    Of several others it names the one that was valid for longest. A lease that ends in the instant
    in which the next begins does not overlap it.
    """
    return [
        finding for name, leases in history.leases().items() for finding in _sweep(name, leases)
    ]


def _sweep(name: str, leases: list[Hold]) -> Iterator[Finding]:
    stretches = [Believed(*span, lease) for lease in leases for span in lease.spans]
    stretches.sort(key=lambda each: (each.since, each.until))
    longest: Believed | None = None
    for each in stretches:
        if longest is not None and each.since < longest.until:
            yield _overlap(name, longest, each)
        if longest is None or each.until > longest.until:
            longest = each


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
