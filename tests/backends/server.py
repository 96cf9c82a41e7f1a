"""A backend on a real server, which is started once for each test process."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from tests.contract import Backend


class Startable(Protocol):
    """A server, or several that work together."""

    def start(self) -> Any: ...

    def close(self) -> object: ...


S = TypeVar("S", bound=Startable)


def started(server: S) -> S:
    """Start it; it ends with this process."""
    server.start()
    atexit.register(server.close)
    return server


class ServerBackend(Backend):
    """One server. It keeps what it is told on the disk, so a restart is no loss."""

    server: Any

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.server.freeze()
        try:
            yield
        finally:
            self.server.thaw()

    def restart(self) -> None:
        self.server.restart()


class SqlBackend(ServerBackend):
    """A server with nothing in the tables. The first test finds none at all."""

    def __init__(self, server: Any, url: str) -> None:
        self.server, self.url = server, url
        self.for_each_table("DELETE FROM {}")

    def untouched(self) -> bool:
        return not self._connections() and not any(self._rows().values())

    def residue(self) -> list[str]:
        rows = [f"{table}: {count} rows" for table, count in self._rows().items()]
        return [f"{self._connections()} connections", *rows]

    def for_each_table(self, statement: str) -> dict[str, list[tuple[Any, ...]]]:
        """Execute a statement for each table of ours that there is, on one connection: to connect
        costs more than all that is said. Gives the rows, by table."""
        raise NotImplementedError

    def _rows(self) -> dict[str, int]:
        counted = self.for_each_table("SELECT count(*) FROM {}")
        return {table: count for table, [(count,)] in counted.items()}

    def _connections(self) -> int:
        """How many sockets are connected to the port of its URL: our servers have it alone."""
        port = f":{urlsplit(self.url).port:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(remote.endswith(port) and state == "01" for _, _, remote, state, *_ in lines)
