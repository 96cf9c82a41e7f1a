"""The lease table: what it keeps apart, and quick however many rows it has."""

from dataclasses import fields

import psycopg
import pytest

import holdfast
from holdfast.engines.sql.postgres.commands import SESSION_SETTINGS, Statements
from tests.engines.redis.party import Party
from tests.engines.sql.conftest import Invite
from tests.equipment.servers.postgres import PostgresServer


@pytest.mark.parametrize(
    "table", ["", "a b", 'x"y', "a.b.c", "1st", "t;DROP TABLE x", "ä", "a" * 64, ".a"]
)
def test_a_name_that_is_none_is_refused_before_anything_happens(table: str) -> None:
    with pytest.raises(ValueError, match="table: must be a name"):
        holdfast.Client("postgresql://nobody.invalid/x", table=table)


def test_fences_grow_on_a_standby_that_has_missed_some(
    postgres: PostgresServer, invite: Invite
) -> None:
    """What it has is an older row. And a clock that lags behind the fence does no harm either."""
    ann = invite(postgres.url)
    lease = ann.takes()
    ann(lease.release)
    postgres.query("UPDATE holdfast_leases SET fence = fence - 1000")
    again = ann.takes()
    assert again.fence > lease.fence
    ann(again.release)
    ahead = again.fence + 10**12
    postgres.query("UPDATE holdfast_leases SET fence = %s", (ahead,))
    assert ann.takes().fence == ahead + 1


def test_no_statement_looks_at_more_than_the_rows_it_is_about(
    postgres: PostgresServer, invite: Invite
) -> None:
    """But for the listing, which is for operators: an index for it would cost each acquire."""
    ann = invite(postgres.url)
    ann(ann.takes().release)
    postgres.query(
        "INSERT INTO holdfast_leases (name, fence, expires)"
        " SELECT decode(to_hex(n), 'escape'), n, 0 FROM generate_series(1, 100000) AS n"
    )
    postgres.query(
        "INSERT INTO holdfast_leases_waiters"
        " SELECT decode(to_hex(n), 'escape'), '', n, '', 0, 0 FROM generate_series(1, 100000) AS n"
    )
    postgres.query("ANALYZE")
    dialect = Statements("holdfast_leases").dialect
    names = [field.name for field in fields(dialect) if field.name != "listing"]
    texts = {name: getattr(dialect, name) for name in names}
    with postgres.connection() as connection:
        connection.execute(SESSION_SETTINGS.encode())
        for name, text in texts.items():
            if text is not None:
                connection.execute(f"PREPARE its_{name} AS {text.sql}".encode())
                values = f"({', '.join('NULL' for _ in text.names)})" if text.names else ""
                explain = f"EXPLAIN EXECUTE its_{name} {values}"
                plan = "\n".join(line for (line,) in connection.execute(explain.encode()))
                assert "Seq Scan on holdfast" not in plan, f"{name}: {plan}"


def test_a_fence_that_is_changed_by_other_means_waits_for_a_guarded_transaction_too(
    postgres: PostgresServer,
) -> None:
    """The table's own doing: (name, fence) is unique, and so the fence is a part of a key."""
    ann = Party("sync", postgres.url)
    lease = ann.takes()
    with psycopg.connect(postgres.url) as own, postgres.connection() as other:
        lease.guard(own)
        other.execute("SET lock_timeout = '100ms'")
        other.execute("UPDATE holdfast_leases SET expires = expires + 1")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("UPDATE holdfast_leases SET fence = fence + 1")
    ann.close()
