"""One lock on one node, as little of it as matters: whose it is, and for how long.

What a node does with a request is what `lab.votes` does, which is what the scripts do on a server.
"""

from functools import cache
from math import inf
from typing import NamedTuple, TypeAlias

from holdfast.core.messages import Acquire, Extend, Release, Repair, ToNode
from holdfast.lab.model.decisions import FENCE, KEY
from holdfast.lab.votes import Row, Votes

NOBODY = -1


class Node(NamedTuple):
    """The lock on one node."""

    owner: int = NOBODY
    left: int = 0
    """For how many ticks of the node's clock it is the owner's, unless extended."""


Outcome: TypeAlias = tuple[Node, str]
"""How a node is afterwards, and what it said: a name in `decisions.SAID`, or "Held"."""


@cache
def acquire(node: Node, who: int, ttl: int) -> Outcome:
    """Grant the lock if it is free."""
    return _answer(node, Acquire(KEY, str(who), ttl))


@cache
def extend(node: Node, who: int, ttl: int) -> Outcome:
    """Let the lock last for at least the ttl, if it is theirs."""
    return _answer(node, Extend(KEY, str(who), ttl, FENCE))


@cache
def repair(node: Node, who: int, ttl: int) -> Outcome:
    """Put the lock back, unless it is somebody's."""
    return _answer(node, Repair(KEY, str(who), ttl, FENCE))


@cache
def release(node: Node, who: int) -> Outcome:
    """Free the lock, if it is theirs."""
    return _answer(node, Release(KEY, str(who)))


def tick(node: Node) -> Node:
    """A tick of the node's clock later."""
    return Node(node.owner, node.left - 1) if node.left > 1 else FREE


FREE = Node()


def _answer(node: Node, request: ToNode) -> Outcome:
    votes = Votes()
    votes.rows[KEY] = row = Row()
    if node != FREE:
        row.holder, row.ends_at, row.keep_until = str(node.owner), node.left, inf
    answer = votes.answer(request, 0)
    after = Node(int(row.holder), int(row.ends_at)) if row.holder else FREE
    return after, type(answer).__name__
