"""What is on its way to nodes, and not answered yet."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from holdfast.core.messages import Acquire, Failed, Release, Repair, ToNode
from holdfast.core.poll import Poll
from holdfast.engines.redis.nodes import Node, RefusedError
from holdfast.engines.redis.phrases import Phrase, Reply, conclude, failed

ORDERED = (Acquire, Release, Repair)
"""What makes a lock, or ends one, and so must keep its order."""


def holders_of(poll: Poll) -> Sequence[str]:
    """The holders whose locks a poll may make, or end."""
    return [request.holder for request in poll.requests if isinstance(request, ORDERED)]


class Asked(Protocol):
    """Something on its way to a node."""

    @property
    def requests(self) -> Sequence[ToNode]:
        """What is to be answered."""
        ...

    @property
    def until(self) -> float:
        """When its answer is overdue."""
        ...


class Owed:
    """A phrase on its way, and the poll that wants to know what comes of it. It keeps nothing of
    any node, so that one will do for all."""

    __slots__ = ("_bell", "count", "phrase", "poll", "requests", "text")

    def __init__(self, phrase: Phrase, poll: Poll, bell: Any = None) -> None:
        self.phrase = phrase
        self.poll = poll
        self.requests = poll.requests
        self.count = len(phrase.commands)
        """How many replies there will be."""
        self.text = phrase.commands[0] if self.count == 1 else b"".join(phrase.commands)
        self._bell = bell  # under asyncio: the future that whoever asked awaits

    @property
    def until(self) -> float:
        """When its answer is overdue."""
        return self.poll.until

    def hear(self, node: Node, replies: list[Reply], behind: "Iterable[Asked]") -> "Owed | None":
        """Take all replies of a node, on whose connection `behind` is owed next; gives what else is
        to be said to it."""
        if self.poll.over and replies == [1] and type(self.requests[0]) is Release:
            if node.trouble:
                node.is_well()
            return None  # good news that nobody needs any more
        outcome = conclude(self.phrase, replies)
        if isinstance(outcome, Phrase):
            if not self._is_released(behind):
                return Owed(outcome, self.poll, self._bell)
            outcome = [failed("given back before its scripts were loaded")]
        if node.trouble:
            node.is_well()
        self.poll.take(node.index, outcome)
        if type(outcome[0]) is Failed and "READONLY" in str(outcome[0]):
            raise RefusedError("it is not the master any more")
        return None

    def _is_released(self, behind: "Iterable[Asked]") -> bool:
        """Whether this is an acquire whose release has gone out already: it must not come after."""
        request = self.requests[0]
        return isinstance(request, Acquire) and any(
            isinstance(later, Release) and later.holder == request.holder
            for asked in behind
            for later in asked.requests
        )

    def ring(self) -> None:
        """Wake whoever asked."""
        if not self._bell.done():
            self._bell.set_result(None)
