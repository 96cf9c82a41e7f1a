"""A Redis or Valkey server, and a connection to it."""

import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from holdfast.lab.servers.clock import Clock
from holdfast.lab.servers.process import (
    HOST,
    Refused,
    ServerFailed,
    ServerProcess,
    find_redis,
    wait_until,
)

Reply: TypeAlias = "str | int | list[Reply] | None"

AppendOnly = Literal["no", "everysec", "always"]


class Connection:
    """One connection, in RESP2: a command, then its reply, within `timeout` seconds."""

    def __init__(
        self, address: tuple[str, int], timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        from hiredis import Reader  # the demo needs none

        self._reader = Reader(replyError=Refused, encoding="utf-8", errors="surrogateescape")
        self._socket = socket.create_connection(address, timeout)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def command(self, *words: str | int) -> Reply:
        """Send a command and wait for its reply. An error is raised as `Refused`."""
        parts = [str(word).encode("utf-8", "surrogateescape") for word in words]
        lines = [b"*%d\r\n" % len(parts), *(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)]
        self._socket.sendall(b"".join(lines))
        return self.read()

    def read(self) -> Reply:
        """The next reply, with bytes as text (`surrogateescape` keeps them)."""
        reply: Any = self._reader.gets()
        while reply is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
            reply = self._reader.gets()
        if isinstance(reply, Refused):
            raise reply
        received: Reply = reply
        return received


class RedisServer(ServerProcess):
    """One server. Nothing is kept on disk unless `append_only` says so.

    program      the server's program: `find_redis()` unless given
    append_only  when what was written goes to the disk: "no", "everysec" or "always"
    options      further words of the command line: ("--maxmemory", "10mb")
    own_clock    whether it has a wall clock of its own, which can jump: `server.clock.jump(60)`
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        program: str | None = None,
        append_only: AppendOnly = "no",
        options: Sequence[str] = (),
        own_clock: bool = False,
    ) -> None:
        super().__init__(folder)
        self.program = program or find_redis()
        self.append_only = append_only
        self.options = tuple(options)
        self._clock = Clock(self.folder / "clock") if own_clock else None

    @property
    def clock(self) -> Clock:
        """Its wall clock, if it has one of its own."""
        if self._clock is None:
            raise ServerFailed("this server goes by the host's clock; give it `own_clock=True`")
        return self._clock

    @property
    def url(self) -> str:
        return f"redis://{self.address}/0"

    def start(self) -> Self:
        super().start()
        if self._clock is not None and self._clock.reader != self.pid:
            self.kill()
            raise ServerFailed(f"{self.program} cannot be given a clock: is it linked statically?")
        if self.append_only == "no":
            # It was for this start alone: a server without persistence loses its data in a crash.
            (self.folder / "dump.rdb").unlink(missing_ok=True)
        return self

    def follow(self, master: "RedisServer", port: int | None = None) -> None:
        """Become a replica of `master`, and wait until all its data is here, too.

        `port`: where it connects to, if not to the master itself.
        """
        self.command("REPLICAOF", HOST, port or master.port)
        wait_until(
            lambda: self.is_in_step_with(master), f"copy of {master.address}", self.request_timeout
        )

    def promote(self) -> None:
        self.command("REPLICAOF", "NO", "ONE")

    def connect(self, timeout: float) -> Connection:
        """A connection of its own, as the default user."""
        return Connection((HOST, self.port), timeout)

    def command(self, *words: str | int, timeout: float = 5.0) -> Reply:
        """Send a command on a new connection, and return the reply."""
        with self.connect(timeout) as connection:
            return connection.command(*words)

    def info(self, section: str = "default") -> dict[str, str]:
        """The server's INFO: {"role": "master", ...}."""
        lines = str(self.command("INFO", section, timeout=1.0)).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def arguments(self) -> list[str]:
        """The command that runs it: the settings are in a file, where secrets are not seen."""
        file = self.folder / "redis.conf"
        file.write_text("".join(f"{line}\n" for line in self.settings()))
        file.chmod(0o600)
        command = [self.program, str(file), *self.options]
        return command if self._clock is None else self._clock.given_to(command)

    def settings(self) -> list[str]:
        lines = [f"bind {HOST}", f"dir {quoted(self.folder)}", "daemonize no", "databases 16"]
        lines += ['save ""', "repl-diskless-sync-delay 0"]
        if self.append_only == "no":
            # A copy made for replication is not to become a persistence.
            lines += ["appendonly no", "rdb-del-sync-files yes"]
        else:
            lines += ["appendonly yes", f"appendfsync {self.append_only}"]
        return [*lines, *self.listening()]

    def listening(self) -> list[str]:
        return [f"port {self.port}"]

    def answers(self) -> bool:
        """Whether this process, not another, answers, with its data loaded."""
        try:
            info = self.info()
        except Refused:  # another server has the port
            return False
        return info["process_id"] == str(self.pid) and info.get("loading", "0") == "0"

    def close(self) -> None:
        self.kill()
        super().close()

    def is_in_step_with(self, master: "RedisServer") -> bool:
        """Whether it is a replica that has received all that the master did."""
        offset = int(master.info("replication")["master_repl_offset"])
        mine = self.info("replication")
        return (
            mine["role"] == "slave"
            and mine["master_link_status"] == "up"
            and int(mine["slave_repl_offset"]) >= offset
        )


def quoted(value: object) -> str:
    """A value as the configuration wants it."""
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
