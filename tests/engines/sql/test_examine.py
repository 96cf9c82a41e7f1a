"""What the doctor says of a database that is set up badly, or has something in the way."""

from urllib.parse import quote

import pytest

from holdfast import Client, Finding
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.equipment.servers.postgres import PostgresServer

pytestmark = pytest.mark.slow


def findings(url: str) -> list[Finding]:
    with Client(url) as client:
        return client.diagnose()


def about(word: str, found: list[Finding]) -> list[str]:
    return [each.severity for each in found if word in each.what]


def with_setting(url: str, setting: str) -> str:
    return f"{url}?options={quote(f'-c {setting}')}"


class TestPostgres:
    def test_a_server_that_may_forget(self, postgres: PostgresServer) -> None:
        url = with_setting(postgres.url, "synchronous_commit=off")
        found = findings(url)
        assert about("synchronous_commit is off", found) == ["warning"]
        assert about("fsync is off", found) == ["critical"]  # as those of the tests run

    def test_sessions_that_begin_in_another_way(self, postgres: PostgresServer) -> None:
        setting = "default_transaction_read_only=on -c default_transaction_isolation=serializable"
        found = findings(with_setting(postgres.url, setting))
        assert about("default_transaction_read_only is on", found)[0] == "critical"
        assert about("default_transaction_isolation is serializable", found) == ["note"]

    def test_a_pooler_in_the_way(self, pgbouncer: PgBouncer) -> None:
        assert about("there is a pooler in the way", findings(pgbouncer.url)) == ["note"]
        assert about("there is a pooler in the way", findings(pgbouncer.server.url)) == []
