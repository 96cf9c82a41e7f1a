"""One lock on one node: its holder, or the readers that share it, and its counter.

What a node does with a request is what the Redis engine's own scripts do on a virtual server: a
mistake in a script is a mistake in the model.
"""

from functools import cache
from typing import NamedTuple

from holdfast.core.messages import (
    Acquire,
    Answer,
    Granted,
    Raise,
    Release,
    Repair,
    ToNode,
)
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.keys import keys_of, shares_of
from holdfast.engines.redis.protocol import Answers, Exchange, conclude
from holdfast.lab.simulator.driver import EPOCH, Timeline
from holdfast.lab.simulator.redis.server import Server

KEY = "lock"

BASE = int(EPOCH) * 1_000_000
"""What a counter of 0 is on a server: its own clock, which a proposal must be near."""

TTL, KEEP = 1.0, 3600.0
"""In seconds. Any would do: the server's clock stands still."""


class Node(NamedTuple):
    """The lock on one node, and what the node does in one atomic step."""

    owner: str = ""
    """The holder of the lock, or the readers, each a letter; empty: it is free."""
    counter: int = 0
    shared: bool = False

    def acquire(self, holder: str, proposed: int, reads: bool = False) -> tuple["Node", int | None]:
        """Grant the lock if it is free, or a share of it to a reader, with the counter; its holder
        gets the same grant again."""
        return _executed(self, Acquire, holder, proposed, reads)

    def raise_counter(self, holder: str, fence: int) -> tuple["Node", int | None]:
        """Raise the counter to the fence, for a holder; None if it is greater already."""
        return _executed(self, Raise, holder, fence)

    def repair(self, holder: str, fence: int, reads: bool = False) -> "Node":
        return _executed(self, Repair, holder, fence, reads)[0]

    def release(self, holder: str) -> "Node":
        """Free the lock, or a share of it, if it is this holder's."""
        return _executed(self, Release, holder)[0]

    def expire(self) -> "Node":
        """Free the lock. The counter stays."""
        return Node("", self.counter)


@cache
def _executed(
    node: Node, kind: type, holder: str, number: int = 0, reads: bool = False
) -> tuple[Node, int | None]:
    """Put a server into the node's state, have it execute a request, and read its new state."""
    server = Server("node", Timeline(0), durable=False, internal_error=_fail)
    lock, fence, _ = keys_of(KEY)
    for member in node.owner:
        _ask(server, _request(Acquire, member, 0, node.shared))
    server.data.set(fence, b"%d" % (BASE + node.counter))
    answer = _ask(server, _request(kind, holder, number, reads))
    counter = int(server.data.get(fence) or 0) - BASE
    owner = "".join(sorted(place.holder for place in server.places(KEY) if place.has_turn))
    shared = shares_of((server.data.get(lock) or b"").decode()) is not None
    after = Node(owner, counter, shared)
    return after, answer.fence - BASE if isinstance(answer, Granted) else None


def _request(kind: type, holder: str, number: int, reads: bool) -> ToNode:
    shares = 0 if reads else 1
    if kind is Acquire:
        return Acquire(KEY, holder, TTL, proposed=BASE + number, shares=shares)
    if kind is Repair:
        return Repair(KEY, holder, TTL, BASE + number, shares)
    return Raise(KEY, holder, BASE + number) if kind is Raise else Release(KEY, holder)


def _ask(server: Server, request: ToNode) -> Answer:
    """Have a server execute a request, by the engine's own script for it."""
    commands = Commands(quorum=True, keep=KEEP, channel="")
    answers: Answers | Exchange = commands.exchange((request,), False)
    while isinstance(answers, Exchange):
        answers = conclude(answers, [server.execute(command) for command in answers.commands])
    return answers[0]


def _fail(why: str) -> None:
    raise RuntimeError(why)
