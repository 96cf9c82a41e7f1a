"""A holder dies and cannot give back what it has."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.locks import Recipe
from holdfast.lab.scenarios.scenario import NOT_GRANTED, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 1.0


def play(stage: Stage, *, recipe: Recipe) -> None:
    """A is killed while it holds the lock; B waits for it, for much longer than the ttl."""
    redis = stage.node()
    a, b = (stage.client(who, redis.url, ttl=TTL, recipe=recipe) for who in ("A", "B"))
    a.acquires()
    a.die()
    stage.calm()
    if b.tries(timeout=3 * TTL).kind is Kind.GRANTED:
        b.releases()


SCENARIO = Scenario(
    name="deadlock",
    title="A holder dies and cannot give back what it has",
    story="A is killed while it holds the lock. B waits for it, three times as long as the ttl.",
    variants=[
        Variant(
            "setnx-expire",
            "the oldest recipe: SETNX, and then EXPIRE; A dies between the two",
            partial(play, recipe=Recipe.SETNX_EXPIRE),
            "A lock whose time was never set never ends. Somebody must notice, and delete it.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "holdfast",
            "the same with holdfast",
            partial(play, recipe=Recipe.HOLDFAST),
            "The lock and its time are set in one step, and nobody renews it any more: it is free "
            "when its ttl is over.",
        ),
    ],
)
