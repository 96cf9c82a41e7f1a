"""A client over a user's own pool: whose connections it uses, how many, and how it leaves them."""

import threading
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from sqlalchemy import event
from sqlalchemy.pool import NullPool, StaticPool

import holdfast
from holdfast.lab.servers.postgres import PostgresServer
from tests.engines.redis.party import Party
from tests.engines.sql.databases import Database
from tests.engines.sql.lenders import OF_EACH_WAY, OF_EACH_WAY_TO_POSTGRES, TO_POSTGRES, Lend
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.patience import wait_for

pytestmark = pytest.mark.slow

NAME = "j\u00f6b%'?"


def test_a_connection_of_the_pool_is_used_and_left_as_it_was(lend: Lend, rival: Party) -> None:
    rival.drops(rival.takes())  # now there are tables: to prepare what fails is counted, too
    user = lend(1)
    before, number = user.session(), user.session_id()
    ann = user.party
    lease = ann.takes(NAME)
    user.settles_at(1)
    assert rival.tries(NAME) is None
    ann(lease.extend)
    assert [info.name for info in ann(user.client.leases)] == [NAME]
    ann(lease.release)
    assert ann(user.client.cell("stock").set, b"\0\xff'%?", expect=0)
    assert ann(user.client.cell("stock").get).value == b"\0\xff'%?"
    assert rival.takes(NAME).held
    assert ann.tries(NAME) is None
    user.leave()
    assert user.is_psycopg or user.out() == 0, "now, and not by and by"
    user.settles_at(0)
    assert user.session_id() == number, "it has never been another one"
    assert user.session() == before


@OF_EACH_WAY_TO_POSTGRES
def test_a_second_one_listens_while_somebody_waits(lend: Lend, rival: Party) -> None:
    user = lend(2)
    before = user.session()
    ann, theirs = user.party, rival.takes()
    waiting = ann.begin(user.client.lock("job").acquire)
    wait_for(lambda: rival(rival.client.inspect, "job").waiters == 1)
    assert user.out() == 2
    rival(theirs.release)
    lease = waiting.result(10)
    wait_for(lambda: all(thread.name != "holdfast-ear" for thread in threading.enumerate()))
    user.settles_at(1)
    again = ann.begin(user.client.lock("job").acquire)
    wait_for(lambda: ann(user.client.inspect, "job").waiters == 1)
    ann(lease.release)
    ann(again.result(10).release)
    user.leave()
    user.settles_at(0)
    assert user.session() == user.session() == before


ODD = "-c default_transaction_isolation=serializable -c client_encoding=latin1"


@TO_POSTGRES
def test_a_session_with_settings_of_its_own(lend: Lend, lender: str, rival: Party) -> None:
    odd = {"options": f"{ODD} -c statement_timeout=7s -c bytea_output=escape"}
    user = lend(1, **({"connect_args": odd} if "SQLAlchemy" in lender else {"kwargs": odd}))
    before = user.session()
    assert before[:4] == ("serializable", "7s", "LATIN1", "escape")
    lease = user.party.takes(NAME)
    assert rival.tries(NAME) is None, "it is the same name"
    cell = user.client.cell("stock")
    assert user.party(cell.set, b"\0\xff", expect=0)
    assert user.party(cell.get).value == b"\0\xff"
    user.party(lease.release)
    user.leave()
    assert user.session() == before


@pytest.mark.parametrize("lender", ["SQLAlchemy pymysql"])
def test_a_time_limit_of_the_user_s_is_in_force_again(lend: Lend) -> None:
    user = lend(1, connect_args={"read_timeout": 7, "write_timeout": 7})
    user.session()
    user.party.takes()
    user.leave()
    with user.pool.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver._sock.gettimeout() == driver._read_timeout == 7


@OF_EACH_WAY
def test_two_clients_over_one_pool(lend: Lend, rival: Party) -> None:
    user = lend(2)
    other = user.another_client()
    ann = user.party
    lease = ann.takes()
    assert ann(other.lock("job").acquire, blocking=False) is None
    ann(lease.release)
    theirs = ann(other.lock("job").acquire, blocking=False)
    assert theirs.held
    assert user.out() == 2
    user.leave(other)
    user.settles_at(1)
    assert rival.tries(), "it was given back"


@pytest.mark.parametrize("lender", ["SQLAlchemy psycopg", "SQLAlchemy pymysql"])
def test_a_connection_in_the_midst_of_a_transaction(lend: Lend) -> None:
    user = lend(1)

    @event.listens_for(user.pool, "checkout")
    def look(connection: Any, record: Any, proxy: Any) -> None:
        connection.cursor().execute("SELECT count(*) FROM stock")

    [why] = user.party.refused().values()
    assert "in the midst of a transaction" in why
    user.settles_at(0)


@pytest.mark.parametrize("lender", ["SQLAlchemy pymysql"])
def test_connections_that_count_rows_otherwise(lend: Lend, home: Database) -> None:
    place = sqlalchemy.make_url(home.url)

    def connect() -> Any:
        return pymysql.connect(
            host=place.host, port=place.port, user=place.username, database=place.database
        )

    user = lend(1, creator=connect)
    [why] = user.party.refused().values()
    assert "FOUND_ROWS" in why
    user.settles_at(0)


def test_a_creator_of_the_user_s(postgres: PostgresServer) -> None:
    made = []

    def connect() -> Any:
        made.append(psycopg.connect(postgres.url))
        return made[-1]

    own = sqlalchemy.create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)
    with holdfast.Client(own) as client:
        assert not made
        with client.lock("job"):
            [connection] = made
        assert not connection.closed
    assert connection.closed, "so does a pool without memory"
    assert len(made) == 1


def test_a_pool_before_a_pooler(pgbouncer: PgBouncer) -> None:
    """Sessions are shared there, so nothing is set, prepared or listened on."""
    own: Any = sqlalchemy.create_engine(
        pgbouncer.url.replace("postgresql", "postgresql+psycopg"), pool_size=2, max_overflow=0
    )
    ann, ben = Party("sync", own), Party("sync", pgbouncer.url)
    theirs = ben.takes()
    waiting = ann.begin(ann.client.lock("job").acquire)
    wait_for(lambda: ann(ann.client.inspect, "job").waiters is None)
    ben(theirs.release)
    ann(waiting.result(20).release)
    ann.close()
    ben.close()
    assert own.pool.checkedout() == 0
    own.dispose()


def test_a_pool_that_gives_everybody_the_same(postgres: PostgresServer) -> None:
    own = sqlalchemy.create_engine(
        postgres.url.replace("postgresql", "postgresql+psycopg"), poolclass=StaticPool
    )
    with holdfast.Client(own) as client, own.connect() as connection:
        users = connection.connection.driver_connection
        assert users is not None
        with client.lock("job"):
            pids = postgres.query(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast'"
            )
            assert len(pids) == 1, "it has a connection of its own"
            assert (users.info.backend_pid,) not in pids
    own.dispose()
