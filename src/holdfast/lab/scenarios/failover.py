"""A server dies before its replica has received a lock: Redis, and PostgreSQL."""

from functools import partial
from typing import TYPE_CHECKING

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.scenario import TWO_HOLDERS, UNCHECKED_WRITE, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.programs import need_library

if TYPE_CHECKING:
    from holdfast.lab.servers.postgres import PostgresServer

FAILOVER_TTL = 4.0


def play_failover(stage: Stage, *, counted_before: bool = False, replicas: int = 0) -> None:
    """A locks on the master, which does not reach the replica; then B locks on the replica."""
    master, replica = stage.node("master"), stage.node("replica")
    link = stage.proxy(master.server)
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


STANDBY_TTL = 30.0
"""Longer than the run: B must get the lock before A's lease expires, on a busy machine too."""

A_WHILE = 1.0
"""How long A waits for a lock that the standby has to receive first."""

UNHEARD = {"synchronous_standby_names": ""}
ACKNOWLEDGED = {"synchronous_standby_names": "*"}


def play_standby(stage: Stage, *, settings: dict[str, str]) -> None:
    """A locks on the primary, which does not reach the standby; then B locks on the standby."""
    need_library("psycopg", "pip install 'holdfast[postgres]'")
    from holdfast.lab.servers.postgres import USER, PostgresServer

    primary = stage.server("primary", PostgresServer(settings=settings))
    link = stage.proxy(primary)
    origin = {"primary_conninfo": f"host={HOST} port={link.port} user={USER}"}
    standby = stage.server("standby", PostgresServer(standby=primary, settings=origin))
    a = stage.client("A", primary.url, ttl=STANDBY_TTL, renew=False)
    b = stage.client("B", standby.url, ttl=STANDBY_TTL, renew=False)
    a.acquires()
    a.releases()
    stage.wait_until(lambda: is_in_step(standby, primary), "replication")
    link.hold()
    stage.note("standby", Kind.NOTED, "receives nothing from the primary any more")
    a.tries(timeout=A_WHILE)
    primary.kill()
    stage.note("primary", Kind.CRASHED)
    standby.promote()
    stage.note("standby", Kind.NOTED, "is the primary now")
    b.acquires()
    b.writes("by B")
    a.writes("by A")


def is_in_step(standby: "PostgresServer", primary: "PostgresServer") -> bool:
    """Whether it knows of all that the primary did."""
    [(said,)] = primary.query("SELECT pg_current_wal_lsn()::text")
    [(heard,)] = standby.query("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (said,))
    return bool(heard)


STANDBY = Scenario(
    name="standby",
    title="A PostgreSQL server dies before its standby has received the lock",
    story=(
        "A took the lock before, and the standby knows that. Now A takes it again, on a primary "
        "whose replication lags. The primary dies, the standby is promoted, and B asks there. "
        "Then both write."
    ),
    variants=[
        Variant(
            "asynchronous",
            "a commit does not wait for the standby, as PostgreSQL is set up by default",
            partial(play_standby, settings=UNHEARD),
            "The standby does not have A's second lease, and grants the lock again to B. The row "
            "that it has is that of A's first lease, with an older fence. But a fence is never "
            "less than the server's clock, so B's is greater than A's all the same, and the "
            "fenced register rejects A's write. With lease.guard it is A's whole transaction that "
            "is lost, since it was committed on the old primary.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
        Variant(
            "synchronous",
            "a commit waits for the standby (synchronous_standby_names)",
            partial(play_standby, settings=ACKNOWLEDGED),
            "A is not granted a lock that the standby has not received: A gets its first one, and "
            "its second request times out. Promote only a synchronous standby.",
        ),
    ],
)
