"""PostgreSQL and PgBouncer on loopback: started, frozen, killed, restarted, and gone afterwards."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.lab.servers.process import ServerFailed
from tests.equipment.servers.pgbouncer import PgBouncer
from tests.equipment.servers.postgres import PostgresServer
from tests.patience import wait_for

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def _server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def server(_server: PostgresServer) -> PostgresServer:
    _server.start()
    _server.query("DROP TABLE IF EXISTS words")
    _server.query("CREATE TABLE words (word text)")
    return _server


def runs(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_answers_and_is_nobodys_root(server: PostgresServer) -> None:
    assert server.query("SELECT %s::text", ("hello",)) == [("hello",)]
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    assert server.url == f"postgresql://holdfast@{server.address}/postgres"


@pytest.mark.parametrize("how", ["kill", "restart"])
def test_what_was_committed_survives(server: PostgresServer, how: str) -> None:
    server.query("INSERT INTO words VALUES ('kept')")
    before, port = server.pid, server.port
    if how == "kill":
        server.kill()
        assert not server.alive
        server.start()
    else:
        server.restart()
    assert server.query("TABLE words") == [("kept",)]
    assert server.pid != before
    assert server.port == port


def test_a_killed_one_leaves_none_of_its_processes(server: PostgresServer) -> None:
    with server.connection() as connection:
        pids = [connection.info.backend_pid, *server._children()]
        server.kill()
    assert not any(runs(pid) for pid in pids)


def test_a_frozen_one_keeps_its_connections_and_answers_nothing(server: PostgresServer) -> None:
    with server.connection() as connection:
        server.freeze()
        connection.pgconn.send_query(b"INSERT INTO words VALUES ('late')")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.url, connect_timeout=2)
        assert connection.pgconn.is_busy()
        server.thaw()
        wait_for(lambda: server.query("TABLE words") == [("late",)])


def test_a_frozen_one_can_be_stopped(server: PostgresServer) -> None:
    server.freeze()
    server.stop()
    assert not server.alive


def test_why_it_does_not_start_is_told() -> None:
    server = PostgresServer(settings={"no_such_setting": "1"})
    with pytest.raises(ServerFailed, match="no_such_setting"), server:
        pytest.fail("it cannot start")
    assert not server.folder.exists()


def test_a_standby_follows_until_it_is_promoted(server: PostgresServer) -> None:
    server.query("INSERT INTO words VALUES ('before')")
    with PostgresServer(standby=server) as standby:
        server.query("INSERT INTO words VALUES ('after')")
        wait_for(lambda: len(standby.query("TABLE words")) == 2)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.query("DELETE FROM words")
        standby.promote()
        standby.query("DELETE FROM words")
        assert len(server.query("TABLE words")) == 2


def test_its_folder_goes_with_it() -> None:
    with PostgresServer() as server:
        assert server.folder.is_dir()
    assert not server.folder.exists()


UNPRIVILEGED = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")

PARENT = """
import sys
from tests.equipment.servers.postgres import PostgresServer
server = PostgresServer().start()
print(server.pid, *server._children(), flush=True)
print(server.folder, flush=True)
sys.stdin.read()
"""


def test_it_does_not_outlive_a_killed_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        folder = Path(parent.stdout.readline().strip())
        assert runs(pids[0])
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(runs(pid) for pid in pids))
    subprocess.run(["rm", "-rf", "--", folder], check=True)


def test_a_pooler_gives_a_session_to_whoever_speaks(server: PostgresServer) -> None:
    with PgBouncer(server, size=1) as pooler:
        with (
            psycopg.connect(pooler.url, autocommit=True, prepare_threshold=None) as one,
            psycopg.connect(pooler.url, autocommit=True, prepare_threshold=None) as two,
        ):
            asked = [each.execute("SELECT pg_backend_pid()").fetchone() for each in (one, two)]
            assert asked[0] == asked[1]
            assert one.info.backend_pid != two.info.backend_pid
        assert Path(f"/proc/{pooler.pid}").stat().st_uid != 0
    assert not pooler.alive


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_without_root_it_runs_as_oneself(tmp_path: Path) -> None:
    code = (
        "from tests.equipment.servers.postgres import PostgresServer\n"
        "with PostgresServer() as server: print(server.query('SELECT 1'))\n"
    )
    out = subprocess.run(
        [*UNPRIVILEGED, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd="/tmp",
        env={**os.environ, "HOME": "/tmp", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if "Permission denied" in out.stderr and not out.stdout:
        pytest.skip("this Python is root's own")
    assert out.stdout == "[(1,)]\n", out.stderr
