"""What the lock is to protect: a value that clients write, and a fence that late writers meet.

Two registers lie in one SQLite file. `plain` takes every write. `fenced` remembers the greatest
fence that it has seen, and refuses a smaller one.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

PLAIN, FENCED = "plain", "fenced"

_TABLE = "CREATE TABLE IF NOT EXISTS register (name TEXT PRIMARY KEY, value TEXT, fence INTEGER)"
_WRITE = (
    "INSERT INTO register VALUES (:name, :value, :fence) ON CONFLICT (name) "
    "DO UPDATE SET value = excluded.value, fence = excluded.fence "
)
_UNLESS_STALE = "WHERE excluded.fence >= fence"

PATIENCE = 10.0


class Registers:
    """Both registers, seen from one process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with closing(self._connect()) as connection:
            connection.execute(_TABLE)

    def write(self, name: str, value: str, fence: int | None) -> tuple[bool, float]:
        """Write; whether it was taken, and at which instant of `time.monotonic`."""
        statement = _WRITE + (_UNLESS_STALE if name == FENCED else "")
        with closing(self._connect()) as connection:
            # Until the commit nobody else can write, so instants are in the order of the writes.
            connection.execute("BEGIN IMMEDIATE")
            row = {"name": name, "value": value, "fence": fence}
            taken = connection.execute(statement, row).rowcount > 0
            at = time.monotonic()
            connection.execute("COMMIT")
        return taken, at

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=PATIENCE, isolation_level=None)
