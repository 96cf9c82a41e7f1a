"""A server as a member of its ensemble: whether it can reach the others, and which leader it
follows."""

from collections.abc import Sequence
from typing import Any

from holdfast.lab.simulator.network import Connection, Wire
from holdfast.lab.simulator.server import BaseServer

SYNC_LIMIT = 10
"""Half ticks after which a server and its leader give each other up."""


class Member(BaseServer):
    """It can be cut off from the others; `Ensemble` decides which leader it follows."""

    link: Connection
    """To the leader."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.serving = False
        """Whether clients can connect to it."""
        self.term = 0
        """That of the leader which it follows."""
        self.silence = 0
        """For how many half ticks it has not been well."""
        self._isolations = 0
        self._held: list[Wire] = []

    @property
    def is_well(self) -> bool:
        """Whether it can follow a leader, or be one."""
        return self.up and not self.frozen and not self._isolations

    def check_contact(self) -> None:
        """Count how long it has not been well. A connection that breaks is noticed at once."""
        self.silence = 0 if self.is_well else self.silence + 1
        if not self.up:
            self.silence += SYNC_LIMIT
        if self.silence > SYNC_LIMIT:
            self.term = 0

    def isolate(self) -> None:
        """Cut it off from the other servers; all learn of that after a while."""
        self._isolations += 1
        if self._isolations == 1:
            self._held = [wire for link in self.links() for wire in link.wires]
            for wire in self._held:
                wire.cuts += 1

    def reconnect(self) -> None:
        """Let it reach the other servers again."""
        self._isolations -= 1
        if not self._isolations:
            for wire in self._held:
                wire.mend()

    def links(self) -> Sequence[Connection]:
        """The connections to other servers."""
        raise NotImplementedError

    def join(self, term: int, link: Connection) -> None:
        """Follow a leader."""
        self.term, self.link, self.serving = term, link, True

    def leave(self) -> None:
        """There is no leader."""
        self.serving = False

    def crash(self) -> None:
        """Go down. Every connection breaks."""
        super().crash()
        self.serving, self.term = False, 0
        for link in self.links():
            link.reset()

    def catch_up(self, zxid: int) -> None:
        """Receive what was carried out."""
        raise NotImplementedError

    def report(self, zxid: int) -> None:
        """Report to the leader which sessions are alive."""
        raise NotImplementedError
