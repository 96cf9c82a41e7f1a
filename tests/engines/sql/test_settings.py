"""Nothing depends on session settings that a DBA can change for a role, a database or a server."""

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg2
import pytest

import holdfast
from holdfast import schema
from tests.backends.mysql import mariadb_backend
from tests.engines.redis.party import Party
from tests.engines.sql.conftest import TABLES
from tests.engines.sql.users import WAYS
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.equipment.servers.postgres import PostgresServer
from tests.patience import wait_for

pytestmark = pytest.mark.slow

LONG = 30.0

POSTGRES = {
    "bytea_output": "escape",
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "extra_float_digits": "-15",
    "default_transaction_isolation": "serializable",
    "client_encoding": "LATIN1",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "search_path": "elsewhere, public",
}

POSTGRES_OURS = {
    "default_transaction_deferrable": "on",
    "lock_timeout": "1",
    "statement_timeout": "50",
    "plan_cache_mode": "force_custom_plan",
}
"""With these, users could do nothing, nor could we behind a pooler."""

MARIADB = {
    "sql_mode": "ANSI,ORACLE,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE",
    "time_zone": "+05:45",
    "tx_isolation": "SERIALIZABLE",
    "completion_type": "CHAIN",
    "collation_connection": "latin1_german2_ci",
    "character_set_server": "utf16",
    "collation_server": "utf16_general_ci",
    "sql_auto_is_null": 1,
    "sql_safe_updates": 1,
    "div_precision_increment": 0,
    "max_join_size": 1,
    "innodb_default_row_format": "compact",
    "default_storage_engine": "Aria",
}

MARIADB_OURS = {
    "autocommit": 0,
    "sql_select_limit": 0,
    "max_statement_time": 0.0001,
    "lock_wait_timeout": 1,
}

NAMES = ["job", "JOB", "job ", r"\x6a", "a\\'b", "é", "ж", '\\101 "$1" %s ?', "日本 \U0001f512"]
VALUES: list[bytes | str] = [b"1234", bytes(range(256)), "1234", r"\x31", "żółw\0'\\"]


def check_locks_and_cells(ann: Party, ben: Party) -> None:
    """What clients do, by public names."""
    fences = {}
    for name in NAMES:
        lease = ann.takes(name, ttl=LONG, renew=False)
        fences[name] = lease.fence
        info = ben(ben.client.inspect, name)
        assert (info.holder, info.fence) == (lease.holder, lease.fence)
        assert LONG - 10 < info.remaining <= LONG
        assert ben.tries(name) is None
        ann(lease.extend, 2 * LONG)
        assert LONG < ben(ben.client.inspect, name).remaining <= 2 * LONG
    assert sorted(info.name for info in ben(ben.client.leases)) == sorted(NAMES)
    waiting = ben.begin(ben.client.lock("job", ttl=LONG).acquire, timeout=20)
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 1)
    ann(lease_of(ann, "job").release)
    later = waiting.result(20)
    assert later.fence > fences["job"]
    ben(later.release)
    for party, other in ((ann, ben), (ben, ann)):  # on a connection that had a transaction, too
        lease = party.takes("after", ttl=LONG, renew=False)
        assert other(other.client.inspect, "after").holder == lease.holder
        party(lease.release)
    for name in NAMES:
        cell = ann.client.cell(name)
        for version, value in enumerate(VALUES):
            assert ann(cell.set, value, expect=version)
            found = ben(ben.client.cell(name).get)
            assert found == (value, version + 1)
            assert type(found.value) is type(value)


def lease_of(party: Party, name: str) -> Any:
    return next(lease for lease in party._leases if lease.name == name)


def check_guard_and_fence(ann: Party, ben: Party, own: Any) -> None:
    """What a user does in a transaction of their own."""
    for name in ("job ", "é", "ж"):
        lease = ann.takes(f"{name}/guarded", ttl=LONG, renew=False)
        lease.guard(own)
        holdfast.fence.check(own, name, 2)
        with pytest.raises(holdfast.StaleFence):
            holdfast.fence.check(own, name, 1)
        assert ben(ben.client.break_lock, lease.name)
        assert ben.tries(lease.name) is None
        own.rollback()
        ben(ben.takes(lease.name).release)


@pytest.fixture(params=["UTF8", "LATIN1", "SQL_ASCII"])
def hostile(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[str]:
    """A database that is set against us."""
    encoding = request.param
    name = f"hostile_{encoding.lower()}"
    postgres.query(
        f"CREATE DATABASE {name} ENCODING '{encoding}' "
        "LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    for setting, value in POSTGRES.items():
        quoted = value if setting == "search_path" else f"'{value}'"
        postgres.query(f"ALTER DATABASE {name} SET {setting} TO {quoted}")
    postgres.query("DROP ROLE IF EXISTS odd")
    postgres.query("CREATE ROLE odd LOGIN SUPERUSER")
    for setting, value in POSTGRES_OURS.items():
        postgres.query(f"ALTER ROLE odd SET {setting} TO '{value}'")
    yield name
    postgres.query(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def parties() -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def make(mode: Any, url: str) -> Party:
            return stack.enter_context(contextlib.closing(Party(mode, url)))

        yield make


def at(server: Any, database: str) -> str:
    return f"{server.url.rpartition('/')[0]}/{database}"


def test_postgres(hostile: str, postgres: PostgresServer, parties: Any) -> None:
    url = at(postgres, hostile)
    ann, ben = parties("sync", url), parties("async", url.replace("holdfast@", "odd@"))
    check_locks_and_cells(ann, ben)
    for connect in (psycopg.connect, psycopg2.connect):
        with contextlib.closing(connect(url)) as own:
            check_guard_and_fence(ann, ben, own)


@pytest.mark.parametrize("hostile", ["UTF8"], indirect=True)
def test_postgres_behind_a_pooler(hostile: str, pgbouncer: PgBouncer, parties: Any) -> None:
    url = at(pgbouncer, hostile)
    check_locks_and_cells(parties("async", url), parties("sync", url))


@contextlib.contextmanager
def set_to(server: Any, settings: dict[str, Any]) -> Iterator[None]:
    [defaults] = server.query(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in settings)}")
    try:
        for name, value in settings.items():
            server.query(f"SET GLOBAL {name} = %s", (value,))
        yield
    finally:
        for name, value in zip(settings, defaults, strict=True):
            server.query(f"SET GLOBAL {name} = %s", (value,))


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_mariadb(tmp_path: Any, parties: Any, scheme: str) -> None:
    server = mariadb_backend(tmp_path).server
    server.query(f"DROP TABLE IF EXISTS {TABLES}, holdfast_fences")
    url = server.url_for("holdfast", scheme)
    with set_to(server, MARIADB):
        with set_to(server, MARIADB_OURS):
            check_locks_and_cells(parties("sync", url), parties("async", url))
        ann, ben = parties("sync", url), parties("async", url)
        with contextlib.closing(WAYS["mariadb"][0].begin(ann, server.url)) as own:
            own.say("SET NAMES latin1")
            server.query(schema.ddl("mariadb://h/db").rpartition("\n--")[2].partition("\n")[2])
            check_guard_and_fence(ann, ben, own.connection)
