"""`fence.check`: stale fences are refused in the transaction in which one writes. Here in SQLite;
what is particular to servers is in `tests/engines/sql/test_fences.py`."""

import asyncio
import inspect
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import fence
from tests.engines.sql.users import AUTOCOMMIT, Transaction, Way

WAYS = [
    Way("sqlite3", "sync"),
    Way("aiosqlite", "async"),
    Way("SQLAlchemy", "sync"),
    Way("SQLAlchemy", "async"),
]


@pytest.fixture
def run() -> Iterator[Callable[..., Any]]:
    """Calls a function; if that makes something to await, it is awaited."""
    loop = asyncio.new_event_loop()

    def call(function: Callable[..., Any], *values: Any) -> Any:
        result = function(*values)
        return loop.run_until_complete(result) if inspect.isawaitable(result) else result

    yield call
    loop.close()


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/shop.db"


@pytest.fixture
def transaction(way: Way, run: Any, url: str) -> Iterator[Transaction]:
    opened = way.begin(run, url)
    yield opened
    opened.close()


@pytest.fixture
def check(way: Way, run: Any) -> Any:
    function = fence.check if way.mode == "sync" else fence.acheck
    return lambda transaction, *values: run(function, transaction.connection, *values)


def test_only_an_older_fence_is_refused(transaction: Transaction, check: Any) -> None:
    for token in (7, 7, 9, 2**63 - 1):
        check(transaction, "job", token)
    transaction.commit()
    with pytest.raises(holdfast.StaleFence) as caught:
        check(transaction, "job", 9)
    assert (caught.value.name, caught.value.fence, caught.value.newest) == ("job", 9, 2**63 - 1)
    check(transaction, "job", 2**63 - 1)


def test_each_name_has_its_own(transaction: Transaction, check: Any) -> None:
    names = ["job", "JOB", "job ", "%s", ":name", "'", "ж", "x" * 512]
    for token, name in enumerate(names, 1):
        check(transaction, name, token)
    for token, name in enumerate(names, 1):
        check(transaction, name, token)


def test_it_is_part_of_the_transaction(transaction: Transaction, check: Any) -> None:
    transaction.say("CREATE TABLE stock (units int)")
    check(transaction, "job", 1)
    transaction.commit()
    check(transaction, "job", 2)
    transaction.say("INSERT INTO stock VALUES (1)")
    transaction.rollback()
    assert transaction.say("SELECT * FROM stock") == []
    check(transaction, "job", 1)


def test_others_see_it_after_the_commit(
    way: Way, run: Any, url: str, transaction: Transaction, check: Any
) -> None:
    check(transaction, "job", 2)
    transaction.commit()
    with closing(way.begin(run, url)) as other, pytest.raises(holdfast.StaleFence):
        check(other, "job", 1)


def test_a_connection_that_commits_each_statement(way: Way, run: Any, url: str, check: Any) -> None:
    with closing(way.begin(run, url, AUTOCOMMIT)) as automatic:
        with pytest.raises(ValueError, match=r"^connection: .*autocommit"):
            check(automatic, "job", 1)
        if way.library != "SQLAlchemy":
            automatic.say("BEGIN")
            check(automatic, "job", 1)
            automatic.say("COMMIT")


def test_it_does_not_matter_what_a_connection_makes_of_rows(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.row_factory = lambda _, row: {"row": row}
    connection.text_factory = bytes
    fence.check(connection, "job", 2)
    with pytest.raises(holdfast.StaleFence):
        fence.check(connection, "job", 1)
    connection.close()


@pytest.mark.parametrize("thing", [None, "sqlite:///x.db", object(), Path(), sqlite3.Connection])
def test_what_is_no_connection(run: Any, thing: Any) -> None:
    kind = thing if isinstance(thing, type) else type(thing)
    for function in (fence.check, fence.acheck):
        with pytest.raises(
            TypeError, match=rf"^connection: .* got a {kind.__module__}.{kind.__name__}"
        ):
            run(function, thing, "job", 1)


def test_a_connection_of_the_other_mode(way: Way, run: Any, transaction: Transaction) -> None:
    other = fence.acheck if way.mode == "sync" else fence.check
    with pytest.raises(TypeError, match=rf"^connection: .*{type(transaction.connection).__name__}"):
        run(other, transaction.connection, "job", 1)


@pytest.mark.parametrize("token", [0, -1, 2**63])
def test_a_bad_fence(transaction: Transaction, check: Any, token: int) -> None:
    with pytest.raises(ValueError, match=r"^fence: "):
        check(transaction, "job", token)
    with pytest.raises(TypeError, match=r"^fence: "):
        check(transaction, "job", "7")
    with pytest.raises(TypeError, match=r"^fence: "):
        check(transaction, "job", True)
    with pytest.raises(ValueError, match=r"^name: "):
        check(transaction, "", 7)


def test_the_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(holdfast.StaleFence("job", 7, 9)))
    assert (error.name, error.fence, error.newest) == ("job", 7, 9)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///tmp/locks.db", "redis://h"])
def test_an_engine_without_a_guard_says_what_to_do(url: str) -> None:
    with (
        holdfast.Client("memory://guardless") as client,
        client.lock("job") as lease,
        pytest.raises(ValueError, match=r"holdfast\.fence\.check\(connection"),
    ):
        lease.guard(None)
    assert holdfast.Client(url)._engine.guard is None
