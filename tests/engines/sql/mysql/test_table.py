"""The lease table: what it keeps apart, and quick however many rows it has."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import EngineUnavailable
from holdfast.engines.sql.mysql.connection import MySqlConnection
from tests.engines.sql.conftest import Invite
from tests.equipment.servers.mariadb import USER, MariaDbServer
from tests.patience import wait_for


def row(server: MariaDbServer) -> tuple[Any, ...]:
    [found] = server.query("SELECT * FROM holdfast_leases WHERE name = 'holdfast:job'")
    return found


@pytest.fixture
def statements(mariadb: MariaDbServer) -> Iterator[Callable[[], list[str]]]:
    """What the clients have sent from now on, of the server's own log."""
    mariadb.query("SET GLOBAL log_output = 'TABLE', general_log = ON")
    mariadb.query("TRUNCATE mysql.general_log")
    yield lambda: [
        argument
        for (argument,) in mariadb.query(
            "SELECT argument FROM mysql.general_log WHERE user_host LIKE %s"
            " AND command_type NOT IN ('Connect', 'Quit') ORDER BY event_time",
            [f"{USER}[%"],
        )
    ]
    mariadb.query("SET GLOBAL general_log = OFF")


def test_tables_that_take_too_long_to_be_made_are_tried_again(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    mariadb.query("CREATE TABLE holdfast_cells (name INT)")
    ann = invite(mariadb.url)
    lock = ann.client.lock("job", ttl=1)
    with mariadb.connection() as other:
        other.cursor().execute("LOCK TABLES holdfast_cells WRITE")
        with pytest.raises(EngineUnavailable, match="is unreachable"):
            ann(lock.acquire, timeout=0)
        other.cursor().execute("DROP TABLE holdfast_cells")
        other.cursor().execute("UNLOCK TABLES")
    ann.takes(timeout=20)


def test_names_that_a_collation_would_take_for_the_same(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    ann = invite(mariadb.url)
    names = ["job", "Job", "job ", " job", "jób", "jo\u0301b", "job\t", "\uff4aob"]
    assert all(ann.tries(name) for name in names)
    assert sorted(info.name for info in ann(ann.client.leases)) == sorted(names)
    cells = [ann.client.cell(name) for name in names]
    assert all(ann(cell.set, "1", expect=0) for cell in cells)


def test_a_name_that_is_too_long_with_its_prefix_is_not_cut_off(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    ann = invite(mariadb.url, prefix="p" * 1000)
    [why] = ann.refused("n" * 500).values()
    assert "too long" in why
    assert mariadb.query("SELECT * FROM holdfast_leases") == []


def test_a_held_lock_is_not_touched(mariadb: MariaDbServer, invite: Invite) -> None:
    ann, ben = invite(mariadb.url), invite(mariadb.url)
    ben(ben.takes("another").release)  # from now on it knows the server's clock
    ann.takes(renew=False)
    before = row(mariadb)
    assert ben.tries() is None
    assert row(mariadb) == before


def test_an_extension_that_changes_nothing_is_one(mariadb: MariaDbServer, invite: Invite) -> None:
    ann = invite(mariadb.url)
    lease = ann.takes(ttl=60, renew=False)
    before = row(mariadb)
    ann(lease.extend, 1)
    assert lease.held
    assert row(mariadb) == before


def test_acquire_and_release_are_one_statement_each(
    mariadb: MariaDbServer, invite: Invite, statements: Callable[[], list[str]]
) -> None:
    ann = invite(mariadb.url)
    ann(ann.takes().release)
    before = len(statements())
    ann(ann.takes("another", renew=False).release)
    assert len(statements()) - before == 2, statements()


def test_a_transaction_is_one_round_trip(
    mariadb: MariaDbServer, invite: Invite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is stopped amid one would keep the row locked, for longer than its lease."""
    ann = invite(mariadb.url)
    held = [ann(ann.client.rwlock("job").read.acquire) for _ in range(2)]
    sent: list[str] = []
    send = MySqlConnection.run_text

    def record(connection: MySqlConnection, sql: str, until: float) -> Any:
        sent.append(sql)
        return send(connection, sql, until)

    monkeypatch.setattr(MySqlConnection, "run_text", record)
    ann(held[0].extend)
    ann(held[0].release)
    monkeypatch.undo()
    transactions = [sql for sql in sent if "COMMIT" in sql]
    assert len(transactions) == 2
    assert all(sql.startswith("BEGIN;") for sql in transactions), transactions
    assert not any("BEGIN" in sql for sql in sent if sql not in transactions)
    ann(held[1].release)


def rows_read(server: MariaDbServer) -> int:
    """How many rows, and entries of indexes, the server has read."""
    found = server.query("SHOW GLOBAL STATUS LIKE 'Handler_read_%'")
    return sum(int(count) for _, count in found)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_hand_off_reads_as_much_however_many_wait(
    mariadb: MariaDbServer, invite: Invite, scheme: str
) -> None:
    ann, ben = (invite(mariadb.url_for(USER, scheme)) for _ in range(2))
    lease = ann.takes(ttl=60)
    waiting = ben.begin(ben.client.lock("job", ttl=60).acquire, timeout=60)
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 1)
    mariadb.query(
        "INSERT INTO holdfast_leases_waiters (holder, name, place, alive_until)"
        " SELECT CONCAT('waiter ', seq), IF(seq % 2, 'holdfast:job', 'holdfast:other'),"
        " (SELECT MAX(place) FROM holdfast_leases_waiters) + seq, 9e18 FROM seq_1_to_10000"
    )
    mariadb.query("UPDATE holdfast_leases SET queued = 1")
    before = rows_read(mariadb)
    ann(lease.release)
    later = waiting.result(20)
    assert rows_read(mariadb) - before < 2500, "the half of one of the queues"
    mariadb.query("DELETE FROM holdfast_leases_waiters")
    ben(later.release)


def test_many_readers_do_not_lock_the_queue_of_another_lock(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    ann, ben = invite(mariadb.url), invite(mariadb.url)
    shares = [ben(ben.client.rwlock("job").read.acquire) for _ in range(20)]
    mariadb.query("INSERT INTO holdfast_leases_waiters VALUES ('cleo', 'holdfast:other', 1, 0, 1)")
    for table in ("holdfast_leases_members", "holdfast_leases_waiters"):
        mariadb.query(f"ANALYZE TABLE {table}")
    with mariadb.connection() as connection, connection.cursor() as cursor:
        connection.begin()
        cursor.execute("SELECT * FROM holdfast_leases_waiters WHERE holder = 'cleo' FOR UPDATE")
        assert ann(ann.client.lock("job").acquire, timeout=1.0) is None
    for share in shares:
        ben(share.release)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_many_leases_are_renewed_by_few_statements(
    mariadb: MariaDbServer, invite: Invite, statements: Callable[[], list[str]], scheme: str
) -> None:
    ann = invite(mariadb.url_for(USER, scheme))
    leases = [ann.takes(f"job {number}", ttl=3) for number in range(45)]
    [(last,)] = mariadb.query("SELECT MAX(expires) FROM holdfast_leases")
    before = len(statements())

    def are_renewed() -> bool:
        [(first,)] = mariadb.query("SELECT MIN(expires) FROM holdfast_leases")
        return int(first) > int(last)

    wait_for(are_renewed)
    renewals = " ".join(statements()[before:])  # several that were sent together are one entry
    assert renewals.count("UPDATE") < len(leases), renewals
    assert all(lease.held for lease in leases)
