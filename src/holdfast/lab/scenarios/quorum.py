"""A quorum: votes are lost in a restart, or expired by a clock; nodes are down, or cut off."""

from collections.abc import Callable, Sequence
from functools import partial

from holdfast.lab.checkers import NOT_GRANTED, TWO_HOLDERS, UNCHECKED_WRITE
from holdfast.lab.history import Kind
from holdfast.lab.scenarios.scenario import Scenario, Variant
from holdfast.lab.scenarios.stage import Node, Stage, quorum_of
from holdfast.lab.servers.redis import AppendOnly

LOST_VOTE_TTL = 2.0
UNGUARDED, GUARDED = "restart_guard=off", f"restart_guard=on&max_ttl={LOST_VOTE_TTL:g}"
OLD = int(LOST_VOTE_TTL) + 2
"""Seconds after which a restarted node has a vote again: what it lost has expired."""


def _lose_vote(
    stage: Stage, nodes: Sequence[Node], lose_vote: Callable[[Node], None], options: str = UNGUARDED
) -> None:
    """A holds three of five nodes, one of which loses its vote; B asks the others and that one."""
    _, _, n3, n4, n5 = nodes
    network = stage.links("A", nodes)
    a = stage.client("A", network.url(options), ttl=LOST_VOTE_TTL, renew=False)
    b = stage.client("B", quorum_of(nodes, options), ttl=LOST_VOTE_TTL, renew=False)
    network.cut(n4, n5)
    a.acquires()
    stage.show_votes(nodes)
    lose_vote(n3)
    b.acquires()
    stage.show_votes((n3, n4, n5))
    b.writes("by B")
    a.writes("by A")


def _amnesia(stage: Stage, *, options: str, append_only: AppendOnly = "no") -> None:
    nodes = stage.nodes(5, append_only=append_only)
    if options == GUARDED:
        stage.wait_until(lambda: all(n.uptime() >= OLD for n in nodes), "old nodes")

    def restart(node: Node) -> None:
        node.crash()
        node.come_back()

    _lose_vote(stage, nodes, restart, options)


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
            partial(_amnesia, options=UNGUARDED),
            "The node votes twice, once for each client: two majorities of five share one node, "
            "and it has lost its data. B's fence is greater all the same, since it begins at the "
            "clock.",
            breaks=(TWO_HOLDERS, UNCHECKED_WRITE),
        ),
        Variant(
            "disk",
            "every vote is on the node's disk before it is given (appendfsync always)",
            partial(_amnesia, options=UNGUARDED, append_only="always"),
            "The node still has its vote, so B waits until A's lease has expired.",
        ),
        Variant(
            "guard",
            "the nodes keep nothing on disk, and the restart guard is on",
            partial(_amnesia, options=GUARDED),
            "B sees that the node has restarted, and counts no vote of it until every lease that "
            "the node may have lost has expired.",
        ),
    ],
)


LITTLE = 0.018
"""Less than what a holder allows for: 1 % of its ttl and 2 ms, which is 22 ms."""


def _clock_jump(stage: Stage, *, jump: float) -> None:
    _lose_vote(stage, stage.nodes(5, own_clock=True), lambda node: node.jump(jump))


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
            partial(_clock_jump, jump=LITTLE),
            "A's lease ends 1 % of its ttl and 2 ms before the nodes' own expiry, and the jump is "
            "smaller than that: A's lease has ended before the first node grants the lock again.",
        ),
        Variant(
            "past-ttl",
            "it jumps by more than the ttl",
            partial(_clock_jump, jump=LOST_VOTE_TTL + 1),
            "For the node, A's vote has expired, so it votes for B: a clock that is set forward is "
            "as bad as lost data. B's fence is greater all the same, and A's write is rejected.",
            breaks=(TWO_HOLDERS, UNCHECKED_WRITE),
        ),
    ],
)


NODES_DOWN_TTL = 4.0


def _nodes_down(stage: Stage, *, down: int, back: int = 0) -> None:
    nodes = stage.nodes(5)
    url = quorum_of(nodes)
    actors = [stage.client(who, url, ttl=NODES_DOWN_TTL, renew=False) for who in ("A", "B")]
    for node in nodes[:down]:
        node.crash()
    if back:
        actors[0].tries(timeout=0.5)
    for node in nodes[:back]:
        node.come_back()
    stage.calm()
    for actor in actors:
        if actor.tries(timeout=1.5).kind is Kind.GRANTED:
            actor.extends()
            actor.writes(f"by {actor.who}")
            actor.releases()


NODES_DOWN = Scenario(
    name="nodes-down",
    title="Some of the nodes are down",
    story=(
        "Two or three of five nodes crash. A asks for the lock, extends it, writes, and releases "
        "it; then B does."
    ),
    variants=[
        Variant(
            "minority",
            "two of five are down",
            partial(_nodes_down, down=2),
            "Three of five are a majority, and more is not needed for anything.",
        ),
        Variant(
            "majority",
            "three of five are down",
            partial(_nodes_down, down=3),
            "Two clients could each have two votes of five. So no client gets the lock, and "
            "the error names what is wrong with each node.",
            breaks=(NOT_GRANTED,),
        ),
        Variant(
            "one-comes-back",
            "three of five are down, and one of them comes back",
            partial(_nodes_down, down=3, back=1),
            "Three of five answer again, and the lock is available without any intervention.",
        ),
    ],
)


PARTITION_TTL = 1.5


def _partition_of_quorum(stage: Stage) -> None:
    """A keeps two of five nodes, B reaches the other three."""
    nodes = stage.nodes(5)
    near, far = nodes[:2], nodes[2:]
    networks = {who: stage.links(who, nodes) for who in ("A", "B")}
    a, b = (
        stage.client(who, networks[who].url(UNGUARDED), ttl=PARTITION_TTL) for who in ("A", "B")
    )
    a.acquires()
    stage.wait_until(lambda: all(node.vote() for node in nodes), "votes of all nodes")
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


def _partition_of_pair(stage: Stage) -> None:
    """A keeps the master, B reaches its replica, which is promoted there."""
    master, replica, link = stage.pair()
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
            _partition_of_quorum,
            "A cannot renew with two of five, so its lease expires by its own clock, and only then "
            "do the three on the other side grant the lock to B. When the network is healed, "
            "both clients get the lock again.",
        ),
        Variant(
            "pair",
            "a master on A's side, its replica on B's, where it is promoted",
            _partition_of_pair,
            "Two masters are two locks. A's renewals still succeed on the old one. Here B even "
            "has to wait until A's old lease has expired on the new one. That does not help, "
            "since A has renewed meanwhile.",
            breaks=(TWO_HOLDERS, UNCHECKED_WRITE),
        ),
    ],
)
