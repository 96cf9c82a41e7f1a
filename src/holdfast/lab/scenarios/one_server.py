"""One server: a holder dies, is late, or is stopped; the server is frozen, or dies."""

from functools import partial

from holdfast.lab.checkers import NOT_GRANTED, TWO_HOLDERS, UNCHECKED_WRITE
from holdfast.lab.history import Kind
from holdfast.lab.scenarios.client_process import Recipe
from holdfast.lab.scenarios.scenario import Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

DEADLOCK_TTL = 1.0


def _deadlock(stage: Stage, *, recipe: Recipe) -> None:
    redis = stage.node()
    a, b = (stage.client(who, redis.url, ttl=DEADLOCK_TTL, recipe=recipe) for who in ("A", "B"))
    a.acquires()
    a.die()
    stage.calm()
    if b.tries(timeout=3 * DEADLOCK_TTL).kind is Kind.GRANTED:
        b.releases()


DEADLOCK = Scenario(
    name="deadlock",
    title="A holder dies and cannot release its lock",
    story="A is killed while it holds the lock. B waits for it, three times as long as the ttl.",
    variants=[
        Variant(
            "setnx-expire",
            "the oldest recipe: SETNX, and then EXPIRE; A dies between the two",
            partial(_deadlock, recipe=Recipe.SETNX_EXPIRE),
            "A lock without an expiry never ends. An operator has to notice, and delete it.",
            breaks=(NOT_GRANTED,),
        ),
        Variant(
            "holdfast",
            "the same with holdfast",
            partial(_deadlock, recipe=Recipe.HOLDFAST),
            "The lock and its expiry are set in one step, and its renewer died with A: it is free "
            "when its ttl has passed.",
        ),
    ],
)


WRONG_RELEASE_TTL = 2.0


def _wrong_release(stage: Stage, *, recipe: Recipe) -> None:
    redis = stage.node()
    a, b, c = (
        stage.client(who, redis.url, ttl=WRONG_RELEASE_TTL, renew=False, recipe=recipe)
        for who in ("A", "B", "C")
    )
    a.acquires()
    b.acquires()
    a.releases()
    c.tries(timeout=WRONG_RELEASE_TTL / 4)
    b.checks()


WRONG_RELEASE = Scenario(
    name="wrong-release",
    title="A late holder releases a lock that it has lost",
    story=(
        "A takes longer than its ttl, so its lock expires and B gets it. Then A is done and "
        "releases, as it always does. C asks while B is still at work."
    ),
    variants=[
        Variant(
            "del",
            "the recipe of many a blog: SET NX PX, and DEL when done",
            partial(_wrong_release, recipe=Recipe.SET_DEL),
            "DEL does not compare the holder: A deletes B's lock, and C gets it while B works.",
            breaks=(TWO_HOLDERS,),
        ),
        Variant(
            "holdfast",
            "the same with holdfast",
            partial(_wrong_release, recipe=Recipe.HOLDFAST),
            "A release compares the holder and deletes in one step, on the server. A gets the "
            "error that it does not hold the lock, and B keeps it.",
        ),
    ],
)


PAUSE_TTL = 1.0


def _pause(stage: Stage, *, looks_again: bool) -> None:
    redis = stage.node()
    a = stage.client("A", redis.url, ttl=PAUSE_TTL)
    b = stage.client("B", redis.url, ttl=PAUSE_TTL)
    a.acquires()
    a.checks()
    a.stop()
    b.acquires()
    b.writes("by B")
    stage.let_pass(PAUSE_TTL / 2)  # B works on, and A is still stopped
    a.wake()
    a.writes("by A", unchecked=not looks_again)
    a.reports(Kind.LOST)
    stage.let_pass(PAUSE_TTL / 2)  # B works on: the story does not end at the edge of the picture
    b.releases()


PAUSE = Scenario(
    name="pause",
    title="A holder is stopped past its ttl, and goes on as if nothing had happened",
    story=(
        "A holds the lock, checks that it does, and is stopped (SIGSTOP) before it can write: a "
        "long garbage collection, a laptop that is closed. Its lease expires, B gets the lock and "
        "writes. Then A resumes."
    ),
    variants=[
        Variant(
            "writes-on",
            "A has checked its lease before the pause, and writes",
            partial(_pause, looks_again=False),
            "No lock can stop a process that is not running. The plain register accepts A's stale "
            "write and loses B's; the fenced one has seen a greater fence, and rejects it. A "
            "learns that it has lost the lock as soon as it resumes.",
            breaks=(UNCHECKED_WRITE,),
        ),
        Variant(
            "looks-again",
            "A checks its lease again before it writes",
            partial(_pause, looks_again=True),
            "A's own clock shows that its lease has expired, and A does not write. That closes all "
            "of the gap but the time between the check and the write; only a fence closes that.",
        ),
    ],
)


LATE_REPLY_TTL = 6.0


def _late_reply(stage: Stage, *, recipe: Recipe) -> None:
    redis = stage.node()
    a, b = (
        stage.client(who, redis.url, ttl=LATE_REPLY_TTL, renew=False, recipe=recipe)
        for who in ("A", "B")
    )
    a.acquires()
    a.releases()
    redis.freeze()
    a.tries(timeout=0.3)
    redis.thaw()
    stage.wait_until(partial(redis.command, "PING"), "answer")
    stage.calm()
    if b.tries(timeout=1.5).kind is Kind.GRANTED:
        b.releases()


LATE_REPLY = Scenario(
    name="late-reply",
    title="A frozen node executes a request that its client has given up",
    story=(
        "A asks a node that is frozen, gets no reply, and gives up. Its request stays in the "
        "node's buffers. The node resumes and executes it: the lock is held by a client that gave "
        "up. B asks, within a quarter of the ttl."
    ),
    variants=[
        Variant(
            "closed",
            "a client that closes the connection when there is no answer (SET NX PX)",
            partial(_late_reply, recipe=Recipe.SET_DEL),
            "Closing the connection does not cancel the request. The lock stays until its ttl has "
            "passed, and no client can acquire it until then.",
            breaks=(NOT_GRANTED,),
        ),
        Variant(
            "holdfast",
            "the same with holdfast",
            partial(_late_reply, recipe=Recipe.HOLDFAST),
            "holdfast sends the release behind the acquire, on the same connection. When the "
            "node resumes, it executes both, in that order.",
        ),
    ],
)


FAILOVER_TTL = 4.0


def _failover(stage: Stage, *, replicas: int) -> None:
    master, replica, link = stage.pair()
    a = stage.client("A", f"{master.url}?replicas={replicas}", ttl=FAILOVER_TTL, renew=False)
    b = stage.client("B", replica.url, ttl=FAILOVER_TTL, renew=False)
    a.acquires()
    a.releases()
    stage.wait_until(lambda: replica.is_in_step_with(master), "replication")
    link.cut()
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
            "replicas=0",
            "the master grants by itself, which is the default",
            partial(_failover, replicas=0),
            "Replication is asynchronous: the new master does not have A's lock, and grants it "
            "again to B. That is the reason for Redlock. The replica has an older counter than the "
            "one that A got, but a fence is never less than the server's clock, so B's is greater "
            "all the same, and the fenced register rejects A's write.",
            breaks=(TWO_HOLDERS, UNCHECKED_WRITE),
        ),
        Variant(
            "replicas=1",
            "a grant must be acknowledged by a replica",
            partial(_failover, replicas=1),
            "A is not granted a lock that no replica has received. This does not protect against "
            "every failover: a replica that did not acknowledge may be the one that is promoted.",
        ),
    ],
)
