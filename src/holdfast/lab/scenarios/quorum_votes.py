"""Votes of a quorum: lost in a restart, expired by a clock."""

from functools import partial

from holdfast.lab.scenarios.scenario import (
    TWO_HOLDERS,
    UNCHECKED_WRITE,
    Scenario,
    Variant,
)
from holdfast.lab.scenarios.stage import Stage
from holdfast.lab.servers.redis import AppendOnly

AMNESIA_TTL = 2.0
UNGUARDED, GUARDED = "restart_guard=off", f"restart_guard=on&max_ttl={AMNESIA_TTL:g}"
OLD = int(AMNESIA_TTL) + 2
"""Seconds after which a restarted node has a vote again: what it lost has expired."""


def play_amnesia(stage: Stage, *, options: str, append_only: AppendOnly = "no") -> None:
    """A holds three of five nodes, one of which restarts; B asks the others and that one."""
    nodes = stage.nodes(5, append_only=append_only)
    if options == GUARDED:
        stage.wait_until(lambda: all(n.uptime() >= OLD for n in nodes), "old nodes")
    _, _, n3, n4, n5 = nodes
    network = stage.links("A", nodes)
    a = stage.client("A", network.url(options), ttl=AMNESIA_TTL, renew=False)
    b = stage.client("B", stage.quorum(nodes, options), ttl=AMNESIA_TTL, renew=False)
    network.cut(n4, n5)
    a.acquires()
    stage.show_votes(nodes)
    n3.crash()
    n3.start()
    b.acquires()
    stage.show_votes((n3, n4, n5))
    b.writes("by B")
    a.writes("by A")


AMNESIA = Scenario(
    name="amnesia",
    title="A node restarts and has lost its vote",
    story=(
        "A reaches three of five nodes, and holds the lock by their votes. One of the three "
        "crashes and is started again at once. B reaches it, and the two that A could not reach."
    ),
    variants=[
        Variant(
            "no-guard",
            "the nodes keep nothing on disk, and the restart guard is off",
            partial(play_amnesia, options=UNGUARDED),
            "The node votes twice, once for each client: two majorities of five share one node, "
            "and it has lost its data. B's fence is greater all the same, since it begins at the "
            "clock.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
        Variant(
            "disk",
            "every vote is on the node's disk before it is given (appendfsync always)",
            partial(play_amnesia, options=UNGUARDED, append_only="always"),
            "The node still has its vote, so B waits until A's lease has expired.",
        ),
        Variant(
            "guard",
            "the nodes keep nothing on disk, and the restart guard is on",
            partial(play_amnesia, options=GUARDED),
            "B sees that the node has restarted, and counts no vote of it until every lease that "
            "the node may have lost has expired.",
        ),
    ],
)


CLOCK_JUMP_TTL = 2.0
LITTLE = 0.018
"""Less than what a holder allows for: 1 % of its ttl and 2 ms, which is 22 ms."""


def play_clock_jump(stage: Stage, *, jump: float) -> None:
    """A holds three of five nodes, and the clock of one of them jumps; B asks for the rest."""
    nodes = stage.nodes(5, own_clock=True)
    _, _, n3, n4, n5 = nodes
    options = "restart_guard=off"
    network = stage.links("A", nodes)
    a = stage.client("A", network.url(options), ttl=CLOCK_JUMP_TTL, renew=False)
    b = stage.client("B", stage.quorum(nodes, options), ttl=CLOCK_JUMP_TTL, renew=False)
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


CLOCK_JUMP = Scenario(
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
            partial(play_clock_jump, jump=LITTLE),
            "A's lease ends 1 % of its ttl and 2 ms before the nodes' own expiry, and the jump is "
            "smaller than that: A's lease has ended before the first node grants the lock again.",
        ),
        Variant(
            "past-ttl",
            "it jumps by more than the ttl",
            partial(play_clock_jump, jump=CLOCK_JUMP_TTL + 1),
            "For the node, A's vote has expired, so it votes for B: a clock that is set forward is "
            "as bad as lost data. B's fence is greater all the same, and A's write is rejected.",
            breaks=frozenset({TWO_HOLDERS, UNCHECKED_WRITE}),
        ),
    ],
)
