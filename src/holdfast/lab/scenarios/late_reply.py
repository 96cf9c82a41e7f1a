"""A node that was frozen carries out what its client has given up long ago."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.locks import Recipe
from holdfast.lab.scenarios.scenario import NOT_GRANTED, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 6.0


def play(stage: Stage, *, count: int, recipe: Recipe = Recipe.HOLDFAST) -> None:
    """A majority freezes, A asks and gives up, the nodes thaw, and B asks."""
    nodes = stage.nodes(count)
    url = nodes[0].url if count == 1 else stage.quorum(nodes)
    a, b = (stage.client(who, url, ttl=TTL, renew=False, recipe=recipe) for who in ("A", "B"))
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


SCENARIO = Scenario(
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
            partial(play, count=1, recipe=Recipe.SET_DEL),
            "Closing takes nothing back. The lock of nobody stands until its ttl is over, and "
            "nobody can have it until then.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "one-server",
            "holdfast on one server",
            partial(play, count=1),
            "holdfast sends the release behind the acquire, on the same connection. Whenever the "
            "node wakes up, it carries out both, in that order.",
        ),
        Variant(
            "quorum",
            "holdfast on three nodes, two of which are frozen",
            partial(play, count=3),
            "The same, on every node.",
        ),
    ],
)
