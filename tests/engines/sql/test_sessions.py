"""A session of ours sets what it needs, whatever the role or the server has as defaults."""

from collections.abc import Iterator

import pytest

from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database
from tests.equipment.servers.postgres import PostgresServer

pytestmark = pytest.mark.slow

NAMES = ["job", "Job", "job ", "it's \\ \\x41 \\' \\101 \"$1\" %s ?", "über", "日本語 \U0001f512"]
VALUES: list[bytes | str] = [b"1234", b"\\x00\\\\'\xff\x00", bytes(range(256)), "text \\ 日本 '"]

POSTGRES = {
    "bytea_output": "escape",
    "DateStyle": "SQL, DMY",
    "TimeZone": "Pacific/Chatham",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "escape_string_warning": "on",
    "search_path": "elsewhere",
    "client_encoding": "LATIN1",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "lock_timeout": "1",
    "statement_timeout": "50",
    "quote_all_identifiers": "on",
    "plan_cache_mode": "force_custom_plan",
}

MARIADB = {
    "sql_mode": "'ANSI,ORACLE,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE'",
    "time_zone": "'+13:00'",
    "character_set_server": "'utf16'",
    "collation_server": "'utf16_general_ci'",
    "collation_connection": "'latin1_swedish_ci'",
    "autocommit": "OFF",
    "tx_isolation": "'SERIALIZABLE'",
    "sql_select_limit": "0",
    "max_statement_time": "0.0001",
    "lock_wait_timeout": "1",
    "innodb_default_row_format": "'compact'",
    "default_storage_engine": "'Aria'",
    "sql_safe_updates": "ON",
    "div_precision_increment": "0",
}


def works(url: str, other: str) -> None:
    """All of it, by one client with such settings, and by one without."""
    for mode in ("sync", "async"):
        ann, ben = Party(mode, url, prefix=mode), Party("sync", other, prefix=mode)
        leases = {name: ann.takes(name, ttl=60) for name in NAMES}
        assert not any(ben.tries(name) for name in NAMES), "they do not exclude each other"
        assert sorted(info.name for info in ben(ben.client.leases)) == sorted(NAMES)
        for name, lease in leases.items():
            ann(lease.extend, 61)
            assert 55 < ben(ben.client.inspect, name).remaining <= 61
        waiting = ben.begin(ben.client.lock("job", ttl=60).acquire, timeout=20)
        ann(leases.pop("job").release)
        theirs = waiting.result(20)
        assert theirs
        mine = ann.begin(ann.client.lock("job", ttl=60).acquire, timeout=20)
        ben(theirs.release)
        assert mine.result(20).fence > theirs.fence
        ann(mine.result().release)
        for lease in leases.values():
            ann(lease.release)
        for number, value in enumerate(VALUES):
            for name in NAMES:
                cell = ann.client.cell(f"{name}{number}")
                assert ann(cell.set, value, expect=0)
                assert ben(ben.client.cell(f"{name}{number}").get).value == value
        ann.close()
        ben.close()


def test_a_role_of_postgresql(postgres: PostgresServer) -> None:
    postgres.query("DROP ROLE IF EXISTS odd")
    postgres.query("CREATE ROLE odd LOGIN SUPERUSER")
    for name, value in POSTGRES.items():
        postgres.query(f"ALTER ROLE odd SET {name} = '{value}'")
    works(postgres.url_for("odd"), postgres.url)


@pytest.fixture
def odd(database: Database) -> Iterator[Database]:
    usual = dict(database.query("SHOW GLOBAL VARIABLES"))
    for name, value in MARIADB.items():
        database.query(f"SET GLOBAL {name} = {value}")
    yield database
    for name in MARIADB:
        value = usual[name]
        is_number = value.replace(".", "").isdigit()
        database.query(
            f"SET GLOBAL {name} = {value}" if is_number else f"SET GLOBAL {name} = '{value}'"
        )


@pytest.mark.parametrize("kind", ["mariadb"])
@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_server_of_mariadb(odd: Database, scheme: str) -> None:
    url = odd.url.replace("mariadb:", f"{scheme}:")
    works(f"{url}?table=odd_{scheme}", f"{url}?table=odd_{scheme}")
