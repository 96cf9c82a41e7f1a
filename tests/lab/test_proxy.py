"""The faults of a network, one by one, in front of a real server."""

import socket
import struct
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import Connection, RedisServer, Reply
from tests.equipment.servers.proxy import Proxy
from tests.patience import wait_for

A_WHILE = 0.05
"""How long silence is listened to."""

FOREVER = 3600.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[Proxy]:
    server.command("FLUSHALL")
    with Proxy(server.port) as proxy:
        yield proxy


class RawClient(Connection):
    """A client that sends and receives in separate steps."""

    def __init__(self, proxy: Proxy, name: str = "speaker") -> None:
        super().__init__((HOST, proxy.port), 10.0)
        self.name = name
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        super().close()

    def introduce(self) -> None:
        assert self.command("CLIENT", "SETNAME", self.name) == "OK"

    def reset(self) -> None:
        """Let closing be a reset."""
        at_once = struct.pack("ii", 1, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)

    def send(self, *words: str) -> None:
        self._socket.sendall(" ".join(words).encode() + b"\r\n")

    def receive(self) -> str:
        return self._file.readline().decode().strip()

    def receives_nothing(self) -> bool:
        self._socket.settimeout(A_WHILE)
        try:
            self._socket.recv(1)
        except TimeoutError:
            return True
        else:
            return False
        finally:
            self._socket.settimeout(10.0)


@pytest.fixture
def client(proxy: Proxy) -> Iterator[RawClient]:
    with RawClient(proxy) as client:
        client.introduce()
        yield client


def ask(proxy: Proxy, *words: str) -> Reply:
    with RawClient(proxy) as client:
        return client.command(*words)


def arrived(proxy: Proxy, count: int) -> bool:
    return proxy.waiting("requests") == count


def knows(server: RedisServer, name: str) -> bool:
    return f"name={name} " in str(server.command("CLIENT", "LIST"))


def test_in_good_weather_everything_passes(client: RawClient, server: RedisServer) -> None:
    big = "x" * 3_000_000
    assert client.command("SET", "key", big) == "OK"
    assert server.command("STRLEN", "key") == len(big)
    assert client.command("GET", "key") == big


