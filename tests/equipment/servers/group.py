"""Several servers that are started and closed together."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, Self, TypeVar

from holdfast.lab.servers.process import ServerFailed, ServerProcess, wait_until
from tests.equipment.servers.database import StoringServer


class ServerGroup:
    """Servers as one. A subclass makes them, and says when they are ready for work."""

    request_timeout = 30.0
    """Seconds within which the servers must have come to an agreement."""

    def members(self) -> Sequence[ServerProcess]:
        """All servers, in the order in which they are started."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start all, and wait until they are ready for work."""
        try:
            for server in self.members():
                server.start()
            self.unite()
        except BaseException:
            self.close()
            raise
        return self

    def unite(self) -> None:
        """Make one of the servers that run, and wait until they know it."""

    def close(self) -> None:
        """Stop all, and remove their temporary folders."""
        for server in self.members():
            server.close()

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something is true of all of them."""
        wait_until(condition, f"{what} of {type(self).__name__}", self.request_timeout)


class Member(StoringServer):
    """A server of which some together elect a leader."""

    def is_leader(self) -> bool:
        """Whether it leads, as it says itself."""
        raise NotImplementedError


M = TypeVar("M", bound=Member)


class ElectingGroup(ServerGroup, Generic[M]):
    """Members that elect a leader. None of them serves before a majority is there."""

    servers: Sequence[M]

    def members(self) -> Sequence[M]:
        """The servers."""
        return self.servers

    def start(self) -> Self:
        """Start all together."""
        self.choose_ports()
        try:
            with ThreadPoolExecutor(len(self.servers)) as pool:
                list(pool.map(lambda server: server.start(), self.servers))
        except BaseException:
            self.close()
            raise
        return self

    def choose_ports(self) -> None:
        """Choose all ports, before the first start: each member must know those of the others."""
        for server in self.servers:
            if not server.port:
                server.choose_ports()

    def leader(self) -> M:
        """The member that leads, once those that answer agree on one."""
        found: list[M] = []

        def agreed() -> bool:
            found[:] = [each for each in self.servers if _says_it_leads(each)]
            return len(found) == 1

        wait_until(agreed, "one leader", self.request_timeout)
        return found[0]

    def followers(self) -> list[M]:
        """The other members."""
        leader = self.leader()
        return [each for each in self.servers if each is not leader]


def _says_it_leads(server: Member) -> bool:
    try:
        return server.alive and server.is_leader()
    except (OSError, ServerFailed):
        return False  # killed, frozen or cut off


def within(folder: Path | None, name: str) -> Path | None:
    """The folder of one server of a group; None, for a temporary one, if the group has none."""
    return folder / name if folder else None
