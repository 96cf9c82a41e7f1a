"""Independent servers, for locks that ask the majority of them."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.lab.servers.redis import AppendOnly
from tests.equipment.servers.group import ServerGroup, within
from tests.equipment.servers.redis import RedisServer


class RedisMasters(ServerGroup):
    """Servers that know nothing of each other: five unless said otherwise."""

    def __init__(
        self,
        folder: Path | None = None,
        count: int = 5,
        *,
        program: str | None = None,
        append_only: AppendOnly = "no",
        own_clock: bool = False,
    ) -> None:
        self.servers: list[RedisServer] = [
            RedisServer(
                within(folder, f"master-{i}"),
                program=program,
                append_only=append_only,
                own_clock=own_clock,
            )
            for i in range(count)
        ]

    def members(self) -> Sequence[RedisServer]:
        """The servers."""
        return self.servers

    @property
    def url(self) -> str:
        """All of them: `redlock://host:port,host:port,...`."""
        return "redlock://" + ",".join(server.address for server in self.servers)
