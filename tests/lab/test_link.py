"""The network that scenarios cut: nothing arrives, and no error tells so."""

import threading
from collections.abc import Iterator

import pytest

from holdfast.lab.servers.link import Link
from holdfast.lab.servers.process import HOST
from holdfast.lab.servers.redis import Connection, RedisServer
from tests.patience import wait_for


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def link(server: RedisServer) -> Iterator[Link]:
    with Link(server.port) as link:
        yield link


def client(link: Link, timeout: float = 10.0) -> Connection:
    return Connection((HOST, link.port), timeout)


def test_it_forwards_in_both_directions(link: Link) -> None:
    with client(link) as ann, client(link) as ben:
        assert ann.command("SET", "k", "x" * 300_000) == "OK"
        assert ben.command("GET", "k") == "x" * 300_000


def test_what_is_cut_off_gets_no_answer_and_no_error(link: Link, server: RedisServer) -> None:
    server.command("DEL", "k")
    with client(link, 0.1) as before:
        assert before.command("PING") == "PONG"
        link.cut()
        with pytest.raises(TimeoutError):
            before.command("SET", "k", "1")
        with client(link, 0.1) as after, pytest.raises(TimeoutError):
            after.command("SET", "k", "1")
    assert server.command("EXISTS", "k") == 0


def test_healing_closes_what_was_open_and_lets_new_clients_in(link: Link) -> None:
    with client(link) as before:
        assert before.command("PING") == "PONG"
        link.cut()
        link.heal()
        with pytest.raises(OSError, match=r"closed|reset|pipe"):
            before.command("PING")
    with client(link) as after:
        assert after.command("PING") == "PONG"


def test_a_server_that_is_down_ends_the_connection() -> None:
    with RedisServer() as server, Link(server.port) as link:
        with client(link) as before:
            assert before.command("PING") == "PONG"
            server.kill()
            with pytest.raises(OSError, match=r"closed|reset|pipe"):
                before.command("PING")
        with client(link) as after, pytest.raises(OSError, match=r"closed|reset|pipe"):
            after.command("PING")


def test_nothing_of_it_is_left(server: RedisServer) -> None:
    threads = threading.active_count()
    with Link(server.port) as link, client(link) as idle:
        assert idle.command("PING") == "PONG"
        assert threading.active_count() > threads
    wait_for(lambda: threading.active_count() == threads)
    with pytest.raises(ConnectionRefusedError):
        client(link)
