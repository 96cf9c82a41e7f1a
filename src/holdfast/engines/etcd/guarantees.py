"""What etcd promises, without flattery."""

from holdfast.core.records import Guarantees

DAY = 86400.0
MIN_TTL = 2.0
"""What servers with the usual election timeout of 1 s give at the least; one with a longer timeout
gives more, which keeps others waiting for longer after a crash, and does no other harm."""

ETCD = Guarantees(
    engine="an etcd v3 cluster",
    exclusion="among all clients of the cluster",
    broken_by=(
        "a leader that was stopped and goes on, before 3.4.31 or 3.5.13: it revokes live leases",
        "a clock of the leader that runs faster than the holder's by more than 1 % of the ttl",
        "a lock's key that somebody deletes by hand: its holder is told only by `break_lock`",
        "a cluster that is restored from an old snapshot",
    ),
    fence="the revision of the store at which the holder's key was created",
    fence_ends="a cluster that is made anew, or restored from a snapshot without `--bump-revision`",
    fairness="waiters in the order of their arrival",
    wake_up="each waiter watches the one before it",
    suits="correctness",
    min_ttl=MIN_TTL,
    max_ttl=DAY,
    ttl_step=1.0,
)
