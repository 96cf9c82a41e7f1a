"""`holdfast ddl`: what it prints makes the tables, and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as library
from holdfast import fence
from tests.backends.sql import postgres_backend

from .processes import Holdfast


def test_for_sqlite(holdfast: Holdfast) -> None:
    [(_, printed, _)] = holdfast.ask(["ddl", "--url", "sqlite:///nowhere/locks.db"])
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(printed)
        fence.check(connection, "job", 1)


@pytest.mark.slow
def test_a_role_that_may_not_make_tables_can_lock_when_somebody_else_has(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    server = postgres_backend(tmp_path).server

    def drop_tables() -> None:
        found = server.query("SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdfast%'")
        for (table,) in found:
            server.query(f"DROP TABLE {table}")

    drop_tables()
    [(_, printed, _)] = holdfast.ask(["ddl", "--url", "postgresql://h/db"])
    server.query(printed)
    server.query("CREATE ROLE ann LOGIN")
    rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"
    server.query(f"GRANT {rights} TO ann")
    with library.Client(server.url_for("ann")) as client, client.lock("job"):
        assert client.inspect("job")
        assert client.cell("stock").set("1", expect=0)
    drop_tables()
    server.query("DROP ROLE ann")


def test_what_has_no_tables(holdfast: Holdfast) -> None:
    urls = ["redis://h", "memory://", "nonsense", "postgresql://h/db?what=1"]
    for code, out, err in holdfast.ask(*(["ddl", "--url", url] for url in urls)):
        assert (code, out) == (64, "")
        assert "url: " in err or "what: " in err
