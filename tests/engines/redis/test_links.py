"""How threads get connections, and what is read on them."""

import fcntl
import select
import ssl
import struct
import termios
from collections.abc import Iterator
from typing import Any

import hiredis
import pytest

from holdfast import Client
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Inspect, Listing
from holdfast.engines.redis.circuit import Circuit
from holdfast.engines.redis.dial import Dials
from holdfast.engines.redis.link import Link, say_to
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import command
from holdfast.engines.redis.sockets import take_in
from holdfast.lab.servers.certificates import make_certificates
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.party import HANGS_AFTER
from tests.equipment.servers.masters import RedisMasters
from tests.patience import wait_for

pytestmark = pytest.mark.slow


class TestRecords:
    """TLS gives what was sent together, and no more than that, in one go."""

    @pytest.fixture
    def server(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
        with RedisServer(tls=make_certificates(tmp_path_factory.mktemp("trusted"))) as server:
            yield server

    @pytest.fixture
    def link(self, server: RedisServer) -> Iterator[Link]:
        with Client(server.url) as client:
            client.inspect("job")  # connects
            [circuit] = client._driver._store._all  # type: ignore[attr-defined]
            [link] = circuit._by_fd.values()
            yield link

    def test_all_that_have_come_are_read(self, link: Link) -> None:
        """Else a node that is looked at now and then would seem to be late, ever more."""
        hear_of(link, 3)
        reader = hiredis.Reader()
        take_in(link.sock, reader)
        assert [reader.gets() for _ in range(4)] == [b"PONG", b"PONG", b"PONG", False]

    def test_what_came_before_the_end_goes_first(self, server: RedisServer, link: Link) -> None:
        hear_of(link, 1)
        assert server.command("CLIENT", "KILL", "TYPE", "normal") == 1
        ended = select.poll()
        ended.register(link.sock, select.POLLRDHUP)
        assert ended.poll(HANGS_AFTER * 1000)
        reader = hiredis.Reader()
        take_in(link.sock, reader)
        assert reader.gets() == b"PONG"
        with pytest.raises(EOFError, match="closed"):
            take_in(link.sock, reader)


class Broken(ssl.SSLSocket):
    """Breaks after one record."""

    def __init__(self) -> None:
        self.heard: list[bytes] = [b":1\r\n"]

    def gettimeout(self) -> float:
        return 0.0

    def recv(self, size: int = 0, flags: int = 0) -> bytes:
        if not self.heard:
            raise ConnectionResetError(104, "reset")
        return self.heard.pop()


def test_what_came_before_an_error_goes_first() -> None:
    sock, reader = Broken.__new__(Broken), hiredis.Reader()
    Broken.__init__(sock)
    take_in(sock, reader)
    assert reader.gets() == 1
    with pytest.raises(ConnectionResetError):
        take_in(sock, reader)


def hear_of(link: Link, answers: int) -> None:
    """Have so many lie there, each a record of its own."""
    for _ in range(answers):
        wait_for_more(link, unread(link))


def wait_for_more(link: Link, before: int) -> None:
    link.sock.send(command(b"PING"))
    wait_for(lambda: unread(link) > before)


def unread(link: Link) -> int:
    """How many bytes lie there."""
    [count] = struct.unpack("i", fcntl.ioctl(link.fd, termios.FIONREAD, bytes(4)))
    return int(count)


@pytest.fixture
def fleet() -> Iterator[Any]:
    """Three nodes that nobody is connected to."""
    with RedisMasters(count=3) as masters, Client(masters.url, restart_guard=False) as client:
        yield client._driver._store._fleet  # type: ignore[attr-defined]


def test_connections_that_are_made_between_two_looks_are_taken(
    fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Dials._take

    def take_a_little_early(dials: Dials) -> None:
        take(dials)
        wait_for(lambda: not dials._under_way)

    monkeypatch.setattr(Dials, "_take", take_a_little_early)
    circuit = Circuit(fleet)
    poll = FanOut((Inspect("job"),), range(3), circuit._clock() + HANGS_AFTER)
    circuit.perform(poll)
    assert [type(poll.said(node)) for node in range(3)] == [Listing] * 3
    circuit.close()


def test_a_poll_of_some_nodes_is_said_to_them_alone(fleet: Any) -> None:
    circuit = Circuit(fleet)
    for nodes in (range(3), (1,)):
        poll = FanOut((Inspect("job"),), nodes, circuit._clock() + HANGS_AFTER)
        circuit.perform(poll)
        assert sorted(poll.answers) == list(nodes)
        assert not any(link.owed for link in circuit._present)
    circuit.close()


def test_what_could_not_go_out_at_once_goes_out_though_nobody_listens(fleet: Any) -> None:
    """As to a node that was stopped, when the others have settled it."""
    circuit = Circuit(fleet)
    circuit.perform(FanOut((Inspect("job"),), range(3), circuit._clock() + HANGS_AFTER))
    link = circuit._present[2]
    link.unsent = b"\r\n"  # which means nothing
    poll = FanOut((Inspect("job"),), range(3), circuit._clock() + HANGS_AFTER)
    circuit._say(circuit._present, Owed(circuit._speech.phrase(poll.requests), poll))
    assert link.unsent

    def is_answered() -> bool:
        circuit._hear(0)
        return poll.over

    wait_for(is_answered)
    circuit.close()


def test_a_signal_handler_may_speak_while_all_are_spoken_to(fleet: Any) -> None:
    """On another connection of the same circuit; so all of them have one mutex, which it may take
    again."""
    circuit = Circuit(fleet)
    circuit.perform(FanOut((Inspect("job"),), range(3), circuit._clock() + HANGS_AFTER))
    first, second, _ = circuit._present
    assert first.mutex is second.mutex
    sock, heard = first.sock, []

    class Struck:
        def send(self, text: bytes, flags: int) -> int:
            poll = FanOut((Inspect("job"),), (1,), circuit._clock() + HANGS_AFTER)
            said = Owed(circuit._speech.phrase(poll.requests), poll)
            heard.append((poll, say_to((second,), said)))
            return int(sock.send(text, flags))

        def __getattr__(self, name: str) -> Any:
            return getattr(sock, name)

    first.sock = Struck()
    poll = FanOut((Inspect("job"),), range(3), circuit._clock() + HANGS_AFTER)
    circuit.perform(poll)
    [(theirs, lagging)] = heard
    assert not lagging
    assert isinstance(theirs.said(1), Listing)
    assert [type(poll.said(node)) for node in range(3)] == [Listing] * 3
    circuit.close()


def test_connecting_may_go_on_while_it_is_abandoned(fleet: Any) -> None:
    """By another thread, which closes the client."""
    dials = Dials(fleet.nodes, fleet.around.clock, Link.close)
    for node in fleet.nodes:
        dials._begin(node, spare=False)
    [first, *_] = dials._dials.values()
    abandon = first.abandon

    def abandon_and_take() -> None:
        wait_for(lambda: not dials._under_way)
        dials._take()
        abandon()

    first.abandon = abandon_and_take  # type: ignore[method-assign]
    dials.abandon()
    assert not dials._dials


def test_only_the_first_time_are_all_nodes_waited_for(fleet: Any) -> None:
    """Then a quorum is enough: the rest come when they come."""
    circuit = Circuit(fleet)
    dials, waits = circuit._dials, []

    def wait(request_timeout: float) -> None:
        waits.append(request_timeout)
        Dials._wait(dials, request_timeout)

    dials._wait = wait  # type: ignore[method-assign]
    circuit.perform(FanOut((Inspect("job"),), range(3), circuit._clock() + HANGS_AFTER))
    assert len(circuit._present) == 3
    assert waits
    waits.clear()
    circuit._drop(circuit._present[0], "gone")
    circuit.perform(FanOut((Inspect("job"),), range(3), circuit._clock() + HANGS_AFTER))
    assert not waits
    circuit.close()


def test_ends_that_nobody_waited_for_are_no_reason_to_look_again(fleet: Any) -> None:
    dials = Dials(fleet.nodes, fleet.around.clock, list[Link]().append)
    for node in fleet.nodes:
        dials._begin(node, spare=False)
    wait_for(lambda: dials._settled._value == len(fleet.nodes))
    dials._wait(HANGS_AFTER)
    assert not dials._settled.acquire(blocking=False)
    dials.abandon()
