"""One lock on one node, as little of it as matters: whose it is, and for how long.

What a node does with a request is what the Redis engine's own scripts do on a virtual server, whose
clock stands: a mistake in a script is a mistake in the model.
"""

from functools import cache
from typing import NamedTuple, TypeAlias

from holdfast.core.messages import Acquire, Answer, Extend, Release, Repair, ToNode
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.exchange import Answers, Exchange, conclude
from holdfast.engines.redis.keys import keys_of
from holdfast.lab.model.decisions import FENCE, KEY
from holdfast.lab.simulator.driver import Timeline
from holdfast.lab.simulator.server import Server

NOBODY = -1

TICK = 1000
"""In milliseconds: any number would do."""

KEEP = 3600.0
"""How long a counter outlives its lock; nothing here is late enough to see it go."""


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
    """Put the lock back, unless it is held."""
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
    """Have a server that is as the node carry out the request, and see how it is then."""
    server, lock = new_server(), keys_of(KEY).lock
    if node != FREE:
        server.data.set(lock, b"%d" % node.owner, node.left * TICK)
    answer = ask(server, request)
    owner = server.data.get(lock)
    after = FREE if owner is None else Node(int(owner), server.data.pttl(lock) // TICK)
    return after, type(answer).__name__


def ask(server: Server, request: ToNode) -> Answer:
    """Have a server carry out a request, by the engine's own script for it."""
    commands = Commands(quorum=True, keep=KEEP, channel="")
    said: Answers | Exchange = commands.exchange((request,), False)
    while isinstance(said, Exchange):
        said = conclude(said, [server.execute(command) for command in said.commands])
    return said[0]


def new_server() -> Server:
    """A server without any lock."""
    return Server("node", Timeline(0), durable=False, defect=_fail)


def _fail(why: str) -> None:
    raise RuntimeError(why)
