"""A holder that is late gives back what is not its own any more."""

from functools import partial

from holdfast.lab.scenarios.locks import Recipe
from holdfast.lab.scenarios.scenario import TWO_HOLDERS, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 2.0


def play(stage: Stage, *, recipe: Recipe) -> None:
    """A's time runs out, B gets the lock, A releases, and C asks while B is at work."""
    redis = stage.node()
    a, b, c = (
        stage.client(who, redis.url, ttl=TTL, renew=False, recipe=recipe) for who in ("A", "B", "C")
    )
    a.acquires()
    b.acquires()
    a.releases()
    c.tries(timeout=TTL / 4)
    b.checks()


SCENARIO = Scenario(
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
            partial(play, recipe=Recipe.SET_DEL),
            "DEL does not ask whose key it is: A deletes B's lock, and C walks in beside B.",
            breaks=frozenset({TWO_HOLDERS}),
        ),
        Variant(
            "holdfast",
            "the same with holdfast",
            partial(play, recipe=Recipe.HOLDFAST),
            "A release compares the holder and deletes in one step, on the server. A is told that "
            "there is nothing of its own to release, and B keeps what it has.",
        ),
    ],
)
