"""Real servers: that they start, answer, freeze, die, come back, and never stay behind."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from holdfast.lab.servers.process import HOST, Refused, ServerFailed
from tests.equipment.servers.certificates import make_certificates
from tests.equipment.servers.masters import RedisMasters
from tests.equipment.servers.redis import RedisServer
from tests.equipment.servers.secured import SecuredRedis
from tests.patience import wait_for


@pytest.fixture
def server(program: str, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, program=program) as server:
        yield server


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def was_reaped(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def whoami(url: str) -> object:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return client.acl_whoami()


def test_it_answers_on_its_url(server: RedisServer, program: str) -> None:
    assert server.command("SET", "key", "värde\r\n") == "OK"
    assert server.command("MGET", "key", "none") == ["värde\r\n", None]
    assert server.command("DEL", "key") == 1
    assert whoami(server.url) == "default"
    assert ("valkey_version" in server.info("server")) == ("valkey" in program)


def test_an_error_is_raised(server: RedisServer) -> None:
    with pytest.raises(Refused, match=r"^ERR unknown command"):
        server.command("NO-SUCH-COMMAND")


def test_it_keeps_nothing_on_disk(server: RedisServer) -> None:
    server.command("SET", "key", "1")
    server.stop()
    assert sorted(path.name for path in server.folder.iterdir()) == ["redis.conf", "server.log"]


def test_frozen_it_keeps_its_connections_and_does_not_answer(server: RedisServer) -> None:
    server.command("SET", "key", "1")
    server.freeze()
    assert server.alive
    assert listens(server.port)
    with pytest.raises(TimeoutError):
        server.command("GET", "key", timeout=0.05)
    server.thaw()
    assert server.command("GET", "key") == "1"
    server.freeze()
    with pytest.raises(TimeoutError):
        server.command("GET", "key", timeout=0.05)


def test_killed_it_is_gone_and_no_zombie(server: RedisServer) -> None:
    server.kill()
    assert not server.alive
    assert was_reaped(server.pid)
    assert not listens(server.port)
    with pytest.raises(ConnectionRefusedError):
        server.command("PING")
    server.kill()
    server.stop()


@pytest.mark.parametrize("end", ["stop", "kill", "close"])
def test_frozen_it_can_be_ended(server: RedisServer, end: str) -> None:
    server.freeze()
    getattr(server, end)()
    assert not server.alive
    assert was_reaped(server.pid)


def test_frozen_it_is_still_stopped_in_order(server: RedisServer) -> None:
    server.freeze()
    server.stop()
    assert server._started().returncode == 0


def test_frozen_it_keeps_its_data_over_a_restart(server: RedisServer) -> None:
    server.command("SET", "key", "1")
    server.freeze()
    server.restart(keep_data=True)
    assert server.command("GET", "key") == "1"


def test_restarted_with_its_data(server: RedisServer) -> None:
    server.command("SET", "key", "1")
    port, pid = server.port, server.pid
    server.restart(keep_data=True)
    assert server.port == port
    assert server.pid != pid
    assert server.command("GET", "key") == "1"


def test_restarted_empty(server: RedisServer) -> None:
    server.command("SET", "key", "1")
    server.restart(keep_data=True)
    server.restart(keep_data=False)
    assert server.command("GET", "key") is None


def test_without_persistence_a_crash_forgets(server: RedisServer) -> None:
    server.command("SET", "key", "1")
    server.restart(keep_data=True)
    server.kill()
    server.start()
    assert server.command("GET", "key") is None


def test_with_persistence_a_crash_keeps_what_was_written(program: str, tmp_path: Path) -> None:
    with RedisServer(tmp_path, program=program, append_only="always") as server:
        server.command("SET", "key", "1")
        server.kill()
        server.start()
        assert server.command("GET", "key") == "1"
        server.restart(keep_data=True)
        assert server.command("GET", "key") == "1"
        server.restart(keep_data=False)
        assert server.command("GET", "key") is None


def test_password(program: str, tmp_path: Path) -> None:
    secret = 'sec ret"\\@/:'
    with SecuredRedis(tmp_path, program=program, password=secret) as server:
        assert server.command("PING") == "PONG"
        assert whoami(server.url) == "default"
        with pytest.raises(redis.AuthenticationError):
            whoami(f"redis://{server.address}/0")
        assert stat.S_IMODE((tmp_path / "redis.conf").stat().st_mode) == 0o600


def test_users(program: str, tmp_path: Path) -> None:
    rules = ("on", ">secret", "~ann:*", "+@all")
    with SecuredRedis(tmp_path, program=program, users={"ann": rules}) as server:
        assert whoami(server.url_for("ann", "secret")) == "ann"
        with redis.Redis.from_url(server.url_for("ann", "secret")) as ann:
            assert ann.set("ann:key", "1")
            with pytest.raises(redis.exceptions.NoPermissionError):
                ann.set("key", "1")


def test_unix_socket(program: str, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    with SecuredRedis(folder, program=program, unix_socket=True, password="secret") as server:
        assert whoami(server.unix_url) == "default"
        assert server.socket is not None
    assert not server.socket.parent.exists()


def test_tls(tmp_path: Path) -> None:
    with SecuredRedis(tmp_path, tls=make_certificates(tmp_path / "tls")) as server:
        assert server.command("PING") == "PONG"
        assert whoami(server.url) == "default"
        for url in (f"redis://{server.address}/0", f"rediss://{server.address}/0"):
            with pytest.raises(redis.ConnectionError):
                whoami(url)


def test_options_are_words_of_the_command_line(program: str, tmp_path: Path) -> None:
    with RedisServer(tmp_path, program=program, options=("--maxmemory", "10mb")) as server:
        assert server.command("CONFIG", "GET", "maxmemory") == ["maxmemory", "10485760"]


def test_the_masters_are_independent(program: str, tmp_path: Path) -> None:
    with RedisMasters(tmp_path, 3, program=program) as masters:
        a, b, c = masters.servers
        assert masters.url == f"redlock://{HOST}:{a.port},{HOST}:{b.port},{HOST}:{c.port}"
        a.command("SET", "key", "1")
        assert [server.command("DBSIZE") for server in masters.servers] == [1, 0, 0]
    assert not any(server.alive for server in masters.servers)


def test_why_it_does_not_start_is_told(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, options=("--no-such-option", "1"))
    with pytest.raises(ServerFailed, match="no-such-option"):
        server.start()
    assert not server.alive


def test_a_group_of_which_one_fails_leaves_nothing_running(tmp_path: Path) -> None:
    masters = RedisMasters(tmp_path, 3)
    masters.servers[2].options = ("--no-such-option", "1")
    with pytest.raises(ServerFailed, match="no-such-option"):
        masters.start()
    assert not any(server.alive for server in masters.servers)


def test_a_port_that_was_taken_meanwhile_is_given_up(server: RedisServer) -> None:
    class Late(RedisServer):
        choices = 0

        def choose_ports(self) -> None:
            super().choose_ports()
            self.choices += 1
            if self.choices == 1:
                self.port = server.port

    with Late() as late:
        assert late.port != server.port
        assert late.choices == 2


def test_a_port_that_was_taken_before_the_restart_is_waited_for(server: RedisServer) -> None:
    server.kill()
    with socket.create_server((HOST, server.port), reuse_port=False):
        server.request_timeout = 0.2
        with pytest.raises(ServerFailed, match="Address already in use"):
            server.start()
    server.request_timeout = RedisServer.request_timeout
    assert server.start().command("PING") == "PONG"


def test_its_temporary_folder_goes_with_it() -> None:
    with RedisServer() as server:
        assert server.folder.is_dir()
    assert not server.folder.exists()
    assert not server.alive


def test_its_temporary_folder_goes_even_if_it_did_not_start() -> None:
    server = RedisServer(options=("--no-such-option", "1"))
    with pytest.raises(ServerFailed), server:
        pytest.fail("it cannot start")
    assert not server.folder.exists()


def test_its_temporary_folder_goes_even_if_it_is_not_closed() -> None:
    code = (
        "from holdfast.lab.servers.redis import RedisServer\n"
        "server = RedisServer().start()\n"
        "print(server.folder, server.port)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    folder, port = out.stdout.split()
    assert not Path(folder).exists()
    wait_for(lambda: not listens(int(port)))


def test_it_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    thread = threading.Thread(target=server.start)
    thread.start()
    task = Path(f"/proc/self/task/{thread.native_id}")
    thread.join()
    wait_for(lambda: not task.exists())
    assert server.command("PING") == "PONG"
    server.close()


PARENT = """
import sys
from pathlib import Path
from tests.equipment.servers.redis import RedisServer
server = RedisServer(Path(sys.argv[1])).start()
if sys.argv[2] == "frozen":
    server.freeze()
print(server.port, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["running", "frozen"])
def test_it_does_not_outlive_a_killed_parent(state: str, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path, state],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        assert listens(port)
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not listens(port))


@pytest.mark.slow
def test_a_save_waits_for_the_save_of_another_client() -> None:
    with RedisServer(options=("--rdb-key-save-delay", "10000")) as server:
        for number in range(20):
            server.command("SET", f"key {number}", "value")
        server.command("BGSAVE")
        with pytest.raises(Refused, match="already in progress"):
            server.command("SAVE")
        server.save()
