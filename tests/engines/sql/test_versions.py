"""The tables have a version; those of the first release, which had none, are brought up to date."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from holdfast import Client, EngineUnavailable, schema
from tests.engines.redis.party import Party
from tests.engines.sql.conftest import TABLES
from tests.engines.sql.databases import Database
from tests.equipment.servers.mariadb import MariaDbServer
from tests.equipment.servers.postgres import PostgresServer

BOTH = pytest.mark.parametrize("kind", ["postgres", "mariadb"])
slow = pytest.mark.slow

FIRST_POSTGRES = """
CREATE TABLE holdfast_leases (
    name text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C",
    fence bigint NOT NULL,
    ends timestamptz NOT NULL,
    offered boolean NOT NULL DEFAULT false,
    queue jsonb NOT NULL DEFAULT '[]',
    UNIQUE (name, fence)
) WITH (fillfactor = 70);
CREATE TABLE holdfast_cells (
    name text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, is_text boolean NOT NULL,
    version bigint NOT NULL
);
INSERT INTO holdfast_leases VALUES
    ('holdfast:held', 'old', 5, now() + interval '1 hour', false, '[{"holder": "gone"}]'),
    ('holdfast:free', NULL, 9223372036854775000, now(), false, '[]');
INSERT INTO holdfast_cells VALUES ('holdfast:stock', 'sold \\000', true, 7);
"""

FIRST_MARIADB = """
CREATE TABLE holdfast_leases (
    name VARBINARY(1024) NOT NULL PRIMARY KEY,
    holder VARBINARY(1024) NOT NULL,
    fence BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    UNIQUE KEY tenure (fence, name)
) ENGINE = InnoDB;
CREATE TABLE holdfast_cells (
    name VARBINARY(1024) NOT NULL PRIMARY KEY, value LONGBLOB NOT NULL, is_text BOOLEAN NOT NULL,
    version BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT INTO holdfast_leases VALUES
    ('holdfast:held', 'old', 5, UNIX_TIMESTAMP() * 1000000 + 3600000000),
    ('holdfast:free', '', 9223372036854775000, 0);
INSERT INTO holdfast_cells VALUES ('holdfast:stock', CONCAT('sold ', CHAR(0)), 1, 7)
"""

OLD_CLIENT = {
    "postgres": "SELECT queue FROM holdfast_leases WHERE name = 'holdfast:held'",
    "mariadb": "UPDATE holdfast_leases SET holder = '', ends = 0 WHERE name = 'holdfast:held'",
}


def make_first_release(database: Database, kind: str) -> None:
    for sql in (FIRST_POSTGRES if kind == "postgres" else FIRST_MARIADB).split(";"):
        if sql.strip():
            database.query(sql)


@pytest.fixture
def first_release(database: Database, kind: str) -> Database:
    database.query(f"DROP TABLE IF EXISTS {TABLES}")
    make_first_release(database, kind)
    return database


@slow
@BOTH
def test_tables_of_the_first_release(first_release: Database, kind: str) -> None:
    crowd = [Party("sync", first_release.url) for _ in range(4)]
    gate = threading.Barrier(len(crowd))
    found: list[Any] = []

    def come(party: Party) -> None:
        gate.wait()
        found.append((party.tries("held"), party.client.cell("stock").get().value))

    threads = [threading.Thread(target=come, args=(party,)) for party in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stock = "sold \\000" if kind == "postgres" else "sold \0"
    assert [lease for lease, _ in found] == [None] * 4, "a lease that is held stays so"
    assert {value.rstrip("\0") for _, value in found} == {stock.rstrip("\0")} or kind == "postgres"
    ann = crowd[0]
    assert ann(ann.client.inspect, "held").holder == "old"
    assert ann.takes("free").fence == 9223372036854775001, "fences go on"
    with pytest.raises((psycopg.Error, pymysql.Error)):
        first_release.query(OLD_CLIENT[kind])  # clients of the first release are refused
    for party in crowd:
        party.close()


@slow
@BOTH
@pytest.mark.parametrize("version", [3, 99], ids=["unreleased", "newer"])
def test_another_version_is_refused(database: Database, version: int) -> None:
    ann = Party("sync", database.url)
    ann(ann.takes().release)
    database.query(f"UPDATE holdfast_leases_version SET version = {version}")
    ben = Party("sync", database.url)
    [why] = ben.refused().values()
    assert f"version {version}" in why
    assert "upgrade" in why
    database.query("UPDATE holdfast_leases_version SET version = 4")
    assert ben.tries()
    ann.close()
    ben.close()


@slow
@BOTH
@pytest.mark.parametrize("table", ["CLOCK", "NEXT", "LEASES", "now", "key", "OFFER", "select"])
def test_any_name_will_do_for_a_table(database: Database, table: str) -> None:
    ann, ben = (Party("sync", database.url, table=table) for _ in range(2))
    lease = ann.takes()
    assert ben.tries() is None
    waiting = ben.begin(ben.client.lock("job").acquire, timeout=20)
    ann(lease.release)
    assert waiting.result(20)
    ann.close()
    ben.close()


@slow
def test_a_table_that_search_path_leads_to(postgres: PostgresServer) -> None:
    """One of the first release, in a schema of the role's own, is not silently left alone."""
    postgres.query("DROP SCHEMA IF EXISTS apart CASCADE")
    postgres.query("CREATE SCHEMA apart")
    postgres.query(FIRST_POSTGRES.split(";")[0].replace("holdfast_leases", "apart.holdfast_leases"))
    url = f"{postgres.url}?options=-csearch_path%3Dapart"
    ann, ben = Party("sync", url), Party("sync", url, table="apart.holdfast_leases")
    [why] = ann.refused().values()
    assert "table=apart.holdfast_leases" in why
    assert ben.takes()
    ann.close()
    ben.close()
    postgres.query("DROP SCHEMA apart CASCADE")


@slow
def test_an_enterprise_server() -> None:
    with MariaDbServer(settings={"version": "10.6.12-7-MariaDB-enterprise-log"}) as server:
        ann = Party("sync", server.url)
        assert ann.tries()
        ann.close()


FIRST_SQLITE = """
CREATE TABLE holdfast_leases (
    name TEXT NOT NULL UNIQUE, holder TEXT, fence INTEGER NOT NULL, ttl INTEGER NOT NULL,
    ends INTEGER NOT NULL, boot TEXT NOT NULL
);
CREATE TABLE holdfast_waiters (
    place INTEGER PRIMARY KEY, name TEXT NOT NULL, holder TEXT NOT NULL UNIQUE,
    ttl INTEGER NOT NULL, bell TEXT NOT NULL
);
CREATE INDEX holdfast_queue ON holdfast_waiters (name, place);
CREATE TABLE holdfast_cells (
    name TEXT NOT NULL UNIQUE, value BLOB NOT NULL, is_text INTEGER NOT NULL,
    version INTEGER NOT NULL
);
CREATE TABLE holdfast_file (
    only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL, boot TEXT NOT NULL,
    floor INTEGER NOT NULL
);
INSERT INTO holdfast_file VALUES (1, 1, 'another boot', 0);
INSERT INTO holdfast_leases VALUES ('holdfast:held', 'old', 5, 60000000, 1, 'another boot');
INSERT INTO holdfast_leases VALUES ('holdfast:free', NULL, 41, 1, 1, 'another boot');
INSERT INTO holdfast_waiters VALUES (1, 'holdfast:held', 'gone', 1, 'nowhere');
INSERT INTO holdfast_cells VALUES ('holdfast:stock', x'31', 1, 7);
"""


def test_a_file_of_the_first_release(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript(FIRST_SQLITE)
    with Client(f"sqlite://{path}") as client:
        assert client.lock("held").acquire(blocking=False) is None
        with client.lock("free") as lease:
            assert lease.fence > 41
        assert client.rwlock("held").read.acquire(blocking=False) is None
        with client.semaphore("free", 2), client.semaphore("free", 2):
            assert client.lock("free").acquire(blocking=False) is None
        assert client.cell("stock").get().version == 7
    with (
        closing(sqlite3.connect(path)) as file,
        pytest.raises(sqlite3.OperationalError, match="ends"),
    ):
        file.execute("UPDATE holdfast_leases SET ends = 1")  # a client of the first release
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE holdfast_file SET version = 5")
    with Client(f"sqlite://{path}") as client, pytest.raises(EngineUnavailable, match="format 5"):
        client.lock("free").acquire(blocking=False)


@slow
@BOTH
@pytest.mark.parametrize("version", [0, 1])
def test_the_printed_statements_bring_tables_up_to_date(
    database: Database, kind: str, version: int
) -> None:
    """Without the help of a client, which finds their version up to date then."""
    database.query(f"DROP TABLE IF EXISTS {TABLES}")
    if version == 1:
        make_first_release(database, kind)
    printed = schema.ddl(database.url)
    for sql in [printed] if kind == "postgres" else printed.split(";"):
        if sql.strip():
            database.query(sql)
    ben = Party("sync", database.url)
    shares = [ben(ben.client.semaphore("free", 2).acquire, blocking=False) for _ in range(2)]
    waiting = ben.begin(ben.client.semaphore("free", 2).acquire, timeout=20)
    ben(shares[0].release)
    assert waiting.result(20)
    ben.close()
