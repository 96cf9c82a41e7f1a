"""`holdfast ddl`: what it prints makes the tables, and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as library
from holdfast import fence
from tests.contract.sql_places import postgres_place

from .processes import Holdfast


def test_for_sqlite(holdfast: Holdfast) -> None:
    printed = holdfast.run("ddl", "--url", "sqlite:///nowhere/locks.db").stdout
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(printed)
        fence.check(connection, "job", 1)


@pytest.mark.slow
def test_a_role_that_may_not_make_tables_can_lock_when_somebody_else_has(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    server = postgres_place(tmp_path).server
    printed = holdfast.run("ddl", "--url", "postgresql://h/db").stdout
    tables = "holdfast_leases, holdfast_cells, holdfast_fences"
    server.query(f"DROP TABLE IF EXISTS {tables}")
    server.query(printed)
    server.query("DROP ROLE IF EXISTS ann")
    server.query("CREATE ROLE ann LOGIN")
    server.query(f"GRANT SELECT, INSERT, UPDATE ON {tables} TO ann")
    with library.Client(server.url_for("ann")) as client, client.lock("job"):
        assert client.inspect("job")
    server.query(f"DROP TABLE {tables}")
    server.query("DROP ROLE ann")


def test_what_has_no_tables(holdfast: Holdfast) -> None:
    urls = ["redis://h", "memory://", "nonsense", "postgresql://h/db?what=1"]
    for code, out, err in holdfast.run_each(*(["ddl", "--url", url] for url in urls)):
        assert (code, out) == (64, "")
        assert "url: " in err or "what: " in err
