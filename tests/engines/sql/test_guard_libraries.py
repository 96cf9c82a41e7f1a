"""`lease.guard(connection)` with the connections of each library, and what is none."""

import contextlib
import sqlite3
from typing import Any

import psycopg
import pymysql.cursors
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import holdfast
from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database
from tests.engines.sql.users import AUTOCOMMIT, EACH_KIND, WAYS, Transaction, Way, sqlalchemy_url
from tests.patience import wait_for

pytestmark = pytest.mark.slow

LONG = 30.0
"""A ttl that no test sees the end of."""

SHORT = 0.3
"""One that ends soon."""

EACH_WAY = pytest.mark.parametrize(
    ("kind", "way"), [(kind, way) for kind, ways in WAYS.items() for way in ways], ids=str
)


@EACH_WAY
class TestEachLibrary:
    def test_a_guard_holds_until_the_commit_and_not_after_a_takeover(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        transaction.guard(lease)
        assert ben(ben.client.break_lock, "job")
        assert ben.tries() is None
        transaction.commit()
        assert ben.takes(ttl=LONG)
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)
        transaction.rollback()

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


@EACH_KIND
class TestOneLibrary:
    def test_a_lease_that_was_released(self, ann: Party, transaction: Transaction) -> None:
        lease = ann.takes(ttl=LONG)
        ann(lease.release)
        with pytest.raises(holdfast.NotHeld, match="released already"):
            transaction.guard(lease)

    def test_what_is_no_connection(self, ann: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        for thing in (object(), "job", sqlalchemy.create_engine("sqlite://")):
            kind = f"{type(thing).__module__}.{type(thing).__name__}"
            with pytest.raises(TypeError, match=rf"^connection: .*{kind}"):
                ann(lease.guard, thing)

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
