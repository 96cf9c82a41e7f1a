"""A master dies before its replica has heard of a lock."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.scenario import TWO_HOLDERS, UNCHECKED_WRITE, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 4.0


def play(stage: Stage, *, counted_before: bool = False, replicas: int = 0) -> None:
    """A locks on the master, of which the replica hears nothing; then B locks on the replica."""
    master, replica = stage.node("master"), stage.node("replica")
    link = stage.proxy(master.server)
    replica.follow(master, link)
    a = stage.client("A", f"{master.url}?replicas={replicas}", ttl=TTL, renew=False)
    b = stage.client("B", replica.url, ttl=TTL, renew=False)
    if counted_before:
        a.acquires()
        a.releases()
        stage.wait_until(lambda: replica.is_in_step_with(master), "replication")
    link.hold()
    stage.note("replica", Kind.NOTED, "hears nothing of the master any more")
    a.tries(timeout=TTL / 4)
    master.crash()
    replica.promote()
    b.acquires()
    b.writes("by B")
    a.writes("by A")


SCENARIO = Scenario(
    name="failover",
    title="A master dies before its replica has heard of the lock",
    story=(
        "A takes the lock on a master whose replication lags. The master dies, the replica is "
        "promoted, as a sentinel would do it, and B asks there. Then both write."
    ),
    variants=[
        Variant(
            "first-lock",
            "the lock was never taken before, so the replica has no counter for its fences",
            play,
            "Replication is asynchronous: the new master does not know of A's lock, and gives it "
            "away again. That is the reason for Redlock. But a counter that is missing begins at "
            "the server's clock, so B's fence is greater than A's, and the fenced register turns "
            "A away.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
        Variant(
            "known-counter",
            "the lock was taken before, and the replica knows the counter as it was then",
            partial(play, counted_before=True),
            "Both hold it, as before. The replica has an older counter than the one that A got, "
            "but a fence is never less than the server's clock, so B's is greater all the same, "
            "and the fenced register turns A away.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
        Variant(
            "replicas=1",
            "a grant must be acknowledged by a replica",
            partial(play, replicas=1),
            "A is not given a lock that no replica has heard of. This is no proof against every "
            "failover: a replica that did not acknowledge may be the one that is promoted.",
        ),
    ],
)
