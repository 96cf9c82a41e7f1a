"""Which tests one worker of pytest-xdist plays, so that their servers are started once."""

import pytest

from tests.conftest import group


@pytest.mark.parametrize(
    ("nodeid", "found"),
    [
        ("tests/contract/test_basic.py::test_it[etcd 3.4-sync]", "etcd 3.4-sync"),
        ("tests/contract/test_order.py::test_it[postgres-async-few]", "postgres-async"),
        ("tests/contract/test_basic.py::test_it[redis-sync]", ""),
        ("tests/engines/sql/test_guard.py::TestIt::test_it[a]", "tests/engines/sql"),
        ("tests/engines/sql/mysql/test_urls.py::test_it", "tests/engines/sql/mysql"),
        ("tests/engines/redis/test_slots.py::test_it[a]", "tests/engines/redis/test_slots.py"),
        ("tests/lab/test_clock.py::test_it", "tests/lab/test_clock.py"),
        ("tests/test_words.py::test_it", ""),
    ],
)
def test_by_their_servers(nodeid: str, found: str) -> None:
    assert group(nodeid) == (found or nodeid)


def test_pytest_xdist_asks_for_it() -> None:
    """If it no longer did, all tests would pass, and take twice as long."""
    scheduler = pytest.importorskip("xdist.scheduler").LoadScopeScheduling
    assert callable(scheduler._split_scope)
