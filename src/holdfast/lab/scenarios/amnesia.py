"""A node of a quorum restarts, and has forgotten its vote."""

from functools import partial

from holdfast.lab.scenarios.scenario import TWO_HOLDERS, UNCHECKED_WRITE, Scenario, Variant
from holdfast.lab.scenarios.stage import Stage
from holdfast.lab.servers.redis import AppendOnly

TTL = 2.0
UNGUARDED, GUARDED = "restart_guard=off", f"restart_guard=on&max_ttl={TTL:g}"
OLD = int(TTL) + 2
"""Seconds after which a node is old enough to have a vote: it forgot nothing that still counts."""


def play(stage: Stage, *, options: str, append_only: AppendOnly = "no") -> None:
    """A holds three of five nodes, one of which restarts; B asks the others and that one."""
    nodes = stage.nodes(5, append_only=append_only)
    if options == GUARDED:
        stage.wait_until(lambda: all(n.uptime() >= OLD for n in nodes), "old nodes")
    _, _, n3, n4, n5 = nodes
    network = stage.links("A", nodes)
    a = stage.client("A", network.url(options), ttl=TTL, renew=False)
    b = stage.client("B", stage.quorum(nodes, options), ttl=TTL, renew=False)
    network.cut(n4, n5)
    a.acquires()
    stage.show_votes(nodes)
    n3.crash()
    n3.start()
    b.acquires()
    stage.show_votes((n3, n4, n5))
    b.writes("by B")
    a.writes("by A")


SCENARIO = Scenario(
    name="amnesia",
    title="A node restarts and has forgotten its vote",
    story=(
        "A reaches three of five nodes, and holds the lock by their votes. One of the three "
        "crashes and is started again at once. B reaches it, and the two that A could not reach."
    ),
    variants=[
        Variant(
            "no-guard",
            "the nodes keep nothing on disk, and the restart guard is off",
            partial(play, options=UNGUARDED),
            "The node votes twice, once for each: two majorities of five share one node, and it "
            "has forgotten. The fence is greater all the same, since it begins at the clock.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
        Variant(
            "disk",
            "every vote is on the node's disk before it is given (appendfsync always)",
            partial(play, options=UNGUARDED, append_only="always"),
            "The node remembers its vote, so B waits until A's time is over.",
        ),
        Variant(
            "guard",
            "the nodes keep nothing on disk, and the restart guard is on",
            partial(play, options=GUARDED),
            "B sees that the node has restarted, and counts no vote of it until no lease can still "
            "be valid that it may have forgotten.",
        ),
    ],
)
