"""A Redis server with a password, users, TLS or a Unix socket."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import AppendOnly, Connection, quoted
from tests.equipment.servers.certificates import Certificates
from tests.equipment.servers.redis import RedisServer

Users = Mapping[str, Sequence[str]]
"""The ACL rules of each user."""


class SecuredRedis(RedisServer):
    """One server.

    unix_socket  whether it listens on a Unix socket too, see `unix_url`
    password     of the default user
    users        more users, each with its ACL rules: {"ann": ("on", ">secret", "~*", "+@all")}
    tls          the certificate to serve with; then there is no port without TLS
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        program: str | None = None,
        append_only: AppendOnly = "no",
        options: Sequence[str] = (),
        unix_socket: bool = False,
        password: str | None = None,
        users: Users | None = None,
        tls: Certificates | None = None,
    ) -> None:
        super().__init__(folder, program=program, append_only=append_only, options=options)
        # A path as long as pytest's may be too long for a socket.
        self.socket = self._temporary_folder() / "redis.sock" if unix_socket else None
        self.password = password
        self.users = dict(users or {})
        self.tls = tls

    @property
    def url(self) -> str:
        """The URL for the default user."""
        return self._url(self.login)

    @property
    def unix_url(self) -> str:
        """The URL of its Unix socket."""
        return f"unix://{self.login}{self.socket}?db=0"

    @property
    def login(self) -> str:
        """How the default user logs in within a URL: `:password@`, or nothing."""
        return f":{quote(self.password, safe='')}@" if self.password else ""

    def url_for(self, user: str, password: str) -> str:
        """The URL with which a user logs in."""
        return self._url(f"{quote(user, safe='')}:{quote(password, safe='')}@")

    def connect(self, timeout: float) -> Connection:
        """A connection of its own, as the default user."""
        connection = Connection((HOST, self.port), timeout, self.tls.trust() if self.tls else None)
        try:
            if self.password:
                connection.command("AUTH", self.password)
        except BaseException:
            connection.close()
            raise
        return connection

    def settings(self) -> list[str]:
        """The lines of its configuration."""
        lines = super().settings()
        if self.socket:
            lines += [f"unixsocket {quoted(self.socket)}", "unixsocketperm 700"]
        if self.password:
            secret = quoted(self.password)
            lines += [f"requirepass {secret}", f"masterauth {secret}"]
        for name, rules in self.users.items():
            lines += [" ".join(["user", name, *map(quoted, rules)])]
        return lines

    def listening(self) -> list[str]:
        """The lines about its port. With TLS, it also connects to other servers so."""
        if self.tls is None:
            return super().listening()
        return [
            *("port 0", f"tls-port {self.port}", "tls-auth-clients no", "tls-replication yes"),
            f"tls-ca-cert-file {quoted(self.tls.authority)}",
            f"tls-cert-file {quoted(self.tls.certificate)}",
            f"tls-key-file {quoted(self.tls.key)}",
        ]

    def _url(self, login: str) -> str:
        if self.tls:
            return f"rediss://{login}{self.address}/0?{self.tls.as_option()}"
        return f"redis://{login}{self.address}/0"
