"""The clock of one node jumps forwards."""

from functools import partial

from holdfast.lab.scenarios.scenario import TWO_HOLDERS, UNCHECKED_WRITE, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

TTL = 2.0
LITTLE = 0.018
"""Less than what a holder allows for: 1 % of its ttl and 2 ms, which is 22 ms."""


def play(stage: Stage, *, jump: float) -> None:
    """A holds three of five nodes, and the clock of one of them jumps; B asks for the rest."""
    nodes = stage.nodes(5, own_clock=True)
    _, _, n3, n4, n5 = nodes
    options = "restart_guard=off"
    network = stage.links("A", nodes)
    a = stage.client("A", network.url(options), ttl=TTL, renew=False)
    b = stage.client("B", stage.quorum(nodes, options), ttl=TTL, renew=False)
    for client in (a, b):  # connecting takes longer than the jump
        client.acquires()
        client.releases()
    network.cut(n4, n5)
    a.acquires()
    stage.show_votes(nodes)
    n3.jump(jump)
    b.acquires()
    stage.show_votes((n3, n4, n5))
    b.writes("by B")
    a.writes("by A")


SCENARIO = Scenario(
    name="clock-jump",
    title="The clock of one node jumps forwards",
    story=(
        "A reaches three of five nodes, and holds the lock by their votes. The wall clock of one "
        "of the three jumps forwards, so A's vote there ends early. B reaches that node, and the "
        "two that A could not reach. This needs Linux and a C compiler."
    ),
    variants=[
        Variant(
            "little",
            f"it jumps by {LITTLE * 1000:g} ms",
            partial(play, jump=LITTLE),
            "A counts on 1 % of its ttl and 2 ms less than the nodes give it, and the jump is "
            "smaller than that: A's time is over before the first node gives the lock away.",
        ),
        Variant(
            "past-ttl",
            "it jumps by more than the ttl",
            partial(play, jump=TTL + 1),
            "The node takes A's vote for expired, and votes for B: a node whose clock is set loses "
            "its memory in effect. The fence is greater all the same, and turns A away.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
    ],
)
