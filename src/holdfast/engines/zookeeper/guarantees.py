"""What ZooKeeper promises, without flattery."""

from holdfast.core.records import Guarantees
from holdfast.engines.zookeeper.session import MARGIN, SHORTEST


def guarantees(tick: float, longest: float) -> Guarantees:
    """Given the servers' `tickTime` and `maxSessionTimeout`, in seconds."""
    return Guarantees(
        engine="a ZooKeeper ensemble",
        exclusion="among all clients of the ensemble",
        broken_by=(
            "a `tick` that is said to be shorter than the servers' tickTime",
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
        min_ttl=SHORTEST * tick,
        max_ttl=longest,
        ttl_step=tick,
    )


def drift(ttl: float, tick: float) -> float:
    """What a lease is shorter than its session by."""
    return MARGIN * tick + ttl * 0.01 + 0.002
