"""`lease.guard(connection)` with the connections of each library, and what is refused."""

import asyncio
import contextlib
import sqlite3
import unittest
from importlib import import_module
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pymysql.cursors
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import holdfast
from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database
from tests.engines.sql.users import (
    AUTOCOMMIT,
    EACH_KIND,
    WAYS,
    Transaction,
    Way,
    django_connection,
    sqlalchemy_url,
)

pytestmark = pytest.mark.slow

LONG = 30.0
"""A ttl that no test sees the end of."""

EACH_WAY = pytest.mark.parametrize(
    ("kind", "way"), [(kind, way) for kind, ways in WAYS.items() for way in ways], ids=str
)

ONLY_POSTGRES = pytest.mark.parametrize(("kind", "way"), [("postgres", WAYS["postgres"][0])])
ASYNC_POSTGRES = pytest.mark.parametrize(("kind", "way"), [("postgres", WAYS["postgres"][1])])

SAVEPOINT = r"^connection: .* inside a savepoint"


def assert_guarded(ben: Party) -> None:
    """The lock was broken, and is not granted: a transaction still relies on it."""
    assert ben(ben.client.break_lock, "job")
    assert ben.tries() is None


@EACH_WAY
class TestEachLibrary:
    def test_a_guard_holds_until_the_commit_and_not_after_a_takeover(
        self, ann: Party, ben: Party, transaction: Transaction
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        transaction.guard(lease)
        assert_guarded(ben)
        transaction.commit()
        assert ben.takes(ttl=LONG)
        with pytest.raises(holdfast.LockLost):
            transaction.guard(lease)
        transaction.rollback()

    def test_autocommit_is_refused_unless_a_transaction_was_begun(
        self, database: Database, way: Way, ann: Party, level: str
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        with contextlib.closing(way.begin(ann, database.url, AUTOCOMMIT)) as automatic:
            with pytest.raises(ValueError, match=r"^connection: .*autocommit"):
                automatic.guard(lease)
            if not way.library.startswith("SQLAlchemy"):
                automatic.say("BEGIN")
                automatic.guard(lease)
                automatic.say("COMMIT")


@EACH_KIND
class TestOneLibrary:
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

    def test_a_connection_for_asyncio(
        self, kind: str, database: Database, ann: Party, level: str
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        for way in (each for each in WAYS[kind] if each.mode == "async"):
            with (
                contextlib.closing(Party("async", database.url)) as stranger,
                contextlib.closing(way.begin(stranger, database.url, level)) as theirs,
                pytest.raises(TypeError, match=type(theirs.connection).__module__),
            ):
                ann(lease.guard, theirs.connection)

    def test_a_lease_that_was_released(self, ann: Party, transaction: Transaction) -> None:
        lease = ann.takes(ttl=LONG)
        ann(lease.release)
        with pytest.raises(holdfast.NotHeld, match="released already"):
            transaction.guard(lease)
        with pytest.raises(holdfast.NotHeld, match="released already"):
            lease.guard_sql("qmark")

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
        lease = ann.takes(ttl=LONG, renew=False)
        scoped = scoped_session(sessionmaker(engine))
        lease.guard(scoped)
        scoped.remove()
        with Session(engine) as session, session.begin():
            lease.guard(session)
            assert_guarded(ben)
        assert ben.takes()
        engine.dispose()

    def test_what_a_connection_makes_of_rows(
        self, kind: str, database: Database, ann: Party
    ) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        connections: list[Any] = []
        if kind == "postgres":
            own = psycopg.connect(database.url, cursor_factory=psycopg.RawCursor)
            own.row_factory = psycopg.rows.dict_row
            dicts = psycopg2.extras.DictCursor
            connections += [own, psycopg2.connect(database.url, cursor_factory=dicts)]
        else:
            connections.append(WAYS[kind][0].begin(ann, database.url).connection)
            connections[0].cursorclass = pymysql.cursors.SSDictCursor
        for connection in connections:
            lease.guard(connection)
            connection.close()


@pytest.mark.parametrize(("kind", "way"), [("mariadb", Way("mysqlclient", "sync"))])
def test_mysqlclient_that_makes_dicts_of_rows(database: Database, way: Way, ann: Party) -> None:
    """It has no flag for a transaction that was begun: the server is asked, by a cursor."""
    lease = ann.takes(ttl=LONG, renew=False)
    with contextlib.closing(way.begin(ann, database.url, AUTOCOMMIT)) as automatic:
        automatic.connection.cursorclass = import_module("MySQLdb.cursors").DictCursor
        automatic.say("BEGIN")
        automatic.guard(lease)
        automatic.say("COMMIT")


@pytest.mark.parametrize(
    ("kind", "way"), [(kind, ways[-1]) for kind, ways in WAYS.items()], ids=list(WAYS)
)
def test_a_session_for_asyncio(database: Database, ann: Party, ben: Party) -> None:
    async def work() -> None:
        engine = create_async_engine(sqlalchemy_url(database.url, "async"))
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        await lease.guard(scoped)
        await scoped.remove()
        async with AsyncSession(engine) as session, session.begin():
            async with session.begin_nested():
                with pytest.raises(ValueError, match=SAVEPOINT):
                    await lease.guard(session)
            await lease.guard(session)
            await asyncio.to_thread(assert_guarded, ben)
        await engine.dispose()

    lease = ann.takes(ttl=LONG, renew=False)
    ann(work)
    assert ben.takes()


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (kind, Way(f"SQLAlchemy/{library}", "async"))
        for kind, libraries in (
            ("postgres", ("psycopg", "asyncpg")),
            ("mariadb", ("aiomysql", "asyncmy")),
        )
        for library in libraries
    ],
    ids=str,
)
def test_a_connection_within_run_sync(
    database: Database, way: Way, ann: Party, ben: Party, transaction: Transaction
) -> None:
    """It blocks there, and its library is one for asyncio."""
    lease = ben.takes(ttl=LONG, renew=False)
    with contextlib.closing(way.begin(ann, database.url, AUTOCOMMIT)) as automatic:
        for call in (lease.guard, lambda own: holdfast.fence.check(own, "job", 1)):
            with pytest.raises(ValueError, match=r"^connection: .*autocommit"):
                ann(automatic.connection.run_sync, call)
    ann(transaction.connection.run_sync, lease.guard)
    assert_guarded(ann)
    transaction.commit()
    assert ann.takes()


@ASYNC_POSTGRES
def test_a_connection_of_an_asyncpg_pool(database: Database, ann: Party, ben: Party) -> None:
    async def work() -> None:
        async with asyncpg.create_pool(database.url, min_size=1) as pool, pool.acquire() as own:
            with pytest.raises(ValueError, match="autocommit"):
                await lease.guard(own)
            async with own.transaction():
                await lease.guard(own)
                await asyncio.to_thread(assert_guarded, ben)

    lease = ann.takes(ttl=LONG, renew=False)
    ann(work)
    assert ben.takes()


class TestSavepoints:
    """What is locked inside a savepoint is unlocked when that is rolled back."""

    @EACH_KIND
    def test_sqlalchemy(self, database: Database, ann: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        engine = sqlalchemy.create_engine(sqlalchemy_url(database.url, "sync"))
        with engine.connect() as own, own.begin() as outermost:
            with own.begin_nested():
                for call in (lease.guard, lambda c: holdfast.fence.check(c, "job", 1)):
                    with pytest.raises(ValueError, match=SAVEPOINT):
                        call(own)
            lease.guard(own)
            # A test's transaction, which the Session joins by a savepoint of its own.
            with Session(own, join_transaction_mode="create_savepoint") as session:
                lease.guard(session)
                with session.begin_nested(), pytest.raises(ValueError, match=SAVEPOINT):
                    lease.guard(session)
            outermost.rollback()
        engine.dispose()

    @EACH_KIND
    def test_django(self, database: Database, ann: Party, ben: Party) -> None:
        from django.db import connections, transaction

        lease = ann.takes(ttl=LONG, renew=False)
        own = connections["shop"] = django_connection(database.url, alias="shop")
        with transaction.atomic("shop"):
            with transaction.atomic("shop"), pytest.raises(ValueError, match=SAVEPOINT):
                lease.guard(own)
            with transaction.atomic("shop", savepoint=False):
                lease.guard(own)
            assert_guarded(ben)
        assert ben.takes()
        own.close()

    @ONLY_POSTGRES
    def test_djangos_own_test_cases_count_as_no_transaction(
        self, database: Database, ann: Party
    ) -> None:
        import django.db
        from django.db import connections, transaction
        from django.test import TestCase

        lease = ann.takes(ttl=LONG, renew=False)
        connections["default"] = django_connection(database.url)

        class Case(TestCase):  # type: ignore[misc]  # Django has no types
            def test(self) -> None:
                with transaction.atomic():
                    lease.guard(django.db.connection)
                    with transaction.atomic(), pytest.raises(ValueError, match=SAVEPOINT):
                        lease.guard(django.db.connection)

        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
        assert (result.testsRun, result.errors, result.failures) == (1, [], [])
        connections["default"].close()

    @ONLY_POSTGRES
    def test_psycopg(self, database: Database, ann: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        with psycopg.connect(database.url, autocommit=True) as own, own.transaction():
            lease.guard(own)
            with own.transaction(), pytest.raises(ValueError, match=SAVEPOINT):
                lease.guard(own)


@ONLY_POSTGRES
def test_a_connection_of_django_that_is_none(ann: Party) -> None:
    lease = ann.takes(ttl=LONG, renew=False)
    from django.conf import settings
    from django.db import transaction

    for thing in (settings, transaction.atomic()):
        with pytest.raises(TypeError, match=r"^connection: .* got a django"):
            lease.guard(thing)


class TestPipelineMode:
    """psycopg's: results come with the next sync, as does the news that a transaction is open."""

    @ONLY_POSTGRES
    def test_for_threads(self, database: Database, ann: Party, ben: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        with psycopg.connect(database.url) as own:
            lease.guard(own)
            with own.pipeline():
                for call in (lease.guard, lambda c: holdfast.fence.check(c, "job", 1)):
                    with pytest.raises(ValueError, match=r"^connection: .*pipeline mode"):
                        call(own)
                assert_guarded(ben)
            own.commit()
            assert ben.takes(ttl=LONG)

    @ASYNC_POSTGRES
    def test_for_asyncio(self, database: Database, ann: Party) -> None:
        async def work() -> None:
            async with await psycopg.AsyncConnection.connect(database.url) as own, own.pipeline():
                with pytest.raises(ValueError, match=r"^connection: .*pipeline mode"):
                    await lease.guard(own)

        lease = ann.takes(ttl=LONG, renew=False)
        ann(work)


class TestTheStatementItself:
    """`lease.guard_sql(paramstyle)`, each style with a driver that takes it."""

    @ONLY_POSTGRES
    @pytest.mark.parametrize("style", ["pyformat", "format"])
    def test_psycopg(self, database: Database, ann: Party, ben: Party, style: Any) -> None:
        lease = ann.takes("ж", ttl=LONG, renew=False)
        sql, values = lease.guard_sql(style)
        with psycopg.connect(database.url) as own:
            assert own.execute(sql, values).fetchall() == [(1,)]
            assert ben(ben.client.break_lock, "ж")
            assert ben.tries("ж") is None
            own.rollback()
            assert own.execute(sql, values).fetchall() == []

    @ONLY_POSTGRES
    def test_numeric_dollar(self, database: Database, ann: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        sql, values = lease.guard_sql("numeric_dollar")
        with psycopg.connect(database.url, cursor_factory=psycopg.RawCursor) as own:
            assert own.execute(sql, values).fetchall() == [(1,)]

    @EACH_KIND
    def test_named(self, database: Database, ann: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        sql, values = lease.guard_sql("named")
        engine = sqlalchemy.create_engine(sqlalchemy_url(database.url, "sync"))
        with engine.begin() as own:
            assert own.execute(sqlalchemy.text(sql), values).all() == [(1,)]
        engine.dispose()

    @pytest.mark.parametrize(("kind", "way"), [("mariadb", WAYS["mariadb"][0])])
    def test_of_mariadb(self, ann: Party, transaction: Transaction) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        with transaction.connection.cursor() as cursor:
            cursor.execute(*lease.guard_sql("format"))
            assert cursor.fetchall() == ((1,),)

    @EACH_KIND
    def test_all_styles_say_the_same(self, ann: Party) -> None:
        lease = ann.takes(ttl=LONG, renew=False)
        _, values = lease.guard_sql("named")
        for style, mark in [("qmark", "?"), ("numeric", ":1"), ("numeric_dollar", "$1")]:
            other, in_order = lease.guard_sql(style)
            assert mark in other
            assert set(in_order) == set(values.values())
            assert other.count("?") in (0, len(in_order))
        with pytest.raises(ValueError, match=r"^paramstyle: .* got 'percent'"):
            lease.guard_sql("percent")
