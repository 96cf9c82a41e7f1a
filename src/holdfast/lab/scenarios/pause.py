"""A holder is stopped past its ttl, in the middle of its work."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.scenario import UNCHECKED_WRITE, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 1.0


def play(stage: Stage, *, looks_again: bool) -> None:
    """A looks, is stopped, wakes and goes on; meanwhile B has had the lock and has written."""
    redis = stage.node()
    a = stage.client("A", redis.url, ttl=TTL)
    b = stage.client("B", redis.url, ttl=TTL)
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


SCENARIO = Scenario(
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
            partial(play, looks_again=False),
            "No lock can stop a process that does not run. The plain register takes A's late write "
            "and loses B's; the fenced one has seen a greater fence, and turns A away. A is told "
            "that it has lost the lock as soon as it runs again.",
            breaks=frozenset({UNCHECKED_WRITE}),
        ),
        Variant(
            "looks-again",
            "A looks at its lease once more before it writes",
            partial(play, looks_again=True),
            "A finds by its own clock that its time is over, and does not write. That closes all "
            "of the gap but the time between the look and the write; only a fence closes that.",
        ),
    ],
)
