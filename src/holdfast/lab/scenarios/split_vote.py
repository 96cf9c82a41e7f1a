"""Many clients ask at the same instant, and none of them gets a majority."""

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.actors import Crowd
from holdfast.lab.scenarios.nodes import Node, quorum_of
from holdfast.lab.scenarios.scenario import NOT_GRANTED, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 10.0
EAST, WEST = "ACEG", "BDFH"
"""In alphabetical order they ask from one side and from the other by turns."""

FAR = 0.015
"""How long a message takes to the nodes that are not near; there and back within 50 ms."""

BOUND = 6.0
"""By when, in seconds, one of those who draw their delays must have won. It takes them half a
second on average, and rarely more than two."""

ROUNDS, PAUSE = 7, 0.95
"""How often those who are in step try, and after how long they try again: for longer than that."""


def set_up(stage: Stage) -> tuple[list[Node], Crowd]:
    """Four nodes, two of them near to one half of the clients, the other two to the other half."""
    nodes = stage.nodes(4)
    urls: dict[str, str] = {}
    far_ways = []
    for side, near, far in ((EAST, nodes[:2], nodes[2:]), (WEST, nodes[2:], nodes[:2])):
        links = stage.links(side, far)
        far_ways.append((links, far))
        addresses = [*(node.server.address for node in near), *links.addresses]
        for who in side:
            urls[who] = quorum_of(addresses, f"restart_guard=off&client_name={who}")
    crowd = stage.crowd(dict(sorted(urls.items())), ttl=TTL)
    crowd.connects()
    for links, far in far_ways:
        links.slow_down(FAR, far)
    stage.calm()
    return nodes, crowd


def in_step(stage: Stage) -> None:
    """All try once, and again after the same delay."""
    _, crowd = set_up(stage)
    last = crowd.tries_in_step(ROUNDS, PAUSE)
    won = "a winner" if last.kind is Kind.GRANTED else "no winner"
    stage.note("", Kind.NOTED, f"{ROUNDS} rounds, and {won}")


def at_random(stage: Stage) -> None:
    """All wait for the lock, and try again when they see fit."""
    nodes, crowd = set_up(stage)
    before = [node.calls("del") for node in nodes]
    winner = crowd.waits_at_random().who
    # Only a vote that is given back is deleted, and no node votes twice in a round.
    given_back = max(node.calls("del") - had for node, had in zip(nodes, before, strict=True))
    stage.note("", Kind.NOTED, f"{winner} won in round {1 + given_back}")


SCENARIO = Scenario(
    name="split-vote",
    title="Eight clients ask at the same instant, and the votes are split",
    story=(
        "A, C, E and G are near to two of four nodes; B, D, F and H to the other two. When "
        "all ask at the same instant, each node votes for the first that it hears, and nobody gets "
        "the three votes that are needed. All give their votes back and try again."
    ),
    bound=BOUND,
    variants=[
        Variant(
            "in-step",
            "all try again after the same delay",
            in_step,
            "They split the vote again, and would for ever.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "at-random",
            "each tries again after a random delay, as holdfast does when it waits",
            at_random,
            "Sooner or later, and rather sooner, one of them is alone for long enough to get a "
            "majority. The delays grow with the number of rivals.",
        ),
    ],
)
