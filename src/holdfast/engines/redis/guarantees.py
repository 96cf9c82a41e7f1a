"""What each kind of Redis promises, and what ends the promise."""

from dataclasses import replace

from holdfast.core.records import Guarantees

DAY = 86400.0

CLOCK = "a clock of the server that runs faster than the holder's by more than 1 % of the ttl"

SINGLE = Guarantees(
    engine="one Redis or Valkey master",
    exclusion="among all clients of the server",
    broken_by=(
        "a restart without persistence, or with `appendfsync everysec`: the server loses locks",
        "FLUSHALL, or eviction of keys by a `maxmemory-policy`",
        CLOCK,
    ),
    fence="a counter for each name beside its lock, which begins at the server's clock",
    fence_ends=(
        "the loss of the counter together with a clock that was set back; it is kept for an hour "
        "(`fence_keep`) after its last use"
    ),
    fairness="waiters in the order of their arrival",
    wake_up=(
        "a release offers the lock to the next waiter, and wakes it by a publication; without "
        "RESP3 or the right to the channel, waiters poll every `retry` seconds"
    ),
    suits="efficiency",
    min_ttl=0.01,
    max_ttl=DAY,
    ttl_step=0.0,
)

FAILOVER_FENCE = (
    f"{SINGLE.fence_ends}; or a failover to a replica that had not received the last counter and "
    "whose clock is behind that of the old master"
)

SENTINEL = replace(
    SINGLE,
    engine="the master of a Redis Sentinel service",
    broken_by=(
        "a failover, since replication is asynchronous: the new master may not know of the lock",
        "the same with `replicas=N`, if the new master is none of the N that acknowledged",
        *SINGLE.broken_by,
    ),
    fence_ends=FAILOVER_FENCE,
)

CLUSTER = replace(
    SINGLE,
    engine="a Redis Cluster",
    exclusion="among all clients of the cluster",
    broken_by=(
        "a failover: replication is asynchronous, and the new master may not know of the lock",
        *SINGLE.broken_by,
    ),
    fence_ends=FAILOVER_FENCE,
)


def getset(single: Guarantees) -> Guarantees:
    """What a server promises under `protocol=getset`."""
    others = (each for each in single.broken_by if each != CLOCK)
    return replace(
        single,
        engine=f"{single.engine}, by the timestamps of the SETNX and GETSET recipe",
        exclusion="among all clients of the server that follow the recipe, by their own clocks",
        broken_by=(
            "clients' wall clocks that are set, or differ by over a second: each trusts its own",
            "a client of the recipe that stops before GETSET: later it overwrites a live timestamp",
            "a client of the recipe that deletes the lock without looking whose it is",
            "a client that writes its timestamps in another unit than seconds",
            *others,
        ),
        fence="a counter for each name, which clients of the recipe neither raise nor heed",
        fairness="none: the first client that asks when the lock is free",
        wake_up="none: waiters poll every `retry` seconds",
    )


REDLOCK = replace(
    SINGLE,
    engine="a quorum of independent Redis or Valkey masters",
    exclusion="among all clients of the same nodes, while at most a minority of them fail",
    broken_by=(
        "FLUSHALL, eviction of keys, or a promoted replica on a node: it loses locks unnoticed",
        "a proxy that hides that a node was restarted, or a node's clock that was set forward then",
        "a node with `appendfsync always` that lost its disk, or that was restarted to be set so",
        "clocks of a quorum that run faster than the holder's by more than 1 % of the ttl",
    ),
    fence="the greatest of the nodes' counters, agreed on by a quorum",
    fence_ends=(
        "the loss of the counters of a quorum (FLUSHALL, promoted replicas that had not received "
        "them) together with clocks that were set back, or that lag behind those of the lost nodes"
    ),
    fairness="none: the first client that gets a quorum; readers let a writer that waits go first",
    wake_up="a release wakes waiters by a publication; they try again after a random delay",
)
