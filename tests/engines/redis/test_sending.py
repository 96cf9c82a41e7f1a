"""What goes over the wire of a quorum, seen by nodes that are not real."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import hiredis
import pytest

from holdfast.core.fanout import AcquireRound, FanOut
from holdfast.core.guard import RestartGuard
from holdfast.core.messages import Acquire, Failed, Granted, Release
from holdfast.core.ports import StoreHost
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.nodes import Node
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Phrase, conclude
from holdfast.engines.redis.speech import Speech
from tests.engines.redis.conftest import Invite


class Nodes:
    """Nodes that answer a script only when all of them have been asked."""

    def __init__(self, count: int) -> None:
        self._all_asked = threading.Barrier(count)
        self._closed = False
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._listen, args=(listener,)) for listener in self._listeners
        ]
        for thread in self._threads:
            thread.start()
        ports = [listener.getsockname()[1] for listener in self._listeners]
        self.url = "redlock://" + ",".join(f"127.0.0.1:{port}" for port in ports)

    def close(self) -> None:
        self._closed = True
        self._all_asked.abort()
        for listener in self._listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for thread in self._threads:
            thread.join()

    def _listen(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not self._closed:
                connection, _ = listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        reader = hiredis.Reader()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                reader.feed(data)
                while (command := reader.gets()) is not False:
                    connection.sendall(self._reply(command))

    def _reply(self, command: Any) -> bytes:
        if command[0] != b"EVALSHA":
            return b"$-1\r\n" if command[0] == b"GET" else b"+OK\r\n"
        try:
            self._all_asked.wait(3)
        except threading.BrokenBarrierError:
            return b"-ERR the others were not asked\r\n"
        return b":1\r\n"


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    nodes = Nodes(3)
    yield nodes
    nodes.close()


def test_all_nodes_are_asked_before_any_is_listened_to(
    nodes: Nodes, invite: Invite, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the nodes wait for each other: whoever listens in between is refused.
    monkeypatch.setattr("holdfast.engines.redis.MOST_NODE_TIMEOUT", 10.0)
    party = invite(f"{nodes.url}?restart_guard=off", ttl=3600)
    for number in range(3):
        lease = party.takes(f"job{number}", timeout=0)
        assert lease.fence == 1
        party(lease.release)


def nobody_connects(timeout: float) -> Any:
    raise AssertionError("nobody connects")


def test_an_acquire_that_came_to_nothing_is_not_asked_after_its_release() -> None:
    """The script was not there, and its release has gone out, so it is not asked again."""

    around = StoreHost(lambda: 0.0, lambda holder: None, lambda event: None)
    node = Node(0, Address("n0", nobody_connects, nobody_connects), RestartGuard(1.0), around)
    speech = Speech(quorum=True, keep=1.0, channel="channel")
    vote = AcquireRound(Acquire("job", "me", 1.0), (0, 1, 2), 1.0, 2, [node.guard] * 3, 0.0)
    owed = Owed(speech.phrase(vote.requests), vote)
    vote.take(1, [Granted(1)])
    vote.take(2, [Granted(1)])
    release = FanOut((Release("job", "me"),), (0,), 1.0)
    behind = [Owed(speech.phrase(release.requests), release)]
    assert not owed.hear(node, [hiredis.ReplyError("NOSCRIPT No matching script")], behind)
    assert isinstance(vote.said(0), Failed)


def test_an_acquire_whose_script_was_not_there_is_asked_again() -> None:
    """Also when enough others have granted it already: its release will come behind it."""
    around = StoreHost(lambda: 0.0, lambda holder: None, lambda event: None)
    node = Node(0, Address("n0", nobody_connects, nobody_connects), RestartGuard(1.0), around)
    speech = Speech(quorum=True, keep=1.0, channel="channel")
    vote = AcquireRound(Acquire("job", "me", 1.0), (0, 1, 2), 1.0, 2, [node.guard] * 3, 0.0)
    owed = Owed(speech.phrase(vote.requests), vote)
    assert owed.hear(node, [hiredis.ReplyError("NOSCRIPT No matching script")], [])
    assert owed.phrase.commands[-1] == speech.phrase(vote.requests).commands[0]


def test_what_replicas_have_acknowledged_is_asked_again_behind_what_is_said_again() -> None:
    """Else the acknowledgement of a script that was not there would count for the lock."""
    speech = Speech(quorum=False, keep=1.0, channel="channel", replicas=1)
    phrase = speech.phrase([Acquire("job", "me", 1.0)])
    taking, waiting = phrase.commands
    more = conclude(phrase, [hiredis.ReplyError("NOSCRIPT No matching script"), 1])
    assert isinstance(more, Phrase)
    assert more.commands[-2:] == (taking, waiting)
    loaded = [b"sha"] * (len(more.commands) - 2)
    assert isinstance(next(iter(conclude(more, [*loaded, 7, 0]))), Failed)
    assert list(conclude(more, [*loaded, 7, 1])) == [Granted(7)]
