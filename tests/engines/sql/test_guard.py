"""`lease.guard(connection)`: a user's own transaction, tied to the lease that it relies on."""

import contextlib
import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql.cursors
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import holdfast
from tests.contract.mysql_places import mariadb_place
from tests.engines.redis.party import Party
from tests.engines.sql.databases import CONFLICTS, Database, MariaDb, Postgres
from tests.engines.sql.users import (
    AUTOCOMMIT,
    LEVELS,
    READ_COMMITTED,
    REPEATABLE_READ,
    SERIALIZABLE,
    Transaction,
    Way,
    sqlalchemy_url,
)
from tests.patience import wait_for

pytestmark = pytest.mark.slow

WAYS = {
    "postgres": (
        Way("psycopg", "sync"),
        Way("psycopg", "async"),
        Way("SQLAlchemy", "sync"),
        Way("SQLAlchemy", "async"),
    ),
    "mariadb": (
        Way("PyMySQL", "sync"),
        Way("asyncmy", "async"),
        Way("aiomysql", "async"),
        Way("SQLAlchemy", "sync"),
        Way("SQLAlchemy", "async"),
    ),
}

LONG = 30.0
"""A ttl that no test sees the end of."""

SHORT = 0.3
"""One that ends soon."""

OF_ONE_COLOUR = pytest.mark.parametrize(
    ("kind", "way"), [(kind, ways[0]) for kind, ways in WAYS.items()], ids=list(WAYS)
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each way to each database, and each level, for a test that does not say which."""
    marks = metafunc.definition.iter_markers("parametrize")
    chosen = {name for mark in marks for name in (mark.args[0], *mark.args[0])}
    if "way" in metafunc.fixturenames and "way" not in chosen:
        pairs = [(kind, way) for kind, ways in WAYS.items() for way in ways]
        metafunc.parametrize(("kind", "way"), pairs, ids=[f"{k}-{w}" for k, w in pairs])
    if "level" in metafunc.fixturenames and "level" not in chosen:
        metafunc.parametrize("level", LEVELS)


@pytest.fixture
def database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if kind == "postgres":
        return Postgres(request.getfixturevalue("postgres"))
    return MariaDb(mariadb_place(tmp_path).server)


@pytest.fixture
def ann(database: Database, way: Way) -> Iterator[Party]:
    party = Party(way.colour, database.url)
    yield party
    party.close()


@pytest.fixture
def ben(database: Database) -> Iterator[Party]:
    party = Party("sync", database.url)
    yield party
    party.close()


@pytest.fixture
def transaction(database: Database, way: Way, ann: Party, level: str) -> Iterator[Transaction]:
    """Ann's."""
    opened = way.begin(ann, database.url, level)
    yield opened
    opened.close()


def take_away(ben: Party) -> None:
    """Have ben hold the lock, while ann believes that it is hers."""
    ben(ben.client.break_lock, "job")
    assert ben.tries(ttl=LONG)


class TestWhileItIsOpen:
    def test_nobody_takes_a_lease_over_that_has_ended(
        self, database: Database, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=SHORT, renew=False)
        transaction.guard(lease)
        transaction.say("UPDATE stock SET units = units - 1")
        wait_for(database.has_ended)
        waiting = ben.begin(ben.client.lock("job", ttl=LONG).acquire)
        for _ in range(3):
            assert ben.tries() is None  # and is not kept waiting for the transaction
        assert not waiting.done()
        transaction.commit()
        later = waiting.result(10)
        assert later.fence > lease.fence
        assert database.units() == 9
        ben(later.release)

    def test_nobody_takes_it_when_it_was_broken(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        transaction.guard(lease)
        assert ben(ben.client.break_lock, "job")
        assert ben.tries() is None
        transaction.rollback()
        assert ben.takes().fence > lease.fence

    def test_nobody_takes_it_when_it_was_released(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG)
        transaction.guard(lease)
        waiting = ben.begin(ben.client.lock("job", ttl=LONG).acquire)
        wait_for(lambda: ben(ben.client.inspect, "job").waiters in (1, None))
        ann(lease.release)
        assert ben.tries() is None
        assert not waiting.done()
        transaction.commit()
        ben(waiting.result(10).release)

    def test_renewals_go_on(
        self, database: Database, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=1.0)
        transaction.guard(lease)
        transaction.say("UPDATE stock SET units = units - 1")
        end = database.end()
        wait_for(lambda: database.end() > end + lease.ttl or lease.lost)
        assert lease.held
        assert ben.tries() is None
        ann(lease.extend, LONG)
        transaction.commit()
        ann(lease.release)

    def test_it_may_be_said_twice(
        self, database: Database, ann: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=3.0)
        transaction.guard(lease)
        end = database.end()
        wait_for(lambda: database.end() > end or lease.lost)  # the row has changed meanwhile
        transaction.guard(lease)
        transaction.commit()
        transaction.guard(lease)
        transaction.rollback()


class TestAfterATakeover:
    def test_nothing_can_be_committed(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        told: list[Any] = []
        lease = ann.takes(ttl=LONG, renew=False)
        ann(lease.on_lost, told.append)
        take_away(ben)
        with pytest.raises(holdfast.LockLost, match="'job'"):
            transaction.guard(lease)
        transaction.rollback()
        assert lease.lost
        wait_for(lambda: told == [lease])

    def test_nor_in_a_transaction_that_saw_the_lease_before(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        transaction.say("SELECT units FROM stock")
        take_away(ben)
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)
        transaction.rollback()

    def test_nor_when_the_time_was_over(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=SHORT, renew=False)
        ben.takes(ttl=LONG)
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)

    def test_a_guard_waits_for_a_takeover_that_is_under_way(
        self, database: Database, kind: str, ann: Party, transaction: Transaction
    ) -> None:
        """A takeover is one statement. Here it takes longer."""
        lease = ann.takes(ttl=LONG, renew=False)
        here = WAYS[kind][0].begin(lambda call, *values: call(*values), database.url)
        with contextlib.closing(here) as usurper:
            usurper.say("UPDATE holdfast_leases SET fence = fence + 1, holder = 'other'")
            guarding = threading.Thread(target=self._is_refused, args=(transaction, lease))
            guarding.start()
            wait_for(lambda: database.is_blocking() or not guarding.is_alive())
            assert guarding.is_alive()
            usurper.commit()
        guarding.join(10)
        assert lease.lost

    def _is_refused(self, transaction: Transaction, lease: Any) -> None:
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)
        transaction.rollback()


def test_a_transaction_that_is_older_than_the_lease(
    kind: str, ann: Party, transaction: Transaction, level: str
) -> None:
    ann(ann.takes("another").release)  # so that there is a table
    transaction.say("SELECT units FROM stock")
    lease = ann.takes(ttl=LONG, renew=False)
    sees_the_past = level == REPEATABLE_READ or (level == SERIALIZABLE and kind == "postgres")
    if sees_the_past:
        with pytest.raises(ValueError, match=r"^connection: .* began before the lease"):
            transaction.guard(lease)
    else:
        transaction.guard(lease)
    transaction.rollback()
    assert lease.held


@pytest.mark.parametrize("level", [READ_COMMITTED])
class TestWhatIsRefused:
    def test_a_connection_to_another_database(
        self, database: Database, way: Way, ann: Party, level: str
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        with (
            contextlib.closing(way.begin(ann, database.url_elsewhere, level)) as elsewhere,
            pytest.raises(ValueError, match=r"^connection: .* another database"),
        ):
            elsewhere.guard(lease)
        assert lease.held

    def test_one_that_commits_each_statement(
        self, database: Database, way: Way, ann: Party, level: str
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        with contextlib.closing(way.begin(ann, database.url, AUTOCOMMIT)) as automatic:
            with pytest.raises(ValueError, match=r"^connection: .*autocommit"):
                automatic.guard(lease)
            if way.library != "SQLAlchemy":
                automatic.say("BEGIN")
                automatic.guard(lease)
                automatic.say("COMMIT")

    def test_a_lease_that_was_released(self, ann: Party, transaction: Transaction) -> None:
        lease = ann.takes(ttl=LONG)
        ann(lease.release)
        with pytest.raises(holdfast.NotHeld, match="released already"):
            transaction.guard(lease)

    def test_what_is_no_connection(self, ann: Party, level: str) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        for thing in (None, object(), sqlalchemy.create_engine("sqlite://")):
            kind = f"{type(thing).__module__}.{type(thing).__name__}"
            with pytest.raises(TypeError, match=rf"^connection: .*{kind}"):
                ann(lease.guard, thing)

    def test_one_of_the_other_colour(
        self, kind: str, database: Database, way: Way, ann: Party, level: str
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        other = next(each for each in WAYS[kind] if each.colour != way.colour)
        with (
            contextlib.closing(Party(other.colour, database.url)) as stranger,
            contextlib.closing(other.begin(stranger, database.url, level)) as theirs,
            pytest.raises(TypeError, match=type(theirs.connection).__module__),
        ):
            ann(lease.guard, theirs.connection)


@OF_ONE_COLOUR
class TestOneColour:
    def test_a_connection_to_another_kind_of_database(self, ann: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        with (
            contextlib.closing(sqlite3.connect(":memory:")) as own,
            pytest.raises(TypeError, match=r"kept in .*SQLite.*fence\.check"),
        ):
            ann(lease.guard, own)

    def test_a_session(self, database: Database, ann: Party, ben: Party) -> None:
        engine = sqlalchemy.create_engine(sqlalchemy_url(database.url, "sync"))
        lease = ann.takes(ttl=SHORT, renew=False)
        with Session(engine) as session, session.begin():
            lease.guard(session)
            wait_for(database.has_ended)
            assert ben.tries() is None
        assert ben.takes()
        engine.dispose()

    def test_what_a_connection_makes_of_rows(
        self, kind: str, database: Database, ann: Party
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        own: Any
        if kind == "postgres":
            own = psycopg.connect(database.url, cursor_factory=psycopg.RawCursor)
            own.row_factory = psycopg.rows.dict_row
        else:
            own = WAYS[kind][0].begin(ann, database.url).connection
            own.cursorclass = pymysql.cursors.SSDictCursor
        lease.guard(own)
        own.close()


@pytest.mark.parametrize(
    ("kind", "way"), [(kind, ways[-1]) for kind, ways in WAYS.items()], ids=list(WAYS)
)
def test_a_session_for_asyncio(database: Database, ann: Party, ben: Party) -> None:
    async def work() -> None:
        engine = create_async_engine(sqlalchemy_url(database.url, "async"))
        async with AsyncSession(engine) as session, session.begin():
            await lease.guard(session)
            wait_for(database.has_ended)
            assert ben.tries() is None
        await engine.dispose()

    lease = ann.takes(ttl=SHORT, renew=False)
    ann(work)
    assert ben.takes()


@pytest.mark.parametrize(
    ("kind", "level"),
    [("postgres", READ_COMMITTED), ("mariadb", READ_COMMITTED), ("mariadb", REPEATABLE_READ)],
)
def test_no_update_is_lost_when_leases_end_in_the_midst_of_transactions(
    database: Database, kind: str, level: str
) -> None:
    """Where the database itself would not keep anybody from writing what is old."""
    sellers = [Seller(WAYS[kind][0], database.url, level, seed) for seed in range(3)]
    for seller in sellers:
        seller.start()
    for seller in sellers:
        seller.join(60)
    sold = sum(seller.sold for seller in sellers)
    assert sold
    assert database.units() == 10 - sold


class Seller(threading.Thread):
    """Reads how many units there are, dawdles for about a ttl, and writes one less."""

    def __init__(self, way: Way, url: str, level: str, seed: int) -> None:
        super().__init__()
        self.sold = 0
        self._way, self._url, self._level, self._random = way, url, level, random.Random(seed)

    def run(self) -> None:
        party = Party("sync", self._url)
        own = self._way.begin(party, self._url, self._level)
        for _ in range(5):
            lease = party.insists(party.client.lock("job", ttl=SHORT, renew=False).acquire)
            try:
                own.guard(lease)
                self._sell(own)
            except (holdfast.LockError, *CONFLICTS):
                own.rollback()
            with contextlib.suppress(holdfast.LockError):  # by now it may be another's
                lease.release()
        own.close()
        party.close()

    def _sell(self, own: Transaction) -> None:
        [(found,)] = own.say("SELECT units FROM stock")
        threading.Event().wait(self._random.uniform(0, 1.5 * SHORT))
        own.say(f"UPDATE stock SET units = {found - 1}")
        own.commit()
        self.sold += 1
