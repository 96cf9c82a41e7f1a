"""The network is cut in two, with the holder on the smaller side."""

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.scenario import TWO_HOLDERS, UNCHECKED_WRITE, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 1.5


def of_a_quorum(stage: Stage) -> None:
    """A keeps two of five nodes, B reaches the other three."""
    nodes = stage.nodes(5)
    options = "restart_guard=off"
    near, far = nodes[:2], nodes[2:]
    networks = {who: stage.links(who, nodes) for who in ("A", "B")}
    a, b = (stage.client(who, networks[who].url(options), ttl=TTL) for who in ("A", "B"))
    a.acquires()
    stage.wait_until(lambda: all(node.is_locked() for node in nodes), "votes of all nodes")
    stage.show_votes(nodes)
    networks["A"].cut(*far)
    networks["B"].cut(*near)
    b.acquires()
    stage.show_votes(far)
    b.writes("by B")
    a.hears(Kind.LOST)
    a.writes("by A")
    networks["A"].heal(*far)
    networks["B"].heal(*near)
    b.releases()
    a.acquires()


def of_a_pair(stage: Stage) -> None:
    """A keeps the master, B reaches its replica, which is promoted there."""
    master, replica = stage.node("master"), stage.node("replica")
    link = stage.proxy(master.server)
    replica.follow(master, link)
    a = stage.client("A", master.url, ttl=TTL)
    b = stage.client("B", replica.url, ttl=TTL)
    a.acquires()
    stage.wait_until(lambda: replica.is_in_step_with(master), "replication")
    link.cut()
    stage.note("master", Kind.CUT, peer="replica")
    replica.promote()
    b.acquires()
    b.writes("by B")
    a.writes("by A")


SCENARIO = Scenario(
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
            "A cannot renew with two of five, so its time runs out by its own clock, and only then "
            "do the three on the other side give the lock to B. When the network is whole again, "
            "everybody is served.",
        ),
        Variant(
            "pair",
            "a master on A's side, its replica on B's, where it is promoted",
            of_a_pair,
            "Two masters are two locks. A's renewals go on to succeed on the old one, and this "
            "time B even has to wait for A's old lease to run out on the new one: that helps "
            "nobody, since A has renewed meanwhile.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
    ],
)
