"""Two clients ask at the same instant, and each gets half of the nodes."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.actors import Actor
from holdfast.lab.scenarios.judges import AVAILABLE
from holdfast.lab.scenarios.nodes import Node
from holdfast.lab.scenarios.scenario import Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 10.0
FAR = 0.015
"""How long a message takes to the nodes that are not near; there and back within 50 ms."""

PAUSE = 0.1
"""After how long those who are in step try again."""

LONG_ENOUGH = 1.5
"""How long they may go on like that, in seconds."""


def set_up(stage: Stage) -> tuple[list[Node], list[Actor]]:
    """Four nodes, two of them near to A, the other two near to B."""
    nodes = stage.nodes(4)
    near = {"A": nodes[:2], "B": nodes[2:]}
    actors = []
    for who in near:
        links = stage.links(who, nodes)
        options = f"restart_guard=off&client_name={who}"
        actor = stage.client(who, links.url(options), ttl=TTL, renew=False)
        actor.acquires()
        actor.releases()
        stage.wait_until(partial(_all_know, nodes, who), f"way for {who}")
        links.slow_down(FAR, [node for node in nodes if node not in near[who]])
        actors.append(actor)
    stage.calm()
    return nodes, actors


def _all_know(nodes: list[Node], who: str) -> bool:
    return all(node.knows(who) for node in nodes)


def in_step(stage: Stage) -> None:
    """Both try once, and again after the same delay."""
    _, actors = set_up(stage)
    began, rounds, won = stage.now(), 0, False
    while not won and stage.now() < began + LONG_ENOUGH:
        rounds += 1
        for actor in actors:
            actor.begins_to_acquire(timeout=0)
        outcomes = [actor.hears(Kind.GRANTED, Kind.REFUSED) for actor in actors]
        won = any(outcome.kind is Kind.GRANTED for outcome in outcomes)
        stage.wait_until_past(max(outcome.at for outcome in outcomes) + PAUSE)
    stage.note("", Kind.NOTED, f"{rounds} rounds, and {'a' if won else 'no'} winner")


def at_random(stage: Stage) -> None:
    """Both wait for the lock, and try again when they see fit."""
    nodes, actors = set_up(stage)
    before = [node.calls("del") for node in nodes]
    for actor in actors:
        actor.begins_to_acquire()
    grants = len(stage.history().of(Kind.GRANTED))
    stage.wait_until(lambda: len(stage.history().of(Kind.GRANTED)) > grants, "winner")
    # Only a vote that is given back is deleted, and no node votes twice in a round.
    given_back = max(node.calls("del") - had for node, had in zip(nodes, before, strict=True))
    stage.note("", Kind.NOTED, f"won in round {1 + given_back}")


SCENARIO = Scenario(
    name="split-vote",
    title="Two clients ask at the same instant, and each gets half of the nodes",
    story=(
        "A is near to two of four nodes, B to the other two. When both ask at the same instant, "
        "each gets the two that are near to it, and nobody the three that are needed. Both give "
        "their votes back and try again."
    ),
    variants=[
        Variant(
            "in-step",
            "both try again at the same instant",
            in_step,
            "They split the vote again, and would for ever.",
            breaks=frozenset({AVAILABLE}),
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
