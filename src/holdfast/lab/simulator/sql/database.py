"""The data of a virtual PostgreSQL: an SQLite database in memory runs the engine's own statements.

What only PostgreSQL has is a function here (the clock, notifications, processes), or is written as
SQLite has it (`RULES`). Statements and transactions are run one at a time, so locks of rows are
left out.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from holdfast.engines.sql.dialect import LEASES, Results, Row, Statement
from holdfast.engines.sql.postgres.commands import NOW, Statements

STATEMENTS = Statements(LEASES)

RULES = (
    (re.escape(NOW), "micros()"),
    (r"EXISTS \(SELECT 1 FROM pg_stat_get_activity\(pid\)\)", "is_running(pid)"),
    (r" FOR (NO KEY )?UPDATE( SKIP LOCKED)?", ""),
    (r"CAST\((\$\d+) AS (?!text)[\w\[\]]+\)", r"\1"),
    (r"= ANY\((\$\d+)\)", r"IN (SELECT CAST(value AS blob) FROM json_each(\1))"),
    (r'"public"\.', ""),
    (r"(?s)DO \$migrate\$.*\$migrate\$;", ""),
    (r" WITH \(fillfactor = 70\)", ""),
)
"""What is written differently in SQLite."""

HELD = """
CREATE TEMP VIEW held AS
SELECT name, fence, expires, offered,
       CASE substr(holder, 1, 8) WHEN CAST('(shared ' AS blob) THEN substr(holder, 20)
            ELSE holder END AS holder
FROM holdfast_leases WHERE holder <> CAST('(shared)' AS blob)
UNION ALL
SELECT m.name, l.fence, m.expires, m.offered, m.holder
FROM holdfast_leases_members AS m JOIN holdfast_leases AS l ON l.name = m.name
WHERE l.holder = CAST('(shared)' AS blob)
"""
"""For an observer: the leases, and the shares of a lock, held alone or together."""

TWO_CHANGES = re.compile(
    r"WITH taken AS \( ?(UPDATE .*) ?\), made AS \( ?(INSERT .* RETURNING fence) ?\) (SELECT .*)"
)
"""A query over two changes. Here, each is a statement, and its rows are a table."""


class Database:
    """Tables of the engine. Each statement, or transaction, is done wholly or not at all."""

    def __init__(
        self,
        micros: Callable[[], int],
        notify: Callable[[str, str], None],
        is_running: Callable[[int], bool],
    ) -> None:
        """`notify`: a channel, and the holder that a notification there is for."""
        self._notify = notify
        self._notifications: list[tuple[str, str]] = []
        self._pid = 0
        self._sqlite = sqlite3.connect(":memory:", isolation_level=None)
        for name, function in (
            ("micros", micros),
            ("is_running", is_running),
            ("pg_backend_pid", lambda: self._pid),
            ("pg_notify", lambda channel, text: self._notifications.append((channel, text))),
            ("encode", lambda value, kind: value.hex() if kind == "hex" else value.decode()),
            ("greatest", lambda *values: max(each for each in values if each is not None)),
            ("least", lambda *values: min(each for each in values if each is not None)),
        ):
            self._sqlite.create_function(name, -1, function)
        self._sqlite.executescript(
            f"{translated(STATEMENTS.ddl)}"
            f"CREATE TEMP TABLE taken (fence); CREATE TEMP TABLE made (fence); {HELD}"
        )

    def close(self) -> None:
        """It is not used any more."""
        self._sqlite.close()

    def run(self, statements: Sequence[Statement], pid: int) -> Results:
        """Run them as one transaction, in that process; then send its notifications."""
        self._pid = pid
        self._notifications.clear()
        self._sqlite.execute("BEGIN")
        try:
            results = [self._run(translated(text.sql), values) for text, values in statements]
        except BaseException:
            self._sqlite.execute("ROLLBACK")
            raise
        self._sqlite.execute("COMMIT")
        for channel, text in self._notifications:
            self._notify(channel, bytes.fromhex(text).decode())
        return results

    def read(self, sql: str, *values: Any) -> list[Row]:
        """Read rows, for an observer."""
        return self._sqlite.execute(sql, values).fetchall()

    def _run(self, sql: str, values: Sequence[Any]) -> list[Row]:
        named = {str(number): _dumped(value) for number, value in enumerate(values, 1)}
        changes = TWO_CHANGES.fullmatch(sql)
        if changes is None:
            return self._sqlite.execute(sql, named).fetchall()
        *both, query = changes.groups()
        for table, change in zip(("taken", "made"), both, strict=True):
            rows = self._sqlite.execute(change, named).fetchall()
            self._sqlite.execute(f"DELETE FROM {table}")  # noqa: S608 - one of the two
            self._sqlite.executemany(f"INSERT INTO {table} VALUES (?)", rows)  # noqa: S608
        return self._sqlite.execute(query, named).fetchall()


@cache
def translated(sql: str) -> str:
    """As SQLite has it."""
    for pattern, replacement in RULES:
        sql = re.sub(pattern, replacement, sql)
    return sql


def _dumped(value: Any) -> Any:
    """Text is sent as bytes, and a list as JSON."""
    if isinstance(value, list):
        return json.dumps(value)
    return value.encode() if isinstance(value, str) else value
