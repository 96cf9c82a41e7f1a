"""What is said to all nodes of a quorum alike, under asyncio: put together once, not once for each.

1. The order in which something is said, to all or to one alone, is the order in which it goes out.
2. Calls of one kind that follow one another are made in one.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from holdfast.engines.redis.channel import FEW, Channel
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Kind


class Chorus:
    """The connections to all nodes, while none is missing."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = channels
        self._loop = channels[0].loop
        self._unsent: list[Owed] = []
        for channel in channels:
            channel.send_chorus = self._send

    def say(self, owed: Owed) -> None:
        """Send something to all, within this turn of the loop."""
        try:
            for channel in self._channels:
                channel.owed.append(owed)
            unsent = self._unsent
            if not unsent:
                self._loop.call_soon(self._send)
            unsent.append(owed)
            if len(unsent) == FEW:
                self._send()
        except BaseException:
            self._interrupt()
            raise

    def disband(self) -> None:
        """One is gone: from now on each is spoken to alone."""
        self._send()
        for channel in self._channels:
            channel.send_chorus = None

    def _send(self) -> None:
        try:
            unsent, self._unsent = self._unsent, []
            if unsent:
                text = b"".join(map(_in_one, _neighbours(unsent)))
                for channel in self._channels:
                    channel.write(text)
        except BaseException:
            self._interrupt()
            raise

    def _interrupt(self) -> None:
        """A Ctrl-C has struck in the middle: nobody knows who was told."""
        for channel in self._channels:
            channel.interrupt()


def _neighbours(unsent: Sequence[Owed]) -> Iterator[list[Owed]]:
    """In order; those that can be said in one command are together."""
    for joint, group in groupby(unsent, _kind_of):
        if joint is None:
            yield from ([owed] for owed in group)
        else:
            yield list(group)


def _kind_of(owed: Owed) -> Kind | None:
    head = owed.phrase.head
    return None if head is None else head.kind


def _in_one(neighbours: Sequence[Owed]) -> bytes:
    first = neighbours[0]
    if len(neighbours) == 1:
        return first.text
    first.together = len(neighbours)
    calls = [call for owed in neighbours if (call := owed.phrase.call) is not None]
    return calls[0].kind.together(calls)
