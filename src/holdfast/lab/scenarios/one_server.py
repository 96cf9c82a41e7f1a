"""One server: a holder dies, is late, or is stopped; the server is frozen."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.locks import Recipe
from holdfast.lab.scenarios.scenario import (
    NOT_GRANTED,
    TWO_HOLDERS,
    UNCHECKED_WRITE,
    Scenario,
    Variant,
)
from holdfast.lab.scenarios.stage import Stage

DEADLOCK_TTL = 1.0


def play_deadlock(stage: Stage, *, recipe: Recipe) -> None:
    """A is killed while it holds the lock; B waits for it, for much longer than the ttl."""
    redis = stage.node()
    a, b = (stage.client(who, redis.url, ttl=DEADLOCK_TTL, recipe=recipe) for who in ("A", "B"))
    a.acquires()
    a.die()
    stage.calm()
    if b.tries(timeout=3 * DEADLOCK_TTL).kind is Kind.GRANTED:
        b.releases()


DEADLOCK = Scenario(
    name="deadlock",
    title="A holder dies and cannot give back what it has",
    story="A is killed while it holds the lock. B waits for it, three times as long as the ttl.",
    variants=[
        Variant(
            "setnx-expire",
            "the oldest recipe: SETNX, and then EXPIRE; A dies between the two",
            partial(play_deadlock, recipe=Recipe.SETNX_EXPIRE),
            "A lock whose time was never set never ends. Somebody must notice, and delete it.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "holdfast",
            "the same with holdfast",
            partial(play_deadlock, recipe=Recipe.HOLDFAST),
            "The lock and its time are set in one step, and nobody renews it any more: it is free "
            "when its ttl is over.",
        ),
    ],
)


WRONG_RELEASE_TTL = 2.0


def play_wrong_release(stage: Stage, *, recipe: Recipe) -> None:
    """A's time runs out, B gets the lock, A releases, and C asks while B is at work."""
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
    title="A late holder gives back a lock that is not its own any more",
    story=(
        "A takes longer than its ttl, so its lock ends and B gets it. Then A is done and releases, "
        "as it always does. C asks while B is still at work."
    ),
    variants=[
        Variant(
            "del",
            "the recipe of many a blog: SET NX PX, and DEL when done",
            partial(play_wrong_release, recipe=Recipe.SET_DEL),
            "DEL does not ask whose key it is: A deletes B's lock, and C walks in beside B.",
            breaks=frozenset({TWO_HOLDERS}),
        ),
        Variant(
            "holdfast",
            "the same with holdfast",
            partial(play_wrong_release, recipe=Recipe.HOLDFAST),
            "A release compares the holder and deletes in one step, on the server. A is told that "
            "there is nothing of its own to release, and B keeps what it has.",
        ),
    ],
)


PAUSE_TTL = 1.0


def play_pause(stage: Stage, *, looks_again: bool) -> None:
    """A looks, is stopped, wakes and goes on; meanwhile B has had the lock and has written."""
    redis = stage.node()
    a = stage.client("A", redis.url, ttl=PAUSE_TTL)
    b = stage.client("B", redis.url, ttl=PAUSE_TTL)
    a.acquires()
    a.checks()
    a.stop()
    b.acquires()
    b.writes("by B")
    a.wake()
    if looks_again:
        a.writes("by A")
    else:
        a.goes_on_to_write("by A")
    a.hears(Kind.LOST)
    b.releases()


PAUSE = Scenario(
    name="pause",
    title="A holder is stopped past its ttl, and goes on as if nothing had happened",
    story=(
        "A holds the lock, looks that it does, and is stopped (SIGSTOP) before it can write: a "
        "long garbage collection, a laptop that is closed. Its time runs out, B gets the lock and "
        "writes. Then A wakes up."
    ),
    variants=[
        Variant(
            "writes-on",
            "A has looked already, so it writes",
            partial(play_pause, looks_again=False),
            "No lock can stop a process that does not run. The plain register takes A's late write "
            "and loses B's; the fenced one has seen a greater fence, and turns A away. A is told "
            "that it has lost the lock as soon as it runs again.",
            breaks=frozenset({UNCHECKED_WRITE}),
        ),
        Variant(
            "looks-again",
            "A looks at its lease once more before it writes",
            partial(play_pause, looks_again=True),
            "A finds by its own clock that its time is over, and does not write. That closes all "
            "of the gap but the time between the look and the write; only a fence closes that.",
        ),
    ],
)


LATE_REPLY_TTL = 6.0


def play_late_reply(stage: Stage, *, count: int, recipe: Recipe = Recipe.HOLDFAST) -> None:
    """A majority freezes, A asks and gives up, the nodes thaw, and B asks."""
    nodes = stage.nodes(count)
    url = nodes[0].url if count == 1 else stage.quorum(nodes)
    a, b = (
        stage.client(who, url, ttl=LATE_REPLY_TTL, renew=False, recipe=recipe) for who in ("A", "B")
    )
    a.acquires()
    a.releases()
    frozen = nodes[: count // 2 + 1]
    for node in frozen:
        node.freeze()
    a.tries(timeout=0.3)
    for node in frozen:
        node.thaw()
        stage.wait_until(node.answers, "answer")
    stage.calm()
    if b.tries(timeout=1.5).kind is Kind.GRANTED:
        b.releases()


LATE_REPLY = Scenario(
    name="late-reply",
    title="A frozen node carries out what its client gave up long ago",
    story=(
        "A asks a node that is frozen, hears nothing, and gives up. What it sent lies in the "
        "node's buffers. The node thaws and carries it out: now it holds a lock that nobody wants. "
        "B asks, within a quarter of the ttl."
    ),
    variants=[
        Variant(
            "closed",
            "a client that closes the connection when there is no answer (SET NX PX)",
            partial(play_late_reply, count=1, recipe=Recipe.SET_DEL),
            "Closing takes nothing back. The lock of nobody stands until its ttl is over, and "
            "nobody can have it until then.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "one-server",
            "holdfast on one server",
            partial(play_late_reply, count=1),
            "holdfast sends the release behind the acquire, on the same connection. Whenever the "
            "node wakes up, it carries out both, in that order.",
        ),
        Variant(
            "quorum",
            "holdfast on three nodes, two of which are frozen",
            partial(play_late_reply, count=3),
            "The same, on every node.",
        ),
    ],
)
