"""A transaction that relies on a lease (FOR KEY SHARE on its row) keeps a takeover waiting, and
nothing else: neither renewals nor releases nor other people's tries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from holdfast.lab.servers.postgres import PostgresServer
from tests.engines.sql.conftest import Invite
from tests.patience import wait_for

GUARD = """
SELECT 1 FROM holdfast_leases
WHERE name = 'holdfast:job' AND holder = %s AND fence = %s FOR KEY SHARE
"""


@contextmanager
def guarded(server: PostgresServer, lease: Any, level: str) -> Iterator[None]:
    """While a transaction relies on the lease."""
    with server.connection() as connection:
        connection.isolation_level = psycopg.IsolationLevel[level]
        with connection.transaction():
            assert connection.execute(GUARD, (lease.holder, lease.fence)).fetchall() == [(1,)]
            yield


@pytest.mark.parametrize("level", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
def test_renewals_and_tries_go_on(postgres: PostgresServer, invite: Invite, level: str) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes(ttl=3)
    with guarded(postgres, lease, level):
        ann(lease.extend, 60)
        assert ben.tries() is None
        assert ben(ben.client.lock("job").acquire, timeout=0.1) is None
        ann(lease.extend, 61)
    assert lease.held
    ann(lease.release)


@pytest.mark.parametrize("level", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
def test_a_released_lease_is_not_taken_over_before_the_commit(
    postgres: PostgresServer, invite: Invite, level: str
) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes()
    with guarded(postgres, lease, level):
        ann(lease.release)
        assert ben.tries() is None, "held, and within its time"
        assert ben(ben.client.lock("job").acquire, timeout=0.2) is None
    assert ben.tries().fence == lease.fence + 1


def test_an_expired_lease_is_not_taken_over_before_the_commit(
    postgres: PostgresServer, invite: Invite
) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes(ttl=0.5, renew=False)
    with guarded(postgres, lease, "READ_COMMITTED"):
        wait_for(lambda: ben(ben.client.inspect, "job") is None)
        assert ben.tries() is None
        waiting = ben.begin(ben.client.lock("job").acquire, timeout=20)
    mine = waiting.result(20)
    assert mine.fence == lease.fence + 1
    ben(mine.release)


def test_an_offer_is_confirmed_after_the_commit(postgres: PostgresServer, invite: Invite) -> None:
    ann, ben = invite(postgres.url), invite(postgres.url)
    lease = ann.takes(ttl=60)
    waiting = ben.begin(ben.client.lock("job").acquire, timeout=20)
    wait_for(lambda: ann(ann.client.inspect, "job").waiters == 1)
    with guarded(postgres, lease, "READ_COMMITTED"):
        ann(lease.release)
        assert not waiting.done()
    mine = waiting.result(20)
    assert mine.fence == lease.fence + 1
    ben(mine.release)


def test_a_fence_that_is_changed_by_other_means_waits_for_the_commit_too(
    postgres: PostgresServer, invite: Invite
) -> None:
    """The table's own doing: (name, fence) is unique, and so the fence is a part of a key."""
    lease = invite(postgres.url).takes()
    with guarded(postgres, lease, "READ_COMMITTED"), postgres.connection() as other:
        other.execute("SET lock_timeout = '100ms'")
        other.execute("UPDATE holdfast_leases SET ends = ends + interval '1 s'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("UPDATE holdfast_leases SET fence = fence + 1")
