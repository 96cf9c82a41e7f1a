"""How a request gets to the server that is to answer it. Pure: a route yields rounds to be sent."""

from collections.abc import Generator, Sequence
from typing import Protocol, TypeAlias, TypeVar

from holdfast.core.fanout import FanOut, Pause
from holdfast.core.messages import Acquire, Answer, Done, Extend, Failed, Granted, Request, Write
from holdfast.core.quorum import Quorum
from holdfast.engines.redis.commands import Ping, Replicated
from holdfast.engines.redis.nodes import FIRST_CONTACT, Nodes

Effect: TypeAlias = FanOut | Sequence[FanOut] | Pause
"""A round, or several to be sent together, that is to be waited for; or a pause."""

T = TypeVar("T")
Steps: TypeAlias = Generator[Effect, None, T]


class Route(Protocol):
    """The way of requests, of any number of threads or tasks."""

    def ask(self, requests: Sequence[Request], until: float) -> Steps[Sequence[Answer]]:
        """Answer each request."""
        ...


class Single:
    """One server. A second connection to it, node 1, is for what must have one to itself: WAIT,
    which blocks it, and the transactions of cells, which WATCH on it."""

    def __init__(self, nodes: Nodes, replicas: int) -> None:
        self._nodes, self._replicas = nodes, replicas
        nodes.is_direct = not replicas

    def ask(self, requests: Sequence[Request], until: float) -> Steps[Sequence[Answer]]:
        """Answer each request."""
        main, exclusive = 0, 1
        first = requests[0]
        asked = FanOut(requests, (exclusive if type(first) is Write else main,), until)
        yield asked
        answers = self._nodes.answers(asked)
        if self._replicas and isinstance(first, (Acquire, Extend)):
            return (yield from replicated(self._nodes, exclusive, first.key, answers, until))
        return answers


class Voting:
    """Independent nodes, of which a quorum decides. The first request waits for connections to all
    of them, for a while, so that no node misses it only because it was the first."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._is_first = True

    def ask(self, requests: Sequence[Request], until: float) -> Steps[Sequence[Answer]]:
        """Answer each request."""
        if self._is_first:
            self._is_first = False
            began = self._quorum.clock()
            connected_by = min(until, began + FIRST_CONTACT)
            yield FanOut((Ping(),), self._quorum.all_nodes, connected_by)  # type: ignore[arg-type]
            until += self._quorum.clock() - began
        return (yield from self._quorum.ask(requests, until))


def replicated(
    nodes: Nodes, exclusive: int, key: str, answers: Sequence[Answer], until: float
) -> Steps[Sequence[Answer]]:
    """Count only what enough replicas have acknowledged."""
    if not any(isinstance(answer, (Granted, Done)) for answer in answers):
        return answers
    confirmation = FanOut((Replicated(key),), (exclusive,), until)  # type: ignore[arg-type]
    yield confirmation
    [acknowledged] = nodes.answers(confirmation)
    if not isinstance(acknowledged, Failed):
        return answers
    return [acknowledged if isinstance(each, (Granted, Done)) else each for each in answers]
