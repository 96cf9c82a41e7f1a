"""Cells on Redis: what only a server, and a connection that breaks, can show."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

import holdfast
from holdfast import EngineUnavailable
from holdfast.lab.servers.redis import RedisServer
from tests.contract.steps import cut_everywhere, cut_short
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Mode, Party

KEY = "{holdfast:stock}:cell"
GREETING = {"CLIENT", "PING", "HELLO", "AUTH", "SELECT"}
Pair = tuple[RedisServer, RedisServer]
WHOLE = ["WATCH", "HGET", "TIME", "MULTI", "HSET", "EXEC"]


class One:
    """A function that remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, value: Any) -> str:
        self.calls.append(value)
        return "1"


class Relay:
    """Stands before a server, and hangs up instead of handing on the reply to a certain word."""

    def __init__(self, server: RedisServer, word: bytes) -> None:
        self._server, self._word = server, word
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self._thread = threading.Thread(target=self._serve)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._thread, *self._threads):
            thread.join()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._talk, args=(near,))
            self._threads.append(thread)
            thread.start()

    def _talk(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self._server.port)) as far:
            while said := near.recv(65536):
                far.sendall(said)
                reply = far.recv(65536)
                if self._word in said:
                    return
                near.sendall(reply)


def test_a_lost_reply_is_not_taken_for_a_refusal(server: RedisServer, mode: Mode) -> None:
    """If it were, the update would be made once more, on top of itself."""
    with Relay(server, b"EXEC") as relay, closing(Party(mode, relay.url)) as ann:
        cell, one = ann.client.cell("stock"), One()
        with pytest.raises(
            EngineUnavailable, match="outcome unknown: the cell 'stock' was set, or"
        ):
            ann(cell.update, one)
        assert one.calls == [None]
        assert ann(cell.get).value == "1", "as it happens, it was"


def test_who_comes_between_watch_and_exec_wins(server: RedisServer) -> None:
    """The one moment that the version alone does not cover."""
    with holdfast.Client(server.url) as client:
        cell = client.cell("stock")
        cell.set("1", expect=0)
        version = cell.get().version
        between = Between(server, b"MULTI", "HSET", KEY, "value", "theirs")
        with between as relay, holdfast.Client(relay.url) as other:
            assert not other.cell("stock").set("ours", expect=version)
        assert cell.get().value == "theirs"


class Between(Relay):
    """Has the server do something when it hears the word, just before it is handed on."""

    def __init__(self, server: RedisServer, word: bytes, *command: str) -> None:
        super().__init__(server, word)
        self._command = command

    def _talk(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self._server.port)) as far:
            while said := near.recv(65536):
                if self._word in said:
                    self._server.command(*self._command)
                far.sendall(said)
                near.sendall(far.recv(65536))


def test_versions_go_on_after_a_deletion(server: RedisServer) -> None:
    with holdfast.Client(server.url) as client:
        cell = client.cell("stock")
        cell.set("1", expect=0)
        cell.update(lambda value: "2")
        before = cell.get()
        server.command("DEL", KEY)
        assert cell.get() == (None, 0)
        assert not cell.set("3", expect=before.version)
        assert cell.set("1", expect=0)
        assert cell.get().version > before.version


