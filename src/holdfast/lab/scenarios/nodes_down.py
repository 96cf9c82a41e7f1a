"""Nodes of a quorum are down: a minority, or a majority."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.actors import Actor
from holdfast.lab.scenarios.scenario import NOT_GRANTED, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 4.0


def with_a_quorum(stage: Stage, *, down: int, back: int = 0) -> None:
    """Some of five nodes crash, and some of these come back; then A and B work in turn."""
    nodes = stage.nodes(5)
    url = stage.quorum(nodes)
    actors = [stage.client(who, url, ttl=TTL, renew=False) for who in ("A", "B")]
    for node in nodes[:down]:
        node.crash()
    if back:
        actors[0].tries(timeout=0.5)
    for node in nodes[:back]:
        node.start()
    stage.calm()
    _work_in_turn(actors)


def with_one_server(stage: Stage) -> None:
    """There is but one server, and it crashes."""
    node = stage.node()
    actors = [stage.client(who, node.url, ttl=TTL, renew=False) for who in ("A", "B")]
    node.crash()
    stage.calm()
    _work_in_turn(actors)


def _work_in_turn(actors: list[Actor]) -> None:
    for actor in actors:
        if actor.tries(timeout=1.5).kind is Kind.GRANTED:
            actor.extends()
            actor.writes(f"by {actor.who}")
            actor.releases()


MINORITY_DOWN = Scenario(
    name="minority-down",
    title="A minority of the nodes is down",
    story=(
        "Two of five nodes crash. A asks for the lock, extends it, writes, and gives it back; "
        "then B does. Beside it: one server, which crashes."
    ),
    variants=[
        Variant(
            "one-server",
            "there is but one server, and it is down",
            with_one_server,
            "Nobody is there to be asked. That is what a quorum is for.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "quorum",
            "two of five are down",
            partial(with_a_quorum, down=2),
            "Three of five are a majority, and more is not needed for anything.",
        ),
    ],
)

MAJORITY_DOWN = Scenario(
    name="majority-down",
    title="A majority of the nodes is down",
    story="Three of five nodes crash. A asks for the lock, and then B does.",
    variants=[
        Variant(
            "down",
            "three of five are down",
            partial(with_a_quorum, down=3),
            "Two votes of five could be had by two clients at once. So nobody gets the lock, and "
            "whoever asks is told, node by node, what is wrong.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "one-comes-back",
            "three of five are down, and one of them comes back",
            partial(with_a_quorum, down=3, back=1),
            "Three of five answer again, so all goes on, and nobody had to do anything about it.",
        ),
    ],
)
