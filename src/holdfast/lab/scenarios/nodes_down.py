"""Nodes of a quorum are down: a minority, then a majority."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.judges import AVAILABLE
from holdfast.lab.scenarios.scenario import Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 4.0


def play(stage: Stage, *, down: int) -> None:
    """Some of five nodes crash; A asks, works and gives back, and then so does B."""
    nodes = stage.nodes(5)
    url = stage.quorum(nodes)
    a, b = (stage.client(who, url, ttl=TTL, renew=False) for who in ("A", "B"))
    for node in nodes[:down]:
        node.crash()
    stage.calm()
    for client in (a, b):
        if client.tries(timeout=1.5).kind is Kind.GRANTED:
            client.extends()
            client.writes(f"by {client.who}")
            client.releases()


SCENARIO = Scenario(
    name="nodes-down",
    title="Nodes of a quorum are down",
    story=(
        "Some of five nodes crash. A asks for the lock, extends it, writes, and gives it back; "
        "then B does."
    ),
    variants=[
        Variant(
            "minority",
            "two of five are down",
            partial(play, down=2),
            "Three of five are a majority, and more is not needed for anything.",
        ),
        Variant(
            "majority",
            "three of five are down",
            partial(play, down=3),
            "Two votes of five could be had by two clients at once. So nobody gets the lock, and "
            "whoever asks is told, node by node, what is wrong.",
            breaks=frozenset({AVAILABLE}),
        ),
    ],
)
