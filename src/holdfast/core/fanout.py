"""Sending the same requests to several nodes at once.

The store sends the requests of a `FanOut` to all its nodes before it reads any reply, and calls
`received` with the answers of each node: until the fan-out is `over` or its time has passed, and
after that as well, since after a lost vote late answers still show the winner.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
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

    __slots__ = ("answers", "nodes", "over", "requests", "until", "wake")

    def __init__(self, requests: Sequence[object], nodes: Sequence[int], until: float) -> None:
        self.requests = requests
        self.nodes = nodes
        self.until = until
        self.over = False
        """Whether there is nothing more to wait for."""
        self.answers: Mapping[int, Sequence[Answer]] = {}
        """The answers of each node, one to every request. Replaced, and never changed: the caller
        may be reading them while another thread adds those of a slow node."""
        self.wake: Callable[[], None] = _wake_no_caller
        """Called when it is over. Set by the store, for the thread or task that waits."""

    def received(self, node: int, answers: Sequence[Answer]) -> None:
        """A node has answered."""
        self.answers = {**self.answers, node: answers}
        if not self.over and (len(self.answers) == len(self.nodes) or self._is_decided()):
            self.over = True
            self.wake()

    def stop(self) -> None:
        """Its caller waits no more."""
        self.over = True

    def _is_decided(self) -> bool:
        """Whether the nodes that have not answered cannot change the outcome."""
        return False

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

    __slots__ = ("_began", "_enough", "_guards")

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

    def _is_decided(self) -> bool:
        granted = len(self.grants())
        if granted >= self._enough:
            return True
        answers = [answers[0] for answers in self.answers.values()]
        holders = [answer.holder for answer in answers if type(answer) is Held]
        leader = max(map(holders.count, holders), default=0)
        refused = len(answers) - granted - len(holders)
        unknown = len(self.nodes) - len(answers)
        return (
            leader >= self._enough
            or len(self.nodes) - refused < self._enough
            or max(leader, granted) + unknown < self._enough
        )

    def grants(self) -> dict[int, int]:
        """The counter of each node that granted and has a vote."""
        return {
            node: answers[0].fence
            for node, answers in self.answers.items()
            if type(answers[0]) is Granted and self._guards[node].quarantined_until <= self._began
        }


class ReleaseRound(FanOut):
    """One release. It is over when `enough` nodes have released the lock."""

    __slots__ = ("_enough",)

    def __init__(self, request: ToNode, nodes: Sequence[int], until: float, enough: int) -> None:
        FanOut.__init__(self, (request,), nodes, until)
        self._enough = enough

    def _is_decided(self) -> bool:
        return self.done >= self._enough

    @property
    def done(self) -> int:
        """How many nodes have released it."""
        return sum(type(answers[0]) is Done for answers in self.answers.values())


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
