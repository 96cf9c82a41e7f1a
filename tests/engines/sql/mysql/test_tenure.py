"""A transaction that relies on a lease locks its entry in the index by fence. That keeps a takeover
out, and nothing else, whatever the isolation: neither releases, nor other names, be they next to
it. (What holds on PostgreSQL, too, is in `test_guard.py`.)"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from holdfast import EngineUnavailable
from tests.engines.sql.conftest import Invite
from tests.equipment.servers.mariadb import MariaDbServer

LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]

RELY = """
SELECT 1 FROM holdfast_leases FORCE INDEX (tenure)
WHERE fence = %s AND name = 'holdfast:job' LOCK IN SHARE MODE
"""


@contextmanager
def relied_on(server: MariaDbServer, lease: Any, level: str) -> Iterator[None]:
    """While a transaction relies on the lease."""
    with server.connection() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        connection.begin()
        cursor.execute(RELY, (lease.fence,))
        assert cursor.fetchall() == ((1,),)
        yield
        connection.commit()


@pytest.mark.parametrize("level", LEVELS)
def test_other_names_are_free(mariadb: MariaDbServer, invite: Invite, level: str) -> None:
    ann, ben = invite(mariadb.url), invite(mariadb.url)
    names = ["jo", "joa", "job ", "job1", "k"]
    older = [ann.takes(name) for name in names[::2]]
    lease = ann.takes(ttl=60)
    for each in older:
        ann(each.release)
    with relied_on(mariadb, lease, level):
        for name in [*names, "a", "job\0"[:-1] + "0", "z"]:
            assert ben.tries(name), name


@pytest.mark.parametrize("level", LEVELS)
def test_a_released_lease_is_not_taken_over_before_the_commit(
    mariadb: MariaDbServer, invite: Invite, level: str
) -> None:
    ann, ben = invite(mariadb.url), invite(mariadb.url)
    lease = ann.takes()
    with relied_on(mariadb, lease, level):
        ann(lease.release)
        assert ben.tries() is None, "held, and within its time"
        assert ben(ben.client.lock("job").acquire, timeout=1.0) is None
    assert ben.tries().fence > lease.fence


def test_under_mysqls_words_a_try_waits_a_second_and_then_says_held(
    mariadb: MariaDbServer, invite: Invite
) -> None:
    url = mariadb.url_for("holdfast", "mysql")
    ann, ben = invite(url), invite(url)
    lease = ann.takes(ttl=60)
    with relied_on(mariadb, lease, "READ COMMITTED"):
        ann(lease.release)
        assert ben.tries(ttl=30) is None
    assert ben.tries().fence > lease.fence


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_a_share_is_not_granted_before_the_commit(
    mariadb: MariaDbServer, invite: Invite, scheme: str
) -> None:
    ann, ben = (invite(mariadb.url_for("holdfast", scheme)) for _ in range(2))
    reading = ben.client.rwlock("job", ttl=30).read
    lease = ann.takes(ttl=60)
    with relied_on(mariadb, lease, "READ COMMITTED"):
        ann(lease.release)
        assert ben(reading.acquire, blocking=False) is None
        waiting = ben.begin(reading.acquire, timeout=20)
        with suppress(EngineUnavailable):  # the row is locked, perhaps for longer than it may take
            assert ann.tries() is None, "it is offered to the reader"
    share = waiting.result(20)
    assert share.fence > lease.fence
    ben(share.release)
