"""Connections without a server: the other end of the line is in the test's hands, and so is the
clock."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.engines.sql.links import BrokenError, ConflictError, Row


class Loop(asyncio.SelectorEventLoop):
    """One whose clock can be put forward."""

    skew = 0.0

    def time(self) -> float:
        return super().time() + self.skew

    async def passes(self, seconds: float) -> None:
        """So much time does, and all that is due is done."""
        self.skew += seconds
        await turns()


class Line:
    """A wire on which one byte is an answer, and `!` a failure."""

    unsent = owes = closed = False

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self.fd = self._near.fileno()

    def say(self, statement: bytes) -> None:
        self._near.send(statement)

    def hear(self) -> list[Row]:
        answer = self._near.recv(1)
        if not answer:
            raise BrokenError("gone")
        if answer == b"!":
            raise ConflictError("deadlock")
        return [(answer,)]

    def is_whole(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
        self._near.close()

    forget = close

    def heard(self) -> bytes:
        """What has arrived at the other end, if anything."""
        try:
            return self._far.recv(100)
        except BlockingIOError:
            return b""

    async def answers(self, word: bytes = b"1") -> None:
        """The other end does."""
        self._far.send(word)
        await turns()

    async def hangs_up(self) -> None:
        """The other end does."""
        self._far.close()
        await turns()


async def turns() -> None:
    """All that is due is done."""
    for _ in range(20):
        await asyncio.sleep(0)


def perform(play: Callable[[Loop], Coroutine[Any, Any, None]]) -> None:
    """Perform a play on a loop of its own."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        await play(loop)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())
