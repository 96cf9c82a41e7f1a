"""Nodes of a quorum are down, or cut off."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.actors import Actor
from holdfast.lab.scenarios.scenario import (
    NOT_GRANTED,
    TWO_HOLDERS,
    UNCHECKED_WRITE,
    Scenario,
    Variant,
)
from holdfast.lab.scenarios.stage import Stage

NODES_DOWN_TTL = 4.0


def with_a_quorum(stage: Stage, *, down: int, back: int = 0) -> None:
    """Some of five nodes crash, and some of these come back; then A and B work in turn."""
    nodes = stage.nodes(5)
    url = stage.quorum(nodes)
    actors = [stage.client(who, url, ttl=NODES_DOWN_TTL, renew=False) for who in ("A", "B")]
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
    actors = [stage.client(who, node.url, ttl=NODES_DOWN_TTL, renew=False) for who in ("A", "B")]
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
        "Two of five nodes crash. A acquires the lock, extends it, writes, and releases it; "
        "then B does. Beside it: one server, which crashes."
    ),
    variants=[
        Variant(
            "one-server",
            "there is but one server, and it is down",
            with_one_server,
            "There is no server to ask. That is what a quorum is for.",
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
            "Two clients could each have two votes of five. So no client gets the lock, and "
            "the error names what is wrong with each node.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "one-comes-back",
            "three of five are down, and one of them comes back",
            partial(with_a_quorum, down=3, back=1),
            "Three of five answer again, and the lock is available without any intervention.",
        ),
    ],
)


PARTITION_TTL = 1.5


def of_a_quorum(stage: Stage) -> None:
    """A keeps two of five nodes, B reaches the other three."""
    nodes = stage.nodes(5)
    options = "restart_guard=off"
    near, far = nodes[:2], nodes[2:]
    networks = {who: stage.links(who, nodes) for who in ("A", "B")}
    a, b = (stage.client(who, networks[who].url(options), ttl=PARTITION_TTL) for who in ("A", "B"))
    a.acquires()
    stage.wait_until(lambda: all(node.is_locked() for node in nodes), "votes of all nodes")
    stage.show_votes(nodes)
    networks["A"].cut(*far)
    networks["B"].cut(*near)
    b.acquires()
    stage.show_votes(far)
    b.writes("by B")
    a.reports(Kind.LOST)
    a.writes("by A")
    networks["A"].heal(*far)
    networks["B"].heal(*near)
    b.releases()
    a.acquires()


def of_a_pair(stage: Stage) -> None:
    """A keeps the master, B reaches its replica, which is promoted there."""
    master, replica = stage.node("master"), stage.node("replica")
    link = stage.proxy(master)
    replica.follow(master, link)
    a = stage.client("A", master.url, ttl=PARTITION_TTL)
    b = stage.client("B", replica.url, ttl=PARTITION_TTL)
    a.acquires()
    stage.wait_until(lambda: replica.is_in_step_with(master), "replication")
    link.cut()
    stage.note("master", Kind.CUT, peer="replica")
    replica.promote()
    b.acquires()
    b.writes("by B")
    a.writes("by A")


PARTITION = Scenario(
    name="partition",
    title="The network is cut in two, with the holder on the smaller side",
    story=(
        "A holds the lock and renews it. Then the network is cut, and B asks on the other side. "
        "Both stay as long as they can."
    ),
    variants=[
        Variant(
            "quorum",
            "five nodes: two are left on A's side, three are on B's",
            of_a_quorum,
            "A cannot renew with two of five, so its lease expires by its own clock, and only then "
            "do the three on the other side grant the lock to B. When the network is healed, "
            "both clients get the lock again.",
        ),
        Variant(
            "pair",
            "a master on A's side, its replica on B's, where it is promoted",
            of_a_pair,
            "Two masters are two locks. A's renewals still succeed on the old one. Here B even "
            "has to wait until A's old lease has expired on the new one. That does not help, "
            "since A has renewed meanwhile.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
    ],
)
