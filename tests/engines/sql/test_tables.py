"""The lease table of PostgreSQL and of MariaDB: made on first use, under any name, and with
names as values."""

import threading
from typing import Any

import pytest

from holdfast import EngineUnavailable, schema
from tests.engines.redis.party import Party
from tests.engines.sql.conftest import TABLES, Invite
from tests.engines.sql.databases import Database

pytestmark = pytest.mark.parametrize("kind", ["postgres", "mariadb"])


def test_many_who_come_first_make_the_table_once(database: Database) -> None:
    database.query(f"DROP TABLE IF EXISTS {TABLES}")
    crowd = [Party("sync", database.url) for _ in range(8)]
    gate = threading.Barrier(len(crowd))
    outcomes: list[Any] = []

    def come(party: Party) -> None:
        gate.wait()
        lock = party.client.lock("job")
        try:
            outcomes.append(lock.acquire(blocking=False))
        except EngineUnavailable:  # a busy server may take too long to let all of them in
            outcomes.append(lock.acquire(blocking=False))

    threads = [threading.Thread(target=come, args=(party,)) for party in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == len(crowd)
    assert len([lease for lease in outcomes if lease]) == 1
    for party in crowd:
        party.close()


@pytest.mark.parametrize(
    "name", ["'; DROP TABLE holdfast_leases; --", '"\\?$1%s{}`', "ü\U0010ffff", "long" * 128]
)
def test_names_are_values_and_never_sql(database: Database, invite: Invite, name: str) -> None:
    ann = invite(database.url)
    lease = ann.takes(name)
    [found] = database.query("SELECT name, holder FROM holdfast_leases")
    assert found == (f"holdfast:{name}".encode(), lease.holder.encode())
    assert [info.name for info in ann(ann.client.leases, name)] == [name]
    ann(lease.release)


def test_deleting_idle_rows_does_not_set_fences_back(database: Database, invite: Invite) -> None:
    ann = invite(database.url)
    fences = []
    for _ in range(3):
        lease = ann.takes()
        fences.append(lease.fence)
        ann(lease.release)
        database.query("DELETE FROM holdfast_leases WHERE holder IS NULL")
    assert sorted(set(fences)) == fences


def test_a_table_of_another_name_in_another_schema(
    database: Database, kind: str, invite: Invite
) -> None:
    schema, table = ('"Own"', '"Locks"') if kind == "postgres" else ("`Own`", "`Locks`")
    database.query(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    if kind == "mariadb":
        database.query(f"GRANT ALL ON {schema}.* TO holdfast@'127.0.0.1'")
    ann, ben = invite(f"{database.url}?table=Own.Locks"), invite(database.url, table="Own.Locks")
    lease = ann.takes()
    assert ben.tries() is None
    assert database.query(f"SELECT fence FROM {schema}.{table}") == [(lease.fence,)]
    assert invite(database.url).takes(), "another table, other locks"
    assert ann(ann.client.cell("stock").set, "1", expect=0)
    assert database.query(f"SELECT count(*) FROM {schema}.holdfast_cells") == [(1,)]
    ann(lease.release)
    database.query(f"DROP SCHEMA {schema} {'CASCADE' if kind == 'postgres' else ''}")


@pytest.mark.parametrize("version", [3, 99], ids=["older", "newer"])
def test_another_version_is_refused(database: Database, invite: Invite, version: int) -> None:
    ann = invite(database.url)
    ann(ann.takes().release)
    database.query(f"UPDATE holdfast_leases_version SET version = {version}")
    ben = invite(database.url)
    [why] = ben.refused().values()
    assert f"version {version}" in why
    assert "upgrade" in why
    database.query("UPDATE holdfast_leases_version SET version = 4")
    assert ben.tries()


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


def test_the_printed_statements_make_the_tables(database: Database, kind: str) -> None:
    database.query(f"DROP TABLE IF EXISTS {TABLES}")
    printed = schema.ddl(database.url)
    for sql in [printed] if kind == "postgres" else printed.split(";"):
        if sql.strip():
            database.query(sql)
    assert database.query("SELECT version FROM holdfast_leases_version") == [(4,)]
    ann = Party("sync", database.url)
    shares = [ann(ann.client.semaphore("free", 2).acquire, blocking=False) for _ in range(2)]
    assert all(shares)
    ann.close()
