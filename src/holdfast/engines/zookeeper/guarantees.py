"""What ZooKeeper promises, without flattery."""

from holdfast.core.records import Guarantees
from holdfast.engines.zookeeper.session import MARGIN, SHORTEST, Terms

DAY = 86400.0
LONGEST = 20
"""Ticks of the longest session, unless a server is told otherwise."""


def guarantees(tick: float | None, max_ttl: float | None) -> Guarantees:
    """Given the servers' `tickTime` and `maxSessionTimeout` in seconds, or None: then a server says
    what it grants when it is first connected to, and the lease has that as its ttl."""
    return Guarantees(
        engine="a ZooKeeper ensemble",
        exclusion="among all clients of the ensemble",
        broken_by=(
            "a `minSessionTimeout` of less than two ticks, unless the URL names the `tick`",
            "a leader whose clock runs faster than the holder's by more than 1 % of the ttl",
            "the loss of what a majority of the servers has on disk",
        ),
        fence="the zxid with which the holder's node was created",
        fence_ends="an ensemble that is set up anew, with no data",
        fairness=(
            "waiters in the order of their arrival; one that died or stands still keeps its place "
            "until its session ends, which takes up to its ttl"
        ),
        wake_up="the servers tell the one waiter whose predecessor is gone",
        suits="correctness",
        min_ttl=SHORTEST * tick if tick else 1.0,
        max_ttl=max_ttl or (LONGEST * tick if tick else DAY),
        ttl_step=tick or 1.0,
    )


def drift(terms: Terms, ttl: float) -> float:
    """What a lease is shorter than its session by."""
    return MARGIN * terms.tick + ttl * 0.01 + 0.002
