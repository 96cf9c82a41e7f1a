"""What kazoo would do otherwise; and results to come, whose callbacks are called once each."""

import inspect
import re
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kazoo.protocol.serialization import CloseInstance, Create2

import holdfast
from holdfast.core.messages import Acquire, Failed, Granted
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines import open_engine
from holdfast.engines.zookeeper import connection
from holdfast.engines.zookeeper.connection import Connection, Security, Servers, _Threads
from holdfast.engines.zookeeper.promise import Promise
from holdfast.lab.servers.process import HOST
from tests.contract.interrupting import Interruption
from tests.equipment.servers.certificates import make_certificates
from tests.equipment.servers.zookeeper import ZooKeeperServer

FOLDER = Path(connection.__file__).parent


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


CLIENT = {
    "_call",
    "_connection",
    "_queue",
    "_session_callback",
    "_session_timeout",
    "_state",
    "_stopped",
}
THREADS = {"_running"}
HANDLER = {
    *("_connect", "_connect_attempt", "_expand_client_hosts", "_read_sock", "_socket"),
    "_write_sock",
}
OURS = {
    *(
        "_acl",
        "_context",
        "_ending",
        "_enqueue",
        "_opened",
        "_opening",
        "_promise",
        "_servers",
        "_shortest",
    ),
    *("_request_end", "_shortest_session", "_stop", "_wake"),
}


def test_an_interruption_is_not_replaced_by_the_error_of_a_closed_connection() -> None:
    client = Connection(Servers((f"{HOST}:1",)), 10.0, 0.0, lambda shortest: 10.0, lambda *_: None)
    with (
        pytest.raises(KeyboardInterrupt),
        Interruption(1, ("connection.py",), functions=("_enqueue",)),
    ):
        client._enqueue(CloseInstance, None)


def test_private_parts_of_kazoo() -> None:
    """Each that is used, so that a version of kazoo without it is noticed here."""
    client = Connection(Servers((f"{HOST}:1",)), 10.0, 0.0, lambda shortest: 10.0, lambda *_: None)
    assert {name for name in CLIENT if not hasattr(client, name)} == set()
    assert {name for name in HANDLER if not hasattr(client._connection, name)} == set()
    assert {name for name in THREADS if not hasattr(client.handler, name)} == set()
    used = set(re.findall(r"\.(_[a-z]\w+)", inspect.getsource(connection)))
    assert used - OURS == CLIENT | HANDLER | THREADS
    others = [path for path in FOLDER.glob("*.py") if "SLF001" in path.read_text()]
    assert [path.name for path in others] == ["connection.py"], "no other file reaches into kazoo"


@pytest.mark.parametrize("most", range(4))
def test_where_no_thread_can_be_started_there_is_no_session(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The fault: `RuntimeError` came out of the request. Nothing is left behind, and the next
    request begins anew."""
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_some(thread: threading.Thread) -> None:
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    host = StoreHost(clock, lambda holder: None, lambda event: None)
    store = open_engine(urlsplit(server.url), {}).connect(host)
    try:
        with monkeypatch.context() as refusing:
            refusing.setattr(threading.Thread, "start", start_some)
            [answer] = store.ask([Acquire("threads", "ann", 30)], clock() + 10)
        assert isinstance(answer, Failed)
        assert "can't start new thread" in str(answer)
        heartbeat = started[:1]
        assert [each for each in started if each.is_alive()] == heartbeat
        [answer] = store.ask([Acquire("threads", "ann", 30)], clock() + 10)
        assert isinstance(answer, Granted)
    finally:
        store.close()


def test_where_no_thread_can_be_started_a_session_ends_all_the_same(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    host = StoreHost(clock, lambda holder: None, lambda event: None)
    store = open_engine(urlsplit(server.url), {}).connect(host)
    [answer] = store.ask([Acquire("ended", "ann", 600)], clock() + 10)
    assert isinstance(answer, Granted)
    with monkeypatch.context() as refusing:
        refusing.setattr(threading.Thread, "start", refuse)
        store.close()
    other = open_engine(urlsplit(server.url), {}).connect(host)
    [answer] = other.ask([Acquire("ended", "ben", 600)], clock() + 10)
    other.close()
    assert isinstance(answer, Granted), "it was left to end by itself"


@pytest.fixture
def promise() -> Promise:
    return Promise(_Threads(Servers(())))


def test_a_result(promise: Promise) -> None:
    assert not promise.ready()
    assert not promise.wait(0.001)
    with pytest.raises(_Threads.timeout_exception):
        promise.get(timeout=0.001)
    promise.set(7)
    assert promise.wait()
    assert promise.successful()
    assert promise.get() == 7


def test_an_error(promise: Promise) -> None:
    promise.set_exception(LookupError("gone"))
    assert promise.ready()
    assert not promise.successful()
    with pytest.raises(LookupError, match="gone"):
        promise.get()


def test_who_asks_early_and_who_asks_late_are_told(promise: Promise) -> None:
    told: list[object] = []
    promise.rawlink(told.append)
    promise.set()
    promise.rawlink(told.append)
    assert told == [promise] * 2


def test_nobody_is_told_twice_or_not_at_all_however_it_meets() -> None:
    with ThreadPoolExecutor(2) as pool:
        for _ in range(500):
            promise = Promise(_Threads(Servers(())))
            told: list[object] = []
            keeping, linking = (
                pool.submit(promise.set),
                pool.submit(promise.rawlink, told.append),
            )
            assert promise.wait(30)
            keeping.result(30)
            linking.result(30)
            assert told == [promise]
