"""MariaDB at its worst moments: killed, stopped, cut off, full, or not to be written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast import EngineUnavailable
from holdfast.engines.sql.mysql import connection
from tests.engines.redis.party import Party
from tests.engines.sql.conftest import Invite
from tests.engines.sql.databases import MariaDb
from tests.equipment.servers.certificates import make_certificates
from tests.equipment.servers.mariadb import USER, MariaDbServer
from tests.equipment.servers.unprivileged import give_to_user
from tests.patience import wait_for

OURS = f"SELECT id FROM information_schema.processlist WHERE user = '{USER}'"


def connect(mariadb: MariaDbServer, ann: Party, monkeypatch: pytest.MonkeyPatch) -> set[Any]:
    """Gives the sessions of a client that has some connections, all free."""
    monkeypatch.setattr(connection, "IDLE", 3600.0)  # all were used a moment ago: none is pinged
    ann(ann.takes().release)
    with all_rows_locked(mariadb):
        taking = [ann.begin(ann.client.lock(f"job {n}").acquire, timeout=20) for n in range(4)]
        wait_for(lambda: len(mariadb.query(OURS)) == 4)
    for each in taking:
        ann.insists(each.result(20).release)
    sessions = set(mariadb.query(OURS))
    assert len(sessions) > 2
    return sessions


@contextmanager
def all_rows_locked(mariadb: MariaDbServer) -> Iterator[None]:
    with mariadb.connection() as other:
        other.begin()
        with other.cursor() as cursor:
            cursor.execute("SELECT * FROM holdfast_leases FOR UPDATE")
        yield
        other.rollback()


def test_one_broken_connection_drops_all_that_are_free(
    mariadb: MariaDbServer, invite: Invite, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = invite(mariadb.url)
    for (number,) in connect(mariadb, ann, monkeypatch):
        mariadb.query(f"KILL {number}")
    wait_for(lambda: not mariadb.query(OURS))
    assert ann.tries(), "each of them cost a failure"


def test_one_that_was_silent_for_a_short_time_leaves_those_that_are_free(
    mariadb: MariaDbServer, invite: Invite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a caller without patience would have all of them opened again."""
    ann = invite(mariadb.url)
    connected = connect(mariadb, ann, monkeypatch)
    with all_rows_locked(mariadb), pytest.raises(EngineUnavailable):
        ann(ann.client.lock("job").acquire, timeout=0.2)
    wait_for(lambda: connected - set(mariadb.query(OURS)))
    assert ann.tries()
    assert connected & set(mariadb.query(OURS))


def test_a_ping_is_not_waited_for_longer_than_its_request(mariadb: MariaDbServer) -> None:
    address = {"host": "127.0.0.1", "port": mariadb.port, "user": USER}
    opened = connection.open_connection(address | {"ssl_disabled": True}, 10.0)
    now = 0.0
    idle = connection.MySqlConnection(opened, lambda: now)
    now = 100.0
    assert idle.is_usable(now + 0.2)
    assert opened._read_timeout <= 0.2 + connection.STEP
    idle.close()


