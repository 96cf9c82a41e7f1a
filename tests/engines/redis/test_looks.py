"""How a thread looks for a reply before it goes to sleep, and when it does not."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.guard import RestartGuard
from holdfast.core.ports import Surroundings
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.link import LOOKS, Link
from holdfast.engines.redis.nodes import Node


class Counting(socket.socket):
    """A socket that knows how often it was looked at."""

    looks = 0

    def recv_into(self, *args: Any) -> int:
        self.looks += 1
        return super().recv_into(*args)


class Quiet:
    """A link to a server that says nothing unless it is made to."""

    def __init__(self) -> None:
        ours, self.server = socket.socketpair()
        self._socket = Counting(fileno=ours.detach())
        address = Address("nowhere", lambda timeout: (self._socket, None), self._nobody)
        around = Surroundings(lambda: 0.0, lambda holder: None, lambda event: None)
        node = Node(0, address, RestartGuard(0.0, on=False), around, alone=True)
        self.link = Link(node, 1.0)

    async def _nobody(self, timeout: float) -> Any:
        raise AssertionError("nobody connects")

    def looks(self) -> int:
        """How often it looks, in one exchange."""
        before = self._socket.looks
        self.link._look()
        return self._socket.looks - before


@pytest.fixture
def quiet() -> Iterator[Quiet]:
    made = Quiet()
    yield made
    made.link.close()
    made.server.close()


def test_one_that_is_late_again_and_again_is_looked_for_more_and_more_seldom(quiet: Quiet) -> None:
    looks = [quiet.looks() for _ in range(150)]
    assert set(looks) == {0, LOOKS}
    at = [number for number, count in enumerate(looks) if count]
    assert at == [0, 2, 5, 10, 19, 36, 69, 102, 135]


def test_one_that_was_quick_once_is_looked_for_again(quiet: Quiet) -> None:
    """A server that has been idle wakes up late, and is quick after that."""
    for _ in range(103):
        quiet.looks()
    assert [quiet.looks() for _ in range(LOOKS)] == [0] * LOOKS
    quiet.server.send(b"+OK\r\n")
    assert quiet.looks() == 1
    assert [quiet.looks() for _ in range(6)] == [LOOKS, 0, LOOKS, 0, 0, LOOKS]
