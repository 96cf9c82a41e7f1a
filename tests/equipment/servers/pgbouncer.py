"""PgBouncer, a pooler in front of a PostgreSQL server."""

import shutil
from typing import Literal

import psycopg

from holdfast.lab.servers.process import HOST, ServerProcess, required
from tests.equipment.servers.postgres import DATABASE, USER, PostgresServer
from tests.equipment.servers.unprivileged import as_user, give_to_user

PoolMode = Literal["transaction", "session", "statement"]


class PgBouncer(ServerProcess):
    """One pooler; `size` is how many connections to the server it keeps for all its clients."""

    def __init__(
        self, server: PostgresServer, *, mode: PoolMode = "transaction", size: int = 4
    ) -> None:
        super().__init__()
        self.server, self.mode, self.size = server, mode, size
        self._program = find_pgbouncer()
        give_to_user(self.folder)

    @property
    def url(self) -> str:
        """The URL for the superuser."""
        return f"postgresql://{USER}@{self.address}/{DATABASE}"

    def arguments(self) -> list[str]:
        """The command that runs it in the foreground."""
        users = self.folder / "users.txt"
        users.write_text(f'"{USER}" ""\n')
        file = self.folder / "pgbouncer.ini"
        file.write_text("\n".join(self._settings(str(users))) + "\n")
        for path in (users, file):
            give_to_user(path)
        return [*as_user(), self._program, str(file)]

    def answers(self) -> bool:
        """Whether this very process takes connections, and so does the server behind it."""
        if (self.folder / "pid").read_text().strip() != str(self.pid):
            return False
        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _settings(self, users: str) -> list[str]:
        return [
            "[databases]",
            f"* = host={HOST} port={self.server.port}",
            "[pgbouncer]",
            f"listen_addr = {HOST}",
            f"listen_port = {self.port}",
            "unix_socket_dir =",
            "auth_type = trust",
            f"auth_file = {users}",
            f"pidfile = {self.folder / 'pid'}",
            f"pool_mode = {self.mode}",
            f"default_pool_size = {self.size}",
        ]


def find_pgbouncer() -> str:
    """The path of `pgbouncer`."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    return required(found, "pgbouncer", "install Debian's package pgbouncer")