def test_where_it_is_kept(server: RedisServer) -> None:
    with holdfast.Client(server.url) as client:
        client.cell("stock").set("1", expect=0)
        version = client.cell("stock").get().version
    fields = server.command("HGETALL", KEY)
    assert fields == ["value", "1", "version", str(version), "text", "1"]
    assert server.command("KEYS", "*") == [KEY]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A master and its replica."""
    with RedisServer() as master, RedisServer() as replica:
        replica.follow(master)
        yield master, replica


@pytest.fixture
def master(pair: Pair) -> RedisServer:
    pair[0].command("FLUSHALL")
    return pair[0]


@pytest.mark.slow
class TestReplicas:
    def test_a_write_is_done_when_enough_have_acknowledged_it(
        self, master: RedisServer, pair: Pair, invite: Invite
    ) -> None:
        ann = invite(master.url, replicas=1)
        cell = ann.client.cell("stock")
        for number in range(3):
            ann.insists(cell.update, lambda value, number=number: str(number))
            assert pair[1].command("HGET", KEY, "value") == str(number)
        assert not ann(cell.set, "another", expect=7), "it is not waited for what was not written"

    def test_if_too_few_have_nobody_knows_and_it_is_not_done_twice(
        self, master: RedisServer, invite: Invite
    ) -> None:
        one = One()
        ann = invite(f"{master.url}?replicas=2")
        cell = ann.client.cell("stock")
        with pytest.raises(EngineUnavailable, match="outcome unknown") as told:
            ann(cell.update, one)
        [why] = told.value.nodes.values()
        assert why.endswith(" of 2 replicas acknowledged it")
        assert one.calls == [None]
        assert ann(cell.get).value == "1"


BROKEN = [
    {"version": "x"},
    {"version": "1", "text": "1"},
    {"version": "1", "text": "1", "value": b"\xff"},
]


@pytest.mark.parametrize("fields", BROKEN)
def test_what_is_no_cell_is_an_error_that_says_so(
    server: RedisServer, fields: dict[str, Any]
) -> None:
    with holdfast.Client(server.url) as client, redis.Redis.from_url(server.url) as plain:
        cell = client.cell("stock")
        plain.hset(KEY, mapping=fields)
        with pytest.raises(EngineUnavailable, match="is not a cell"):
            cell.get()
        if fields["version"] == "x":
            with pytest.raises(EngineUnavailable, match="is not a cell"):
                cell.set("1", expect=0)
        plain.set(KEY, "a plain string")
        for call in (cell.get, lambda: cell.set("1", expect=0)):
            with pytest.raises(EngineUnavailable, match="WRONGTYPE"):
                call()


def test_nothing_comes_between_a_watch_and_its_transaction(server: RedisServer) -> None:
    """Also if updates are cancelled in the middle, or several are made at the same time."""

    async def main() -> None:
        async with holdfast.AsyncClient(server.url) as client, client.lock("door"):
            cell = client.cell("stock")
            await cut_everywhere(lambda cut: cut_short(cell.update(lambda value: "1"), cut))
            await cell.update(lambda value: "2")
            assert (await cell.get()).value == "2"
            await asyncio.gather(*(cell.update(lambda value: f"{value}.") for _ in range(5)))
            assert (await cell.get()).value == "2....."

    with redis.Redis.from_url(server.url) as watcher, watcher.monitor() as monitor:
        asyncio.run(main())
        server.command("ECHO", "the end")
        users: dict[str, list[str]] = {}
        while (said := monitor.next_command())["command"] != "ECHO the end":
            who = f"{said['client_address']}:{said['client_port']}"
            users.setdefault(who, []).append(said["command"].split(" ")[0])
    [words] = [words for words in users.values() if "WATCH" in words]
    asked = " ".join(word for word in words if word not in GREETING)
    for exchange in asked.split("UNWATCH "):
        assert " ".join(WHOLE).startswith(exchange.strip()), "a transaction, perhaps cut short"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redlock://h1,h2,h3", "independent masters"),
        ("redis://h1?protocol=getset", "old clients"),
    ],
)
def test_where_there_are_no_cells(url: str, why: str) -> None:
    with holdfast.Client(url) as client, pytest.raises(ValueError, match=f"has no cells: .*{why}"):
        client.cell("stock")
    with pytest.raises(ValueError, match="has no cells"):
        holdfast.AsyncClient(url).cell("stock")
    for make in (holdfast.Client, holdfast.AsyncClient):
        assert make(url).election("boss").value == ""
        with pytest.raises(holdfast.Unsupported, match="has no cells"):
            make(url).election("boss", value="me")
        with pytest.raises(holdfast.Unsupported, match="has no cells"):
            make(url).latch("ready", 2)
