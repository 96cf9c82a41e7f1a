"""Votes of a quorum: lost in a restart, expired by a clock, split among many clients."""

from functools import partial

from holdfast.lab.history import Kind
from holdfast.lab.scenarios.actors import Crowd
from holdfast.lab.scenarios.scenario import (
    NOT_GRANTED,
    TWO_HOLDERS,
    UNCHECKED_WRITE,
    Scenario,
    Variant,
)
from holdfast.lab.scenarios.stage import Node, Stage, quorum_of
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


SPLIT_VOTE_TTL = 10.0
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
    crowd = stage.crowd(dict(sorted(urls.items())), ttl=SPLIT_VOTE_TTL)
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
    # Only a vote that is withdrawn is deleted, and no node votes twice in a round.
    withdrawn = max(node.calls("del") - had for node, had in zip(nodes, before, strict=True))
    stage.note("", Kind.NOTED, f"{winner} won in round {1 + withdrawn}")


SPLIT_VOTE = Scenario(
    name="split-vote",
    title="Eight clients ask at the same instant, and the votes are split",
    story=(
        "A, C, E and G are near to two of four nodes; B, D, F and H to the other two. When "
        "all ask at the same instant, each node votes for the first request, and no client gets "
        "the three votes that are needed. All withdraw their votes and try again."
    ),
    bound=BOUND,
    variants=[
        Variant(
            "in-step",
            "all try again after the same delay",
            in_step,
            "They split the vote again in every round.",
            breaks=frozenset({NOT_GRANTED}),
        ),
        Variant(
            "at-random",
            "each tries again after a random delay, as holdfast does when it waits",
            at_random,
            "After a few rounds, one of them is alone for long enough to get a "
            "majority. The delays grow with the number of rivals.",
        ),
    ],
)
