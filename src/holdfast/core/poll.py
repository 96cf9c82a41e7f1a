"""Asking several nodes at once.

Whoever performs a poll sends its requests to all its nodes before it listens to any, and calls
`take` with what each answers, until it is `over` or its time is. What comes later is to be handed
to `take` as well: it can still tell who the rivals were.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from holdfast.core.guard import RestartGuard
from holdfast.core.messages import Answer, Done, Granted, ToNode

T = TypeVar("T")


class Poll:
    """Say these requests to these nodes, all at once, and listen until `until`."""

    __slots__ = ("answers", "nodes", "over", "requests", "until")

    def __init__(self, requests: Sequence[ToNode], nodes: Sequence[int], until: float) -> None:
        self.requests = requests
        self.nodes = nodes
        self.until = until
        self.over = False
        """Whether nothing that others might say could matter any more."""
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


class Vote(Poll):
    """A poll that is over with enough grants, or when there cannot be enough any more."""

    __slots__ = ("_began", "_enough", "_guards", "grants")

    def __init__(
        self,
        request: ToNode,
        nodes: Sequence[int],
        until: float,
        enough: int,
        guards: Sequence[RestartGuard] | None = None,
        began: float = 0.0,
    ) -> None:
        super().__init__((request,), nodes, until)
        self._enough = enough
        # Whether a node has a vote: that may turn out while it is asked.
        self._guards, self._began = guards, began
        self.grants: dict[int, int] = {}
        """The counter of each node that granted, and has a vote."""

    def take(self, node: int, answers: Sequence[Answer]) -> None:
        """Hear a node."""
        self.answers[node] = answers
        answer, guards = answers[0], self._guards
        if type(answer) is Granted and (
            guards is None or guards[node].quarantined_until <= self._began
        ):
            self.grants[node] = answer.fence
        if not self.over:
            granted = len(self.grants)
            silent = len(self.nodes) - len(self.answers)
            self.over = granted >= self._enough or granted + silent < self._enough


class Farewell(Poll):
    """A poll that is over when enough nodes have let go."""

    __slots__ = ("_done", "_enough")

    def __init__(self, request: ToNode, nodes: Sequence[int], until: float, enough: int) -> None:
        super().__init__((request,), nodes, until)
        self._enough = enough
        self._done = 0

    def take(self, node: int, answers: Sequence[Answer]) -> None:
        """Hear a node."""
        self.answers[node] = answers
        self._done += type(answers[0]) is Done
        decided = self._done >= self._enough or len(self.answers) == len(self.nodes)
        self.over = self.over or decided


@dataclass(slots=True)
class Pause:
    """Ask nobody anything until that instant."""

    until: float


Rounds: TypeAlias = Generator[Poll | Pause, None, T]
