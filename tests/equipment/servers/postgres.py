"""A PostgreSQL server."""

import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from holdfast.lab.servers.process import HOST, ServerFailed, required
from tests.equipment.servers.database import DatabaseServer
from tests.equipment.servers.unprivileged import as_user

USER = "holdfast"
DATABASE = "postgres"

SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    # What it has committed survives its own death, but not the machine's: that is quick.
    "fsync": "off",
    "full_page_writes": "off",
    "logging_collector": "off",
}


class PostgresServer(DatabaseServer):
    """One server, with one superuser, `holdfast`, who needs no password.

    settings  further settings: {"max_connections": "20"}
    standby   of which other server it is a standby: it copies that one when it is first started
    """

    def __init__(
        self, *, settings: dict[str, str] | None = None, standby: "PostgresServer | None" = None
    ) -> None:
        super().__init__(SETTINGS | (settings or {}))
        self.standby = standby
        self._programs = find_postgres()

    @property
    def url(self) -> str:
        """The URL for the superuser."""
        return self.url_for(USER)

    def url_for(self, user: str) -> str:
        """The URL with which a role logs in."""
        return f"postgresql://{user}@{self.address}/{DATABASE}"

    def promote(self) -> None:
        """Let a standby be a server of its own."""
        self.query("SELECT pg_promote(true, 30)")

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Say something to it from outside, on a connection of its own, and give the rows."""
        with self.connection() as connection:
            cursor = connection.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection of the superuser's, on which each statement stands for itself."""
        connection = psycopg.connect(self.url, autocommit=True, connect_timeout=5)
        try:
            yield connection
        finally:
            connection.close()

    def arguments(self) -> list[str]:
        """The command that runs it in the foreground."""
        words = [str(self._programs / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        for name, value in self.settings.items():
            words += ["-c", f"{name}={value}"]
        return [*as_user(), *words]

    def answers(self) -> bool:
        """Whether this process, not another, takes connections."""
        lines = (self.data / "postmaster.pid").read_text().split()
        if not lines or lines[0] != str(self.pid):
            return False
        try:
            self.query("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """End it in order, and do not wait for its clients to leave; even if it is frozen."""
        if self.alive:
            self.thaw()
            os.kill(self.pid, signal.SIGINT)
            if self.wait(self.request_timeout) is None:
                self.kill()

    def kill(self) -> None:
        """End it and all its processes as a crash would, and wait until they are gone."""
        processes = self._children() if self.alive else []
        super().kill()
        for pid in processes:
            _signal(pid, signal.SIGKILL)
        give_up_at = time.monotonic() + self.request_timeout
        while any(_runs(pid) for pid in processes):
            if time.monotonic() > give_up_at:
                raise ServerFailed(self._failure("does not end when it is killed"))
            time.sleep(0.002)

    def freeze(self) -> None:
        """Halt it and all its processes: connections stay, nothing is answered."""
        super().freeze()  # first, so that it makes no more of them
        for pid in self._children():
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let all go on after `freeze`."""
        for pid in self._children():
            _signal(pid, signal.SIGCONT)
        super().thaw()

    def _children(self) -> list[int]:
        """The processes that serve its connections, and those that keep house."""
        return [int(word) for word in _read(f"/proc/{self.pid}/task/{self.pid}/children").split()]

    def making(self) -> list[str]:
        if self.standby is None:
            words = ["initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
        else:
            words = ["pg_basebackup", "-d", self.standby.url, "-R", "-c", "fast"]
        program, *words = words
        return [str(self._programs / program), "-D", str(self.data), "--no-sync", *words]


def find_postgres() -> Path:
    """The folder with PostgreSQL's programs: the newest that Debian has, or that on the PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    found = str(versions[-1]) if versions else shutil.which("postgres")
    return Path(required(found, "postgres", "install Debian's package postgresql")).parent


def _version(program: Path) -> int:
    """Of `/usr/lib/postgresql/15/bin/postgres`: 15."""
    return int(program.parts[-3])


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended by itself


def _runs(pid: int) -> bool:
    """Whether a process has not ended yet; a zombie has."""
    state = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        return ""