def test_jitter_keeps_the_order(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.delay(0.001, jitter=0.005)
    proxy.hold("requests")
    for number in range(10):  # one by one, lest they become one piece
        client.send("RPUSH", "key", str(number))
        wait_for(partial(arrived, proxy, len("RPUSH key 0\r\n") * (number + 1)))
    proxy.release()
    assert [client.receive() for _ in range(10)][-1] == ":10"
    assert server.command("LRANGE", "key", "0", "-1") == [*map(str, range(10))]


def test_latency_is_felt_in_both_directions(proxy: Proxy, client: RawClient) -> None:
    proxy.delay(FOREVER)
    client.send("INCR", "key")
    wait_for(lambda: proxy.waiting("requests") > 0)
    assert client.receives_nothing()
    proxy.heal()
    assert client.receive() == ":1"


def test_a_late_reply(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.hold("replies")
    client.send("INCR", "key")
    wait_for(lambda: proxy.waiting("replies") > 0)
    assert server.command("GET", "key") == "1"
    assert client.receives_nothing()
    proxy.release()
    assert client.receive() == ":1"
    assert client.command("INCR", "key") == 2


def test_a_late_request(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.hold("requests")
    client.send("INCR", "key")
    wait_for(lambda: proxy.waiting("requests") > 0)
    assert client.receives_nothing()
    assert server.command("GET", "key") is None
    proxy.heal()
    assert client.receive() == ":1"


def test_a_late_request_arrives_though_its_sender_is_dead(
    proxy: Proxy, server: RedisServer
) -> None:
    proxy.hold("requests")
    with RawClient(proxy) as client:
        client.send("INCR", "key")
    wait_for(lambda: proxy.waiting("requests") > 0)
    proxy.release()
    wait_for(lambda: server.command("GET", "key") == "1")
    wait_for(lambda: proxy.connections == 0)


def test_a_stranded_request_arrives_behind_what_was_said_after_it(
    proxy: Proxy, client: RawClient, server: RedisServer
) -> None:
    proxy.hold("requests")
    client.send("SET", "key", "early")
    wait_for(lambda: proxy.waiting("requests") > 0)
    proxy.strand()
    with pytest.raises(ConnectionResetError):
        client.receive()
    with RawClient(proxy) as another:
        assert another.command("SET", "key", "late") == "OK"
        assert server.command("GET", "key") == "late"
        proxy.release()
        wait_for(lambda: server.command("GET", "key") == "early")
        assert another.command("PING") == "PONG"


def test_a_lost_reply(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.lose_replies()
    with pytest.raises(ConnectionResetError):
        client.command("INCR", "key")
    assert server.command("GET", "key") == "1"
    proxy.heal()
    assert ask(proxy, "GET", "key") == "1"


def test_a_partition_one_way_requests(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    with RawClient(proxy) as subscriber:
        subscriber.command("SUBSCRIBE", "news")
        proxy.cut("requests")
        client.send("INCR", "key")
        server.command("PUBLISH", "news", "hello")
        assert [subscriber.receive() for _ in range(7)][-1] == "hello"
        assert client.receives_nothing()
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            client.receive()
        assert server.command("GET", "key") is None
        server.command("PUBLISH", "news", "again")  # of that connection nothing was lost
        assert [subscriber.receive() for _ in range(7)][-1] == "again"


def test_a_partition_one_way_replies(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.cut("replies")
    client.send("INCR", "key")
    wait_for(lambda: server.command("GET", "key") == "1")
    with RawClient(proxy) as other:  # a handshake needs both directions
        other.send("INCR", "key")
        assert other.receives_nothing()
    assert server.command("GET", "key") == "1"
    assert client.receives_nothing()
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.receive()


def test_a_full_partition(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.cut()
    client.send("INCR", "key")
    with RawClient(proxy) as other:
        other.send("INCR", "key")
        assert client.receives_nothing()
        assert other.receives_nothing()
        assert server.command("GET", "key") is None
        proxy.heal()
        for lost in (client, other):
            with pytest.raises(ConnectionResetError):
                lost.receive()
    assert ask(proxy, "INCR", "key") == 1


def test_behind_a_partition_the_server_does_not_learn_of_a_death(
    proxy: Proxy, client: RawClient, server: RedisServer
) -> None:
    with RawClient(proxy, "mortal") as mortal:
        mortal.introduce()
        proxy.cut()
    client.send("PING")
    assert client.receives_nothing()
    assert knows(server, "mortal")
    proxy.heal()
    wait_for(lambda: not knows(server, "mortal"))


def test_a_half_open_connection(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.half_open()
    wait_for(lambda: not knows(server, client.name))
    client.send("INCR", "key")
    assert client.receives_nothing()
    assert ask(proxy, "INCR", "key") == 1
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.receive()


def test_a_reset(proxy: Proxy, client: RawClient, server: RedisServer) -> None:
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.receive()
    wait_for(lambda: not knows(server, client.name))
    assert ask(proxy, "PING") == "PONG"


def test_a_client_that_closes_is_gone_on_the_other_side(proxy: Proxy, server: RedisServer) -> None:
    with RawClient(proxy) as client:
        client.introduce()
        assert knows(server, client.name)
    wait_for(lambda: not knows(server, client.name))
    wait_for(lambda: proxy.connections == 0)


def test_a_client_that_is_reset_is_gone_on_the_other_side(
    proxy: Proxy, server: RedisServer
) -> None:
    with RawClient(proxy) as client:
        client.introduce()
        client.reset()
    wait_for(lambda: not knows(server, client.name))
    wait_for(lambda: proxy.connections == 0)


def test_the_death_of_the_server_is_not_hidden(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, Proxy(server.port) as proxy, RawClient(proxy) as client:
        client.introduce()
        server.kill()
        with pytest.raises(ConnectionError):
            client.command("PING")
        with pytest.raises(ConnectionError):
            ask(proxy, "PING")
        server.start()
        assert ask(proxy, "PING") == "PONG"


def test_closing_resets_and_leaves_no_thread(server: RedisServer) -> None:
    before = threading.active_count()
    with Proxy(server.port) as proxy:
        client = RawClient(proxy)
        client.introduce()
    with client, pytest.raises(ConnectionResetError):
        client.receive()
    assert threading.active_count() == before
    wait_for(lambda: not knows(server, "speaker"))
    with pytest.raises(ConnectionRefusedError):
        RawClient(proxy)


def test_a_lock_whose_grant_was_not_heard_is_given_back(proxy: Proxy, server: RedisServer) -> None:
    with holdfast.Client(f"redis://{proxy.address}", ttl=0.3) as client:
        assert not client.lock("job").locked()
        proxy.hold("replies")
        with pytest.raises(holdfast.EngineUnavailable):
            client.lock("job", ttl=10).acquire(timeout=0.2)
        proxy.release()
        wait_for(lambda: server.command("EXISTS", "holdfast:job") == 0)
