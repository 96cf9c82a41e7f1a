"""Connecting in a thread of its own."""

import threading
from collections.abc import Callable

from holdfast.core.ports import Clock
from holdfast.engines.redis.link import Link, explain
from holdfast.engines.redis.nodes import CONNECT_TIMEOUT, Node


class Dial:
    """An attempt to connect, in a thread of its own, which nobody has to wait for."""

    def __init__(self, node: Node, clock: Clock, settled: Callable[[], None]) -> None:
        self._node, self._clock, self._settled = node, clock, settled
        self._abandoned = False
        self.link: Link | None = None
        self.why = "still connecting"
        self.ended_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-connect", daemon=True)
        self._thread.start()

    def abandon(self) -> None:
        """Nobody wants the connection any more."""
        self._abandoned = True
        self._thread.join(CONNECT_TIMEOUT)
        if self.link is not None:
            self.link.close()

    def _run(self) -> None:
        try:
            self.link = Link(self._node, CONNECT_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the node's answer
            self.why = explain(error)
        finally:
            if self._abandoned and self.link is not None:
                self.link.close()
            self.ended_at = self._clock()
            self._settled()
