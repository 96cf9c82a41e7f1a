"""A MariaDB server."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql

from holdfast.lab.servers.process import HOST, required
from tests.equipment.servers.database import DatabaseServer
from tests.equipment.servers.unprivileged import as_user

ROOT = "root"
USER = "holdfast"
DATABASE = "holdfast"

SETTINGS = {
    "bind-address": HOST,
    "skip-name-resolve": "ON",
    "innodb-buffer-pool-size": "16M",
    "innodb-log-file-size": "16M",
    # What it has committed survives its own death, but not the machine's: that is quick.
    "innodb-flush-log-at-trx-commit": "2",
    "debug-no-sync": "ON",
}

FIRST_WORDS = f"""
CREATE DATABASE IF NOT EXISTS {DATABASE};
CREATE USER IF NOT EXISTS {USER}@'{HOST}';
GRANT ALL ON {DATABASE}.* TO {USER}@'{HOST}';
"""


class MariaDbServer(DatabaseServer):
    """One server, with a database `holdfast` and a user `holdfast`, who needs no password and may
    do anything in it, but nothing beside it; and with `root`, who may do all.

    settings  further settings: {"max-connections": "20"}
    """

    def __init__(self, *, settings: dict[str, str] | None = None) -> None:
        super().__init__(SETTINGS | (settings or {}))
        # A server that starts removes the temporary tables of all who share a folder for them.
        self._tmpdir = f"--tmpdir={self.folder}"
        self._program, self._maker = find_mariadb(), find_mariadb_maker()

    @property
    def url(self) -> str:
        """The URL for the user."""
        return self.url_for(USER)

    def url_for(self, user: str, scheme: str = "mariadb") -> str:
        """The URL with which a user logs in."""
        return f"{scheme}://{user}@{self.address}/{DATABASE}"

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Say something to it from outside, on a connection of its own, and give the rows."""
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    @contextmanager
    def connection(self) -> Iterator[pymysql.Connection]:
        """A connection of root's, on which each statement stands for itself."""
        connection = pymysql.connect(
            host=HOST,
            port=self.port,
            user=ROOT,
            database=DATABASE,
            autocommit=True,
            # Unless told, PyMySQL reads all authorities of the system, each time.
            ssl_disabled="require-secure-transport" not in self.settings,
            connect_timeout=5,
            read_timeout=30,
            write_timeout=30,
        )
        try:
            yield connection
        finally:
            connection.close()

    def arguments(self) -> list[str]:
        """The command that runs it in the foreground."""
        words = [self._program, "--no-defaults", f"--datadir={self.data}", f"--port={self.port}"]
        words += [f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid"]
        words += [self._tmpdir, f"--init-file={self._first_words()}"]
        words += [f"--{name}={value}" for name, value in self.settings.items()]
        return [*as_user(), *words]

    def answers(self) -> bool:
        """Whether this very process takes connections."""
        if (self.folder / "pid").read_text().strip() != str(self.pid):
            return False
        try:
            self.query("SELECT 1")
        except pymysql.OperationalError:
            return False
        return True

    def _first_words(self) -> str:
        """The file with what it says to itself whenever it starts."""
        path = self.folder / "first-words.sql"
        path.write_text(FIRST_WORDS)
        return str(path)

    def making(self) -> list[str]:
        words = [f"--datadir={self.data}", self._tmpdir]
        words += ["--auth-root-authentication-method=normal", "--skip-test-db"]
        return [self._maker, "--no-defaults", *words]


def find_mariadb() -> str:
    """The path of `mariadbd`."""
    found = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
    return required(found, "mariadbd", "install Debian's package mariadb-server")


def find_mariadb_maker() -> str:
    """The path of the program that makes the data of a new MariaDB server."""
    found = shutil.which("mariadb-install-db")
    return required(found, "mariadb-install-db", "install Debian's package mariadb-server")
