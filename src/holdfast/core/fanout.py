"""Asking several nodes at once.

Whoever performs a poll sends its requests to all its nodes before it listens to any, and calls
`take` with what each answers, until it is `over` or its time is. What comes later is to be handed
to `take` as well: it can still tell who the rivals were.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from holdfast.core.guard import RestartGuard, quarantine_of
from holdfast.core.messages import (
    Answer,
    Done,
    Failed,
    Granted,
    Held,
    Missing,
    NotYours,
    ToNode,
)

T = TypeVar("T")


class FanOut:
    """Say these requests to these nodes, all at once, and listen until `until`."""

    __slots__ = ("answers", "nodes", "over", "requests", "settled", "until")

    def __init__(self, requests: Sequence[ToNode], nodes: Sequence[int], until: float) -> None:
        self.requests = requests
        self.nodes = nodes
        self.until = until
        self.over = False
        """Whether there is nothing more to wait for."""
        self.settled = False
        """Whether it does not even matter what others say later."""
        self.answers: dict[int, Sequence[Answer]] = {}
        """What each node answered, to every request."""

    def take(self, node: int, answers: Sequence[Answer]) -> None:
        """Hear a node."""
        self.answers[node] = answers
        self.over = self.over or len(self.answers) == len(self.nodes)

    def said(self, node: int, index: int = 0) -> Answer | None:
        """What a node answered to one of the requests; None if it said nothing."""
        answers = self.answers.get(node)
        return None if answers is None else answers[index]


class AcquireRound(FanOut):
    """A poll that is over with enough grants, or when there cannot be enough any more.

    Whether a node has a vote, or was in quarantine when the vote `began`, may turn out while it is
    asked."""

    __slots__ = ("_began", "_enough", "_granted", "_guards")

    def __init__(
        self,
        request: ToNode,
        nodes: Sequence[int],
        until: float,
        enough: int,
        guards: Sequence[RestartGuard],
        began: float,
    ) -> None:
        FanOut.__init__(self, (request,), nodes, until)
        self._enough = enough
        self._guards, self._began = guards, began
        self._granted: dict[int, int] = {}

    def take(self, node: int, answers: Sequence[Answer]) -> None:
        """Hear a node."""
        self.answers[node] = answers
        answer = answers[0]
        if type(answer) is Granted and self._guards[node].quarantined_until <= self._began:
            granted = self._granted
            granted[node] = answer.fence
            if len(granted) >= self._enough:
                self.over = self.settled = True
        elif len(self._granted) + len(self.nodes) - len(self.answers) < self._enough:
            self.over = True

    def grants(self) -> dict[int, int]:
        """The counter of each node that granted, and has a vote."""
        if max(map(quarantine_of, self._guards)) <= self._began:
            return self._granted
        return {
            node: fence
            for node, fence in self._granted.items()
            if self._guards[node].quarantined_until <= self._began
        }


class ReleaseRound(FanOut):
    """A poll that is over when enough nodes have let go."""

    __slots__ = ("_enough", "done")

    def __init__(self, request: ToNode, nodes: Sequence[int], until: float, enough: int) -> None:
        FanOut.__init__(self, (request,), nodes, until)
        self._enough = enough
        self.done = 0
        """How many have let go."""

    def take(self, node: int, answers: Sequence[Answer]) -> None:
        """Hear a node."""
        self.answers[node] = answers
        if type(answers[0]) is Done:
            self.done += 1
            if self.done >= self._enough:
                self.over = self.settled = True
                return
        if len(self.answers) == len(self.nodes):
            self.over = True


@dataclass(slots=True)
class Pause:
    """Ask nobody anything until that instant."""

    until: float


Rounds: TypeAlias = Generator[FanOut | Pause, None, T]


def in_words(answer: Answer | None) -> str:
    """What a node answered, for people."""
    if answer is None:
        return "did not answer in time"
    if type(answer) is Failed:
        return answer.nodes[0][1]
    if type(answer) is Held:
        return f"held by {answer.holder or 'somebody else'} for {answer.remaining:.3f} s"
    return _TOLD.get(type(answer), "answered")


_TOLD: dict[type, str] = {
    Granted: "granted",
    Done: "done",
    NotYours: "not yours",
    Missing: "no such lock",
}
