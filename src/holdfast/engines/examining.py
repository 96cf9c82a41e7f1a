"""What the examination of every server has in common: round trips, clocks, versions.

An engine sees its servers on connections of its own, side by side. `nodes` gives their figures, and
`examine` judges the same figures, and what else there is to be said of them, as findings.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from statistics import median, quantiles
from typing import TypeVar

from holdfast.core.records import Finding, NodeInfo

S = TypeVar("S")
R = TypeVar("R")

ROUNDS = 20
"""How often a server is asked for its round trip."""

FEW = 5
"""How often it is asked for its figures."""

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
    what = f"it answers in {usual * 1000:.2f} ms (95 % of answers within {slow * 1000:.2f} ms)"
    if slow < limit / 2:
        return Finding("note", where, what, "", "")
    return Finding(
        "critical" if slow > limit else "warning",
        where,
        what,
        f"a node that has not answered after {limit * 1000:.0f} ms is taken to be down",
        "use a longer ttl (or node_timeout), or move nearer to the server",
    )


def figures(name: str, ask: Callable[[], float | None]) -> NodeInfo:
    """A server that answers. `ask`: asks it for the time, or for anything if it does not tell."""
    trip, offset = inf, None
    for _ in range(FEW):
        sent_at, began = time.time(), time.perf_counter()
        theirs = ask()
        took = time.perf_counter() - began
        if took < trip:
            trip, offset = took, None if theirs is None else theirs - (sent_at + took / 2)
    uncertainty = None if offset is None else trip / 2
    return NodeInfo(name, round_trip=trip, offset=offset, uncertainty=uncertainty)


def silent(name: str, error: Exception) -> NodeInfo:
    """A server that does not answer, and why."""
    return NodeInfo(name, str(error) or type(error).__name__)


def side_by_side(see: Callable[[S], R], servers: Sequence[S]) -> list[R]:
    """See all servers at once: one that hangs does not delay the others."""
    with ThreadPoolExecutor(max(1, len(servers)), "holdfast nodes") as threads:
        return list(threads.map(see, servers))


def with_margin(nodes: Sequence[NodeInfo], votes: int, voters: int) -> list[NodeInfo]:
    """The servers, with how many of them may fail. `votes`: how many can vote now. `voters`: how
    many there are; 0 if that is not known."""
    if not voters and not any(node.answers for node in nodes):
        voters = len(nodes)
    if not 1 < voters <= len(nodes):  # the URL does not name all of them
        return list(nodes)
    return [replace(node, margin=votes - majority(voters)) for node in nodes]


def majority(voters: int) -> int:
    """How many servers are a majority."""
    return voters // 2 + 1


def judge_margin(where: str, node: NodeInfo, voters: int) -> Iterator[Finding]:
    """Of the quorum or the cluster that a server is one of."""
    if node.margin is None or node.margin > 0:
        return
    votes = node.margin + majority(voters)
    yield Finding(
        "critical" if node.margin < 0 else "warning",
        where,
        f"{votes} of {voters} servers have a vote now: "
        f"{f'{-node.margin} too few' if node.margin else 'none to spare'}",
        "a lock needs a majority of all servers",
        "repair the servers that do not answer, and wait for those that have restarted",
    )


def judge_offset(node: NodeInfo, why: str) -> Iterator[Finding]:
    """Against the clock of this host."""
    if node.offset is None or node.uncertainty is None:
        return
    if abs(node.offset) - node.uncertainty > CLOCK_TOLERANCE:
        yield Finding(
            "warning",
            node.name,
            f"its clock is {abs(node.offset):.1f} s {'ahead of' if node.offset > 0 else 'behind'} "
            f"this host's (give or take {node.uncertainty:.3f} s)",
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
