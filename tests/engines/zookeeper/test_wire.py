"""What kazoo would do otherwise."""

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kazoo.protocol.serialization import Create2

import holdfast
from holdfast.engines.zookeeper.books import Move, Stake
from holdfast.engines.zookeeper.conversation import Round
from holdfast.engines.zookeeper.keeping import _settle
from holdfast.engines.zookeeper.security import Security
from holdfast.engines.zookeeper.session import Session
from holdfast.engines.zookeeper.taking import find
from holdfast.engines.zookeeper.wire import Servers, _Threads
from holdfast.lab.servers.certificates import make_certificates
from holdfast.lab.servers.ports import HOST
from tests.equipment.servers.zookeeper import ZooKeeperServer


def test_what_is_decrypted_already_is_there_to_be_read(tmp_path: Path) -> None:
    """Two replies may come in one record: then the socket is empty when the first is read."""
    made = make_certificates(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.certificate, made.key)
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool, ours, theirs:
        accepting = pool.submit(server.wrap_socket, theirs, server_side=True)
        line = Security(ca_cert=str(made.authority)).secure(ours, HOST)
        with line, accepting.result(30) as other:
            other.sendall(b"12")
            assert line.recv(1) == b"1"
            assert _Threads(Servers(())).select([line], [], [], 0.1) == ([line], [], [])


def test_one_server_does_not_use_up_the_time_of_all() -> None:
    threads = _Threads(Servers(("one", "two", "three", "four")))
    with (
        socket.create_server((HOST, 0)) as server,
        threads.create_connection(server.getsockname(), timeout=40.0) as line,
    ):
        assert line.gettimeout() == 10.0


def test_what_kazoo_does_not_understand_is_not_the_end(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not know a request answers it before those that were sent earlier."""
    with holdfast.Client(server.url) as client:
        with client.lock("odd", ttl=20):
            pass
        with monkeypatch.context() as unknown:
            unknown.setattr(Create2, "type", 99)
            with ThreadPoolExecutor(8) as pool:
                odd = [
                    pool.submit(client.lock(f"odd {i}", ttl=20).acquire, False) for i in range(8)
                ]
                assert all(each.exception(60) for each in odd)
        with client.lock("odd", ttl=20, timeout=60):
            pass


@pytest.fixture
def stake() -> Stake:
    session = object.__new__(Session)
    return Stake("key", "host/1/program/5ec2e7", session, lambda event: None, asked=True)


def test_whoever_looks_for_a_lost_reply_hears_the_leader_first(stake: Stake) -> None:
    """Another server may be behind; what is not there yet would be taken for never made."""
    stake.move = Move(stake.session, 7, "/a place", b"")
    for talk in (find(stake, "/queue"), _settle(stake)):
        step = next(talk)
        assert isinstance(step, Round)
        assert [call.by_leader for call in step.calls] == [True, False]
