"""PostgreSQL at its worst moments: killed, stopped, cut off, full, or not to be written."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines.redis.party import Party
from tests.engines.sql.conftest import TABLES, Invite
from tests.equipment.servers.postgres import PostgresServer
from tests.equipment.servers.proxy import Proxy
from tests.patience import wait_for


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres.port) as proxy:
        yield proxy


def waits(watcher: Party, name: str = "job") -> Callable[[], bool]:
    """Whether somebody is in the queue."""
    return lambda: watcher(watcher.client.inspect, name).waiters == 1


def test_a_listener_that_was_ended_listens_again(postgres: PostgresServer, invite: Invite) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes(ttl=60)
    waiting = ben.begin(ben.client.lock("job").acquire, timeout=20)
    wait_for(waits(ann))
    [(pid,)] = postgres.query("SELECT pid FROM holdfast_leases_waiters")
    postgres.query("SELECT pg_terminate_backend(%s, 5000)", (pid,))

    def is_back() -> bool:
        found = postgres.query("SELECT pid FROM holdfast_leases_waiters")
        return found not in ([(pid,)], [(0,)])

    wait_for(is_back)
    ann(lease.release)
    ben(waiting.result(20).release)


@pytest.mark.parametrize("behind", ["", "&target_session_attrs=read-write"])
def test_a_silent_host_does_not_hide_the_others(
    postgres: PostgresServer, proxy: Proxy, invite: Invite, behind: str
) -> None:
    proxy.hold()
    hosts = f"{proxy.address},127.0.0.1:1,{postgres.address}"
    ann = invite(f"postgresql://holdfast@{hosts}/postgres?connections=1{behind}")
    lease = ann.takes()
    ann(lease.release)


def test_names_are_looked_up_without_stopping_the_program(
    postgres: PostgresServer, invite: Invite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Python, while whose resolver waits all other threads run. The first address is wrong."""
    asked: list[str] = []

    def look_up(name: str, *args: Any, **options: Any) -> Any:
        asked.append(name)
        return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.9", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    hosts = f"db.invalid:{postgres.port},later.invalid:1"
    ann = invite(f"postgresql://holdfast@{hosts}/postgres")
    ann(ann.takes().release)
    assert set(asked) == {"db.invalid"}, "a name is looked up before its turn has come"


def test_a_standby_says_that_it_is_one(postgres: PostgresServer, invite: Invite) -> None:
    ann = invite(postgres.url)
    lease = ann.takes()
    with PostgresServer(standby=postgres) as standby:
        ben = invite(standby.url)
        wait_for(lambda: standby.query("SELECT to_regclass('holdfast_leases')") != [(None,)])
        [why] = ben.refused().values()
        assert "standby" in why
        assert "target_session_attrs" in why
        assert "it is a standby" in {found.what for found in ben(ben.client.diagnose)}
        assert ben(ben.client.inspect, "job").holder == lease.holder  # it can be asked, though
        ann(lease.release)
        wait_for(lambda: ben(ben.client.inspect, "job") is None)  # it has heard of that
        postgres.kill()
        standby.promote()
        assert ben.takes().fence > lease.fence


def test_a_role_that_may_not_make_the_table_is_told_how(
    postgres: PostgresServer, invite: Invite
) -> None:
    postgres.query("DROP ROLE IF EXISTS guest")
    postgres.query("CREATE ROLE guest LOGIN")
    guest = invite(postgres.url_for("guest"))
    [why] = guest.refused().values()
    assert "could not be made" in why
    assert "permission denied" in why
    postgres.query(why[why.index("CREATE TABLE") :])  # as it is
    [why] = guest.refused().values()
    assert "permission denied for table holdfast_leases" in why
    postgres.query(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLES} TO guest")
    lease = guest.takes()
    assert guest(guest.client.inspect, "job").fence == lease.fence
    guest(lease.release)
    postgres.query("DROP OWNED BY guest")


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_database_that_is_stricter_by_default(
    postgres: PostgresServer, invite: Invite, level: str
) -> None:
    postgres.query(f"ALTER ROLE holdfast SET default_transaction_isolation = '{level}'")
    try:
        crowd = [invite(postgres.url) for _ in range(4)]
        taking = [each.begin(each.client.lock("job").acquire, False) for each in crowd]
        leases = [each.result(20) for each in taking]
        assert len([lease for lease in leases if lease]) == 1
        for party, lease in zip(crowd, leases, strict=True):
            if lease:
                party(lease.release)
    finally:
        postgres.query("ALTER ROLE holdfast RESET default_transaction_isolation")
