"""A real MariaDB server: that it starts, freezes, dies, comes back, and leaves nothing behind."""

from collections.abc import Iterator

import pymysql
import pytest

from holdfast.lab.servers.process import HOST, ServerFailed
from tests.equipment.servers.mariadb import DATABASE, USER, MariaDbServer

pytestmark = pytest.mark.full


@pytest.fixture
def server() -> Iterator[MariaDbServer]:
    with MariaDbServer() as server:
        yield server


def query(server: MariaDbServer, sql: str, request_timeout: float = 5.0) -> object:
    """As the user."""
    connection = pymysql.connect(
        host=HOST, port=server.port, user=USER, database=DATABASE, read_timeout=request_timeout
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def test_its_user_may_do_anything_in_the_database_and_nothing_beside_it(
    server: MariaDbServer,
) -> None:
    assert server.url == f"mariadb://holdfast@127.0.0.1:{server.port}/holdfast"
    query(server, "CREATE TABLE own (n INT)")
    with pytest.raises(pymysql.OperationalError, match="denied"):
        query(server, "CREATE DATABASE more")
    assert server.query("SHOW TABLES") == [("own",)]


def test_what_was_committed_survives_a_restart_and_a_crash(server: MariaDbServer) -> None:
    server.query("CREATE TABLE kept (n INT)")
    port = server.port
    server.query("INSERT INTO kept VALUES (%s)", (1,))
    server.restart()
    server.query("INSERT INTO kept VALUES (%s)", (2,))
    server.kill()
    assert not server.alive
    server.start()
    assert server.query("SELECT n FROM kept ORDER BY n") == [(1,), (2,)]
    assert server.port == port


def test_a_frozen_one_does_not_answer_until_it_is_thawed(server: MariaDbServer) -> None:
    server.freeze()
    with pytest.raises(pymysql.OperationalError, match="timed out"):
        query(server, "SELECT 1", request_timeout=0.2)
    server.thaw()
    assert query(server, "SELECT 1") == ((1,),)


def test_nothing_is_left_behind() -> None:
    with MariaDbServer() as server:
        folder = server.folder
    assert not server.alive
    assert not folder.exists()


def test_a_setting_that_there_is_not() -> None:
    with pytest.raises(ServerFailed, match="unknown variable"):
        MariaDbServer(settings={"no-such-thing": "1"}).__enter__()


def test_its_temporary_tables_lie_in_its_own_folder(server: MariaDbServer) -> None:
    """Or another one that starts meanwhile would remove them."""
    assert query(server, "SELECT @@tmpdir") == ((str(server.folder),),)