def test_a_connection_that_is_killed_while_somebody_waits_for_a_row(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    ann = invite(mariadb.url)
    lease = ann.takes(ttl=60)
    with mariadb.connection() as other:
        other.begin()
        with other.cursor() as cursor:
            cursor.execute("SELECT * FROM holdfast_leases FOR UPDATE")
        extending = ann.begin(lease.extend, 61)
        running = f"{OURS} AND command = 'Query'"
        wait_for(lambda: mariadb.query(running))
        for (number,) in mariadb.query(running):
            mariadb.query(f"KILL {number}")
        other.rollback()
    extending.result(20)
    assert lease.held


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_server_that_cannot_be_written_says_so(
    mariadb: MariaDbServer, invite: Invite, scheme: str
) -> None:
    url = mariadb.url_for(USER, scheme)
    ann, ben = invite(url), invite(url)
    lease = ann.takes(ttl=60)
    ben(ben.takes("another").release)
    before = mariadb.query(OURS)
    mariadb.query("SET GLOBAL read_only = ON")
    [why] = ben.refused("another").values()
    assert "read-only" in why
    assert "name the primary" in why
    assert "it is read-only" in {found.what for found in ben(ben.client.diagnose)}
    wait_for(lambda: not set(before) <= set(mariadb.query(OURS)))  # the next may lead elsewhere
    assert ben(ben.client.inspect, "job").holder == lease.holder  # it can be asked, though
    mariadb.query("SET GLOBAL read_only = OFF")
    assert ben.tries("another")


def test_a_user_who_may_not_make_the_table_is_told_how(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    mariadb.query("CREATE OR REPLACE USER guest@'127.0.0.1'")
    guest = invite(mariadb.url_for("guest"))
    [why] = guest.refused().values()
    assert "may not use the database" in why
    mariadb.query("GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.* TO guest@'127.0.0.1'")
    [why] = guest.refused().values()
    assert "could not be made" in why
    assert "denied" in why
    for sql in why[why.index("CREATE TABLE") :].split(";"):
        if sql.strip():
            mariadb.query(sql)  # as it is
    lease = guest.takes()
    assert guest(guest.client.inspect, "job").fence == lease.fence
    guest(lease.release)
    mariadb.query("REVOKE UPDATE ON holdfast.* FROM guest@'127.0.0.1'")
    [why] = invite(mariadb.url_for("guest")).refused().values()
    assert "UPDATE command denied" in why


def test_a_password_that_is_wrong(mariadb: MariaDbServer, invite: Invite) -> None:
    mariadb.query("CREATE OR REPLACE USER ann@'127.0.0.1' IDENTIFIED BY 'p@ss/word'")
    mariadb.query("GRANT ALL ON holdfast.* TO ann@'127.0.0.1'")
    assert invite(mariadb.url_for("ann:p%40ss%2Fword")).takes()
    [why] = invite(mariadb.url_for("ann:guess")).refused().values()
    assert "the login was refused" in why


@pytest.mark.slow
def test_a_server_without_a_connection_left_says_so(invite: Invite) -> None:
    with MariaDbServer(settings={"max-connections": "10"}) as server:
        guests = [invite(server.url) for _ in range(11)]
        for number, guest in enumerate(guests[:10]):
            guest.takes(f"job {number}", ttl=60)
        [why] = guests[10].refused().values()
        assert "no connection left" in why
        first = guests[0].client
        guests[0](first.close if guests[0].mode == "sync" else first.aclose)
        wait_for(lambda: guests[10].insists(guests[10].client.inspect, "job 1"))


@pytest.mark.parametrize("level", ["REPEATABLE-READ", "SERIALIZABLE"])
def test_a_server_that_is_stricter_by_default(
    mariadb: MariaDbServer, invite: Invite, level: str
) -> None:
    mariadb.query(f"SET GLOBAL tx_isolation = '{level}'")
    waiting = "SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_state = %s"
    is_blocking = MariaDb.waiting  # since `waiting`, if asked too often, shows the past
    try:
        ann = invite(mariadb.url)
        lease = ann.takes(ttl=60)
        with mariadb.connection() as other, other.cursor() as cursor:
            other.begin()
            cursor.execute("SELECT * FROM holdfast_leases FOR UPDATE")
            extending = ann.begin(lease.extend)
            wait_for(
                lambda: (
                    mariadb.query(is_blocking)
                    and mariadb.query(waiting, ("LOCK WAIT",)) == [("READ COMMITTED",)]
                )
            )
            other.rollback()
        extending.result(20)
    finally:
        mariadb.query("SET GLOBAL tx_isolation = 'REPEATABLE-READ'")


@pytest.mark.slow
def test_a_lock_over_tls(invite: Invite) -> None:
    server = MariaDbServer()
    files = make_certificates(server.folder / "tls")
    give_to_user(files.key)
    server.settings |= {
        "ssl-ca": str(files.authority),
        "ssl-cert": str(files.certificate),
        "ssl-key": str(files.key),
        "require-secure-transport": "ON",
    }
    with server:
        ann, ben = invite(f"{server.url}?ssl_ca={files.authority}"), invite(server.url)
        lease = ann.takes(ttl=60)
        ann(lease.extend)
        value = os.urandom(1 << 20)
        assert ann(ann.client.cell("stock").set, value, expect=0)
        assert ann(ann.client.cell("stock").get).value == value
        [why] = ben.refused().values()
        assert "the login was refused" in why, "it does not do without"
        [why] = invite(f"{server.url}?ssl=on").refused().values()
        assert "certificate verify failed" in why
