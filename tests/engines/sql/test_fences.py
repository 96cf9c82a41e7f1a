"""`fence.check` on servers: by every library, and when two transactions check at once."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import fence, schema
from tests.backends.mysql import mariadb_backend
from tests.engines.redis.party import Party
from tests.engines.sql.databases import CONFLICTS, Database, MariaDb, Postgres
from tests.engines.sql.users import LEVELS, READ_COMMITTED, WAYS, Transaction, Way
from tests.patience import wait_for

pytestmark = pytest.mark.slow

PAIRS = [(kind, way) for kind, ways in WAYS.items() for way in ways]
FEW = [(kind, way) for kind, ways in WAYS.items() for way in ways[:2]]
"""One for threads and one for asyncio."""


@pytest.fixture(params=PAIRS, ids=[f"{kind}-{way}" for kind, way in PAIRS])
def pair(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def database(
    pair: tuple[str, Way], request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Database]:
    if pair[0] == "postgres":
        yield Postgres(request.getfixturevalue("postgres"))
    else:
        yield MariaDb(mariadb_backend(tmp_path).server)


@pytest.fixture
def user(pair: tuple[str, Way]) -> Iterator[Party]:
    """Only its way of calling things is of interest."""
    party = Party(pair[1].mode, "memory://")
    yield party
    party.close()


@pytest.fixture
def own(database: Database, pair: tuple[str, Way], user: Party) -> Iterator[Transaction]:
    opened = pair[1].begin(user, database.url)
    yield opened
    opened.close()


def check(transaction: Transaction, token: int, name: str = "job") -> None:
    function = fence.check if transaction.party.mode == "sync" else fence.acheck
    transaction.party(function, transaction.connection, name, token)


def make_table(database: Database) -> None:
    scheme = database.url.partition("://")[0]
    database.query(schema.ddl(f"{scheme}://h/db").rpartition("-- ")[2].partition("\n")[2])


def test_only_an_older_fence_is_refused(database: Database, own: Transaction) -> None:
    make_table(database)
    names = ["job", "JOB", "job ", "%s", ":name", "'", "ж", "x" * 512]
    for token, name in enumerate(names, 2):
        check(own, token, name)
    own.commit()
    for token, name in enumerate(names, 2):
        check(own, token, name)
        with pytest.raises(holdfast.StaleFence, match=rf"stale: .* used {token};"):
            check(own, token - 1, name)
    own.rollback()
    check(own, 2**63 - 1)
    own.rollback()
    check(own, 2)


def test_sqlalchemy_without_greenlet(tmp_path: Path) -> None:
    """Which only its connections of asyncio need."""
    program = """
import sys
sys.modules["greenlet"] = None
import sqlalchemy, holdfast
with sqlalchemy.create_engine(sys.argv[1]).begin() as connection:
    holdfast.fence.check(connection, "a", 1)
"""
    url = f"sqlite:///{tmp_path}/data.db"
    subprocess.run([sys.executable, "-c", program, url], check=True, timeout=60)


@pytest.mark.parametrize("pair", FEW, ids=str)
def test_a_table_that_is_missing(
    database: Database, pair: tuple[str, Way], own: Transaction
) -> None:
    own.say("UPDATE stock SET units = 9")
    if pair[0] == "mariadb":
        with pytest.raises(holdfast.LockError, match=r"(?s)commit.*CREATE TABLE"):
            check(own, 2)
    else:
        check(own, 2)
        with pytest.raises(holdfast.StaleFence):
            check(own, 1)
    own.rollback()
    assert database.units() == 10
    assert not database.query(
        "SELECT 1 FROM information_schema.tables WHERE table_name = 'holdfast_fences'"
    )


@pytest.mark.parametrize("pair", [(kind, ways[0]) for kind, ways in WAYS.items()], ids=list(WAYS))
class TestTwoAtOnce:
    @pytest.fixture
    def late(self, database: Database, pair: tuple[str, Way], level: str) -> Iterator[Transaction]:
        party = Party("sync", "memory://")
        yield from self._opened(pair[1], party, database, level)
        party.close()

    @pytest.fixture
    def early(
        self, database: Database, pair: tuple[str, Way], user: Party, level: str
    ) -> Iterator[Transaction]:
        yield from self._opened(pair[1], user, database, level)

    def _opened(
        self, way: Way, party: Party, database: Database, level: str
    ) -> Iterator[Transaction]:
        opened = way.begin(party, database.url, level)
        yield opened
        opened.close()

    @pytest.mark.parametrize("level", LEVELS)
    def test_the_older_one_waits_and_is_refused(
        self, database: Database, early: Transaction, late: Transaction
    ) -> None:
        make_table(database)
        check(late, 2)
        checking = self._begin(early, 1, database)
        late.commit()
        checking.join(10)
        assert isinstance(checking.outcome, (holdfast.StaleFence, *CONFLICTS))

    @pytest.mark.parametrize("level", LEVELS)
    def test_the_older_one_goes_on_if_the_newer_is_undone(
        self, database: Database, early: Transaction, late: Transaction
    ) -> None:
        make_table(database)
        check(late, 2)
        checking = self._begin(early, 1, database)
        late.rollback()
        checking.join(10)
        assert checking.outcome is None
        early.commit()

    @pytest.mark.parametrize("level", [READ_COMMITTED])
    def test_both_are_the_first(
        self, database: Database, pair: tuple[str, Way], early: Transaction, late: Transaction
    ) -> None:
        if pair[0] == "mariadb":
            pytest.skip("the table is not made there")
        check(early, 1)
        checking = self._begin(late, 2, database)
        early.commit()
        checking.join(10)
        assert checking.outcome is None
        late.commit()

    def _begin(self, transaction: Transaction, token: int, database: Database) -> "Checking":
        checking = Checking(transaction, token)
        checking.start()
        wait_for(lambda: database.is_blocking() or not checking.is_alive())
        assert checking.is_alive()
        return checking


class Checking(threading.Thread):
    """Checks a fence, and says what came of it."""

    def __init__(self, transaction: Transaction, token: int) -> None:
        super().__init__()
        self._transaction, self._token = transaction, token
        self.outcome: Exception | None = None

    def run(self) -> None:
        try:
            check(self._transaction, self._token)
        except Exception as error:
            self.outcome = error
