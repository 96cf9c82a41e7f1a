"""One lock on one node: its holder and its counter.

What a node does with a request is what the Redis engine's own scripts do on a virtual server: a
mistake in a script is a mistake in the model.
"""

from functools import cache
from typing import NamedTuple

from holdfast.core.messages import Acquire, Answer, Granted, Raise, ToNode
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.exchange import Answers, Exchange, conclude
from holdfast.engines.redis.keys import keys_of
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
    """The holder of the lock; empty: it is free."""
    counter: int = 0

    def acquire(self, holder: str, proposed: int) -> tuple["Node", int | None]:
        """Grant the lock if it is free, with the counter; its holder gets the same grant again."""
        return _executed(self, Acquire, holder, proposed)

    def raise_counter(self, holder: str, token: int) -> tuple["Node", int | None]:
        """Raise the counter to the token, for the lock's holder; None if it is greater already."""
        return _executed(self, Raise, holder, token)

    def release(self, holder: str) -> "Node":
        """Free the lock, if it is this holder's."""
        return self.expire() if self.owner == holder else self

    def expire(self) -> "Node":
        """Free the lock. The counter stays."""
        return Node("", self.counter)


@cache
def _executed(node: Node, kind: type, holder: str, number: int) -> tuple[Node, int | None]:
    """Put a server into the node's state, have it execute a request, and read its new state."""
    server, (lock, fence, _) = _new_server(), keys_of(KEY)
    server.data.set(fence, b"%d" % (BASE + node.counter))
    if node.owner:
        server.data.set(lock, node.owner.encode())
    request: ToNode = Raise(KEY, holder, BASE + number)
    if kind is Acquire:
        request = Acquire(KEY, holder, TTL, proposed=BASE + number)
    answer = _ask(server, request)
    counter = int(server.data.get(fence) or 0) - BASE
    after = Node((server.data.get(lock) or b"").decode(), counter)
    return after, answer.fence - BASE if isinstance(answer, Granted) else None


def _ask(server: Server, request: ToNode) -> Answer:
    """Have a server execute a request, by the engine's own script for it."""
    commands = Commands(quorum=True, keep=KEEP, channel="")
    answers: Answers | Exchange = commands.exchange((request,), False)
    while isinstance(answers, Exchange):
        answers = conclude(answers, [server.execute(command) for command in answers.commands])
    return answers[0]


def _new_server() -> Server:
    return Server("node", Timeline(0), durable=False, internal_error=_fail)


def _fail(why: str) -> None:
    raise RuntimeError(why)
