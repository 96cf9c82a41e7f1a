"""What is said to all nodes of a quorum alike, under asyncio: put together once, not once for each.

The order in which something is said, to all or to one alone, is the order in which it goes out.
"""

from collections.abc import Sequence

from holdfast.engines.redis.channel import FEW, Channel
from holdfast.engines.redis.owed import Owed


class Chorus:
    """The connections to all nodes, while none is missing."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = channels
        self._loop = channels[0].loop
        self._unsent: list[bytes] = []
        for channel in channels:
            channel.send_chorus = self._send

    def say(self, owed: Owed) -> None:
        """Send something to all, within this turn of the loop."""
        for channel in self._channels:
            channel.owed.append(owed)
        unsent = self._unsent
        if not unsent:
            self._loop.call_soon(self._send)
        unsent.append(owed.text)
        if len(unsent) == FEW:
            self._send()

    def disband(self) -> None:
        """One is gone: from now on each is spoken to alone."""
        self._send()
        for channel in self._channels:
            channel.send_chorus = None

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent:
            text = b"".join(unsent)
            try:
                for channel in self._channels:
                    channel.write(text)
            except BaseException:  # a Ctrl-C has struck: nobody knows who was told
                for channel in self._channels:
                    channel.transport.abort()
                raise
