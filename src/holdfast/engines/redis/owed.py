"""What is on its way to nodes, and not answered yet."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from holdfast.core.attempt import holder_of
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Acquire, Answer, Failed, Release, ToNode
from holdfast.engines.redis.nodes import Node, RefusedError
from holdfast.engines.redis.phrases import Phrase, Reply, conclude, failed


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
    any node but what was heard last, so that one will do for all."""

    __slots__ = ("_last", "bell", "number", "phrase", "poll", "text", "together", "usual")

    def __init__(self, phrase: Phrase, poll: FanOut, bell: Any = None) -> None:
        self.phrase = phrase
        self.poll = poll
        self.bell = bell  # under asyncio: the future that whoever asked awaits
        self.number, self.usual = phrase.number, phrase.usual
        self.text = b"".join(phrase.commands)
        self.together = 1
        """How many were said in one command, of which this is the first."""
        self._last: tuple[int, Sequence[Answer]] | None = None
        """The number that was heard last, and what it means."""

    @property
    def requests(self) -> Sequence[ToNode]:
        """What is to be answered."""
        return self.poll.requests

    @property
    def count(self) -> int:
        """How many replies there will be."""
        return len(self.phrase.commands)

    @property
    def until(self) -> float:
        """When its answer is overdue."""
        return self.poll.until

    def hear_number(self, node: Node, number: int) -> bool:
        """Take a reply that is a number, if this is a phrase that may have one; True if there is
        nothing more to wait for."""
        if node.trouble:
            node.is_well()
        poll, read = self.poll, self.number
        if poll.settled or read is None:
            return False
        last = self._last  # read once: on two circuits, two threads may hear at the same time
        if last is None or last[0] != number:  # mostly nodes agree, and one answer will do for all
            last = self._last = number, (read(number),)
        poll.take(node.index, last[1])
        return poll.over

    def hear_usual(self, node: Node) -> None:
        """Take the reply that was to be expected."""
        if node.trouble:
            node.is_well()
        if not self.poll.settled:
            self.poll.take(node.index, self.phrase.usually)

    def hear(self, node: Node, replies: list[Reply], behind: "Iterable[Asked]") -> "Owed | None":
        """Take all replies of a node, on whose connection `behind` is owed next; gives what else is
        to be said to it."""
        if self.number is not None and type(replies[0]) is int:
            self.hear_number(node, replies[0])
            return None
        poll = self.poll
        try:
            outcome = conclude(self.phrase, replies)
        except ValueError as error:  # somebody else has written to our keys
            outcome = [failed(f"what it has makes no sense: {error}")] * len(self.requests)
        if isinstance(outcome, Phrase):
            return self.again(node, outcome, behind)
        if node.trouble:
            node.is_well()
        poll.take(node.index, outcome)
        if type(outcome[0]) is Failed and "READONLY" in str(outcome[0]):
            raise RefusedError("it is not the master any more")
        return None

    def again(self, node: Node, phrase: Phrase, behind: "Iterable[Asked]") -> "Owed | None":
        """What is to be said to a node once more; None if it must not be, and has failed there."""
        if not self._is_released(behind):
            return Owed(phrase, self.poll, self.bell)
        if node.trouble:
            node.is_well()
        self.poll.take(node.index, (failed("given back before it could be said again"),))
        return None

    def _is_released(self, behind: "Iterable[Asked]") -> bool:
        """Whether this is an acquire whose release has gone out already: it must not come after."""
        request = self.requests[0]
        return isinstance(request, Acquire) and any(
            isinstance(later, Release) and holder_of(later.holder) == holder_of(request.holder)
            for asked in list(behind)  # another thread may say something meanwhile
            for later in asked.requests
        )

    def notify(self) -> None:
        """Wake whoever asked."""
        if not self.bell.done():
            self.bell.set_result(None)
