"""Several servers that are started and closed together."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from holdfast.lab.servers.process import ServerProcess, wait_until


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


def within(folder: Path | None, name: str) -> Path | None:
    """The folder of one server of a group; None, for a temporary one, if the group has none."""
    return folder / name if folder else None
