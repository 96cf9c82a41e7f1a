"""Which locks are held, given what each node of a quorum reports."""

from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.core.fanout import FanOut, Rounds
from holdfast.core.messages import Failed, List, Listing, Request, Seen

SILENT = Failed.at("node", "did not answer in time")


def look(
    request: Request, nodes: Sequence[int], quorum: int, clock: Callable[[], float], until: float
) -> Rounds[tuple[FanOut, Listing | None]]:
    """The locks for which a quorum of nodes report the same holder; None if no quorum answered.
    Gives the answers of the nodes, too."""
    request_timeout = until - clock()
    while True:
        fan_out = FanOut((request,), nodes, clock() + request_timeout)
        yield fan_out
        if type(request) is List:
            yield from _search_on(request, fan_out, clock, request_timeout)
        received = [answers[0] for answers in fan_out.answers.values()]
        listings = [answer.leases for answer in received if type(answer) is Listing]
        if len(listings) < quorum:
            return fan_out, None
        if type(request) is not List:
            return fan_out, Listing(agreed_on(listings, quorum))
        # A node that filled its page has reported nothing of what comes after it.
        full = [leases[-1].key for leases in listings if len(leases) >= request.limit]
        found = agreed_on(listings, quorum, up_to=min(full, default=""))
        if found or not full:
            return fan_out, Listing(found)
        request = List(request.prefix, min(full), request.limit)


def _search_on(
    request: List, fan_out: FanOut, clock: Callable[[], float], request_timeout: float
) -> Rounds[None]:
    """Ask the nodes whose search is not over until it is."""
    for node in fan_out.nodes:
        while type(answer := fan_out.answer_of(node)) is Listing and answer.cursor:
            asking = List(request.prefix, request.after, request.limit, answer.cursor)
            following = FanOut((asking,), (node,), clock() + request_timeout)
            yield following
            fan_out.received(node, following.answers.get(node, (SILENT,)))


def agreed_on(
    listings: Sequence[tuple[Seen, ...]], quorum: int, *, up_to: str = ""
) -> tuple[Seen, ...]:
    """The locks for which a quorum of nodes report the same holder, or the same reader, in order;
    `up_to`: the last key to look at (default: all)."""
    reports: dict[tuple[str, int, str], list[tuple[int, float]]] = {}
    for leases in listings:
        for seen in leases:
            if not up_to or seen.key <= up_to:
                for holder, remaining in ((seen.holder, seen.remaining), *seen.others):
                    report = reports.setdefault((seen.key, seen.shares, holder), [])
                    report.append((seen.fence, remaining))
    locks: dict[tuple[str, int], list[tuple[float, str, int]]] = {}
    for (key, shares, holder), found in reports.items():
        if len(found) >= quorum:
            ends = sorted((remaining for _, remaining in found), reverse=True)[quorum - 1]
            fence = _fence([fence for fence, _ in found], quorum)
            locks.setdefault((key, shares), []).append((ends, holder, fence))
    return tuple(_seen(key, shares, locks[key, shares]) for key, shares in sorted(locks))


def _seen(key: str, shares: int, members: list[tuple[float, str, int]]) -> Seen:
    """One lock, whose first holder is the one that has it for the shortest time."""
    (remaining, holder, _), *others = sorted(members)
    fence = max(fence for _, _, fence in members)
    further = tuple((holder, remaining) for remaining, holder, _ in others)
    return Seen(key, holder, fence, remaining, None, shares, further)


def _fence(counters: Sequence[int], quorum: int) -> int:
    """The fence of a lock, from the counters beside it. A node that was repaired, or granted late,
    may have another counter: a rival may have raised it while the lock was not there."""
    fence, nodes = Counter(counters).most_common(1)[0]
    return fence if nodes >= quorum else max(counters)
