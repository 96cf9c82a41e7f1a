"""Sending the same requests to several nodes at once.

The store of a quorum sends the requests of a `FanOut` to all its nodes before it reads any reply,
and calls `received` with the answers of each node until the fan-out is `over` or its time has
passed, and with later answers as well: after a lost vote they still show the winner.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

from holdfast.core.effects import Sleep
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
from holdfast.core.restart_guard import RestartGuard

T = TypeVar("T")


class FanOut:
    """Send these requests to these nodes, and collect the answers until `until`. Which requests
    there are is between the algorithm and the store; a quorum has those of `ToNode`."""

    __slots__ = ("answers", "nodes", "over", "requests", "settled", "until", "wake")

    def __init__(self, requests: Sequence[object], nodes: Sequence[int], until: float) -> None:
        self.requests = requests
        self.nodes = nodes
        self.until = until
        self.over = False
        """Whether there is nothing more to wait for."""
        self.settled = False
        """Whether its outcome is certain, so that answers that arrive later are dropped."""
        self.answers: dict[int, Sequence[Answer]] = {}
        """The answers of each node, one to every request."""
        self.wake: Callable[[], None] = _wake_no_caller
        """Called when it is over. Set by the store, for the thread or task that waits."""

    def received(self, node: int, answers: Sequence[Answer]) -> None:
        """A node has answered."""
        self.answers[node] = answers
        self.over = self.over or len(self.answers) == len(self.nodes)

    def answer_of(self, node: int, index: int = 0) -> Answer | None:
        """What a node answered to one of the requests; None if it did not."""
        answers = self.answers.get(node)
        return None if answers is None else answers[index]


def _wake_no_caller() -> None:
    """For a round that no thread or task waits for."""


class AcquireRound(FanOut):
    """One vote. It is over when `enough` nodes have granted, when it is certain that no holder at
    all gets `enough`, or when another holder has them.

    A node that was in quarantine when the vote `began` has no vote. That may turn out only while it
    is asked, when the client connects to it."""

    __slots__ = ("_began", "_enough", "_granted", "_guards", "_held", "_refused")

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
        self._held: dict[str, int] = {}
        self._refused = 0

    def received(self, node: int, answers: Sequence[Answer]) -> None:
        """A node has answered."""
        self.answers[node] = answers
        answer = answers[0]
        if type(answer) is Granted and self._guards[node].quarantined_until <= self._began:
            granted = self._granted
            granted[node] = answer.fence
            if len(granted) >= self._enough:
                self.over = self.settled = True
        elif not self.over:
            self._count_refusal(answer)
        if len(self.answers) == len(self.nodes):
            self.over = True

    def _count_refusal(self, answer: Answer) -> None:
        if type(answer) is Held:
            self._held[answer.holder] = self._held.get(answer.holder, 0) + 1
        else:
            self._refused += 1
        leader = max(self._held.values(), default=0)
        unknown = len(self.nodes) - len(self.answers)
        self.over = (
            leader >= self._enough
            or len(self.nodes) - self._refused < self._enough
            or max(leader, len(self._granted)) + unknown < self._enough
        )

    def grants(self) -> dict[int, int]:
        """The counter of each node that granted and has a vote."""
        return {  # of a copy: another thread may add the answer of a slow node
            node: fence
            for node, fence in list(self._granted.items())
            if self._guards[node].quarantined_until <= self._began
        }


class ReleaseRound(FanOut):
    """One release. It is over when `enough` nodes have released the lock."""

    __slots__ = ("_enough", "done")

    def __init__(self, request: ToNode, nodes: Sequence[int], until: float, enough: int) -> None:
        FanOut.__init__(self, (request,), nodes, until)
        self._enough = enough
        self.done = 0
        """How many nodes have released it."""

    def received(self, node: int, answers: Sequence[Answer]) -> None:
        """A node has answered."""
        self.answers[node] = answers
        if type(answers[0]) is Done:
            self.done += 1
            if self.done >= self._enough:
                self.over = self.settled = True
                return
        if len(self.answers) == len(self.nodes):
            self.over = True


Rounds: TypeAlias = Generator[FanOut | Sleep, None, T]


def describe(answer: Answer | None) -> str:
    """What a node answered, for error messages."""
    if answer is None:
        return "did not answer in time"
    if type(answer) is Failed:
        return answer.nodes[0][1]
    if type(answer) is Held:
        return f"held by {answer.holder or 'another holder'} for {answer.remaining:.3f} s"
    return _DESCRIPTIONS.get(type(answer), "answered")


_DESCRIPTIONS: dict[type, str] = {
    Granted: "granted",
    Done: "done",
    NotYours: "not yours",
    Missing: "no such lock",
}
