"""A master dies before its replica has received a lock."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.scenario import TWO_HOLDERS, UNCHECKED_WRITE, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

FAILOVER_TTL = 4.0


def play_failover(stage: Stage, *, counted_before: bool = False, replicas: int = 0) -> None:
    """A locks on the master, which does not reach the replica; then B locks on the replica."""
    master, replica = stage.node("master"), stage.node("replica")
    link = stage.proxy(master)
    replica.follow(master, link)
    a = stage.client("A", f"{master.url}?replicas={replicas}", ttl=FAILOVER_TTL, renew=False)
    b = stage.client("B", replica.url, ttl=FAILOVER_TTL, renew=False)
    if counted_before:
        a.acquires()
        a.releases()
        stage.wait_until(lambda: replica.is_in_step_with(master), "replication")
    link.hold()
    stage.note("replica", Kind.NOTED, "receives nothing from the master any more")
    a.tries(timeout=FAILOVER_TTL / 4)
    master.crash()
    replica.promote()
    b.acquires()
    b.writes("by B")
    a.writes("by A")


FAILOVER = Scenario(
    name="failover",
    title="A master dies before its replica has received the lock",
    story=(
        "A takes the lock on a master whose replication lags. The master dies, the replica is "
        "promoted, as a sentinel would do it, and B asks there. Then both write."
    ),
    variants=[
        Variant(
            "first-lock",
            "the lock was never taken before, so the replica has no counter for its fences",
            play_failover,
            "Replication is asynchronous: the new master does not have A's lock, and grants it "
            "again to B. That is the reason for Redlock. But a counter that is missing begins at "
            "the server's clock, so B's fence is greater than A's, and the fenced register rejects "
            "A's write.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
        Variant(
            "known-counter",
            "the lock was taken before, and the replica knows the counter as it was then",
            partial(play_failover, counted_before=True),
            "Both hold it, as before. The replica has an older counter than the one that A got, "
            "but a fence is never less than the server's clock, so B's is greater all the same, "
            "and the fenced register rejects A's write.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
        Variant(
            "replicas=1",
            "a grant must be acknowledged by a replica",
            partial(play_failover, replicas=1),
            "A is not granted a lock that no replica has received. This does not protect against "
            "every failover: a replica that did not acknowledge may be the one that is promoted.",
        ),
    ],
)
