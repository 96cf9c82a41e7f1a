"""What the examination of every server has in common: round trips, clocks, versions.

An engine's `examine` talks to its servers plainly, on connections of its own, and yields findings.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median, quantiles

from holdfast.core.records import Finding

ROUNDS = 20
"""How often a server is asked for its round trip."""

NO_ANSWER = "it does not answer"
"""What is found of a server then, and why."""

TIMEOUT = 3.0
"""Seconds that a server has for an answer."""

CLOCK_TOLERANCE = 1.0
"""Seconds that two clocks may differ by before it is worth a word."""


def round_trips(ask: Callable[[], object]) -> list[float]:
    """How long a server takes to answer, in seconds."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        ask()
        found.append(time.perf_counter() - began)
    return found


def judge_round_trips(where: str, found: Sequence[float], limit: float) -> Finding:
    """`limit`: how long a node may take to answer before it is given up."""
    usual, slow = median(found), quantiles(found, n=20)[-1]
    what = f"it answers in {usual * 1000:.2f} ms, 19 times of 20 within {slow * 1000:.2f} ms"
    if slow < limit / 2:
        return Finding("note", where, what, "", "")
    return Finding(
        "critical" if slow > limit else "warning",
        where,
        what,
        f"a node that has not answered after {limit * 1000:.0f} ms is taken to be down",
        "use a longer ttl (or node_timeout), or move nearer to the server",
    )


def offset_of(read_clock: Callable[[], float]) -> tuple[float, float]:
    """By how many seconds a server's clock is ahead of this host's, and how uncertain that is."""
    best = (0.0, float("inf"))
    for _ in range(5):
        before = time.time()
        theirs = read_clock()
        after = time.time()
        if (after - before) / 2 < best[1]:
            best = theirs - (before + after) / 2, (after - before) / 2
    return best


def judge_offset(where: str, offset: float, uncertainty: float, why: str) -> Iterator[Finding]:
    """Against the clock of this host."""
    if abs(offset) - uncertainty > CLOCK_TOLERANCE:
        yield Finding(
            "warning",
            where,
            f"its clock is {abs(offset):.1f} s {'ahead of' if offset > 0 else 'behind'} this "
            f"host's (give or take {uncertainty:.3f} s)",
            why,
            "synchronise the clocks (chrony, systemd-timesyncd)",
        )


def judge_version(where: str, text: str, oldest: str, newest: str) -> Iterator[Finding]:
    """Against the versions that the tests run with."""
    version = numbers(text)
    if version < numbers(oldest):
        yield Finding(
            "warning",
            where,
            f"its version is {text}",
            f"the oldest that holdfast was tried with is {oldest}",
            "upgrade the server",
        )
    elif version[:1] > numbers(newest)[:1]:
        yield Finding(
            "note",
            where,
            f"its version is {text}",
            f"the newest that holdfast was tried with is {newest}",
            "",
        )


def numbers(version: str) -> tuple[int, ...]:
    """
    >>> numbers("10.11.6-MariaDB-0+deb12u1")
    (10, 11, 6)
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def unreachable(where: str, error: object, *, others: bool = False) -> Finding:
    """A server that does not answer. `others`: whether there are more."""
    return Finding(
        "warning" if others else "critical",
        where,
        f"{NO_ANSWER}: {error}",
        "the others must do without it"
        if others
        else "no lock can be acquired without it, and held ones are lost",
        "look whether it runs, and at the address, the network and the login",
    )
