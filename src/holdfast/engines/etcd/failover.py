"""Which endpoint to ask next, when one has given trouble.

1. One after the other is asked, the best one first; each of several has half of the time left.
2. Then the first once more: its connection may have been lost long ago, which is found out only by
   using it.
3. A member that answers, but has no leader, is worth asking again and again: an election passes.
   Silence and a closed door are not waited out: whether to come again is up to whoever asks.
"""

from collections.abc import Iterator

from holdfast.core.messages import Failed
from holdfast.core.ports import Clock
from holdfast.engines.etcd.lines import Line, Lines
from holdfast.engines.etcd.replies import Trouble

PAUSE = 0.1
"""How long to wait before asking again where there was trouble, which takes gRPC as long to see."""


class Failover:
    """The way of one request through the endpoints, until one of them answers.

    `once`: only the first one is asked, for what may have been done must not be done again.
    """

    def __init__(self, lines: Lines, clock: Clock, until: float, *, once: bool) -> None:
        self._lines, self._clock, self._until = lines, clock, until
        self._order = lines.order[:1] if once else list(lines.order)
        self._again = [] if once else self._order[:1]
        self._heard: dict[str, str] = {}
        self._electing: set[str] = set()

    def __iter__(self) -> Iterator[tuple[Line, float]]:
        """Whom to ask, and until when."""
        alone = len(self._order) == 1
        for name in self._names():
            now = self._clock()
            if self._heard and now >= self._until:
                return
            yield self._lines[name], self._until if alone else now + (self._until - now) / 2

    def _names(self) -> Iterator[str]:
        yield from self._order
        yield from self._again
        while self._again and self._electing:
            yield from [name for name in self._order if name in self._electing]

    def gave_trouble(self, line: Line, trouble: Trouble) -> float:
        """Note it, and have others go elsewhere; how long to wait before the next try: not at all,
        if it goes to another endpoint."""
        self._heard[line.name] = str(trouble)
        self._lines.avoid(line, str(trouble))
        if trouble.passing:
            self._electing.add(line.name)
            return PAUSE
        self._electing.discard(line.name)
        return PAUSE if len(self._order) == 1 else 0.0

    @property
    def failure(self) -> Failed:
        """What each endpoint has said last."""
        return Failed(tuple(self._heard.items()))
