"""What is said and heard on connections, byte for byte. The test is at their other ends."""

import contextlib
import errno
import itertools
import select
import socket
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import hiredis
import pytest

from holdfast.core.fanout import FanOut, ReleaseRound
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Failed,
    Granted,
    Release,
    ToNode,
)
from holdfast.engines.redis.circuit import LOOKING, Circuit
from holdfast.engines.redis.eagerness import MOST_SKIPS, Eagerness
from holdfast.engines.redis.link import NOT_YET, PROMPT, Link, hear_from, say_to
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.owing import Owing
from holdfast.engines.redis.sockets import BROKEN
from holdfast.engines.redis.sole import SoleLink
from holdfast.engines.redis.speech import Speech
from tests.engines.redis.strikes import Strike

FENCE = 1_790_000_000_000_000
ACQUIRE = Acquire("job", "me", 30.0, False, FENCE)
RELEASE = Release("job", "me")
SPEECH = Speech(quorum=True, keep=1.0, channel="c")


class Node:
    """Of which nothing is to be known before something is said to it."""

    trouble = ""

    def __init__(self, index: int, sock: socket.socket) -> None:
        self.index = index
        self.address = SimpleNamespace(open=lambda timeout: (sock, None))

    def greeting(self) -> None:
        return None

    def is_well(self) -> None:
        self.trouble = ""


class Wire:
    """A connection, and its other end."""

    def __init__(self, index: int = 0) -> None:
        near, self.far = socket.socketpair()
        self.link = SoleLink(Node(index, near), 1.0)  # type: ignore[arg-type]

    def asks(self, request: ToNode) -> FanOut:
        """As it was asked, with its answer still to come."""
        poll = FanOut((request,), (0,), 1.0)
        self.link.owed.append(Owed(SPEECH.phrase((request,)), poll))
        return poll

    def hears(self, reply: bytes) -> None:
        self.far.sendall(reply)
        self.link.hear()

    def close(self) -> None:
        self.link.close()
        self.far.close()


@pytest.fixture
def wires() -> Iterator[list[Wire]]:
    wires = [Wire(index) for index in range(3)]
    yield wires
    for wire in wires:
        wire.close()


@pytest.fixture
def wire(wires: list[Wire]) -> Wire:
    return wires[0]


USUAL: list[tuple[ToNode, bytes, Answer]] = [
    (ACQUIRE, b":%d\r\n" % FENCE, Granted(FENCE)),
    (RELEASE, b":1\r\n", DONE),
]


@pytest.mark.parametrize(("request_", "reply", "answer"), USUAL)
class TestTheUsual:
    """The reply that is to be expected is known without being read."""

    def test_it_means_what_it_would_if_it_were_read(
        self, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        phrase, reader = SPEECH.phrase((request_,)), hiredis.Reader()
        assert (phrase.usual, *phrase.usually) == (reply, answer)
        reader.feed(reply)
        read = reader.gets()
        assert phrase.number is not None
        assert [phrase.number(read)] == phrase.conclude([read]) == [answer]

    def test_it_is_told_without_being_read(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        wire.link.reader = None  # type: ignore[assignment]
        poll = wire.asks(request_)
        wire.hears(reply)
        assert poll.said(0) == answer

    def test_so_are_two_when_the_first_was_late(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        wire.link.reader = None  # type: ignore[assignment]
        polls = [wire.asks(each) for each in (request_, RELEASE, request_)]
        wire.hears(reply + b":1\r\n")
        assert [poll.said(0) for poll in polls] == [answer, DONE, None]
        wire.hears(reply)
        assert polls[2].said(0) == answer

    def test_it_may_come_in_parts(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        for cut in range(1, len(reply) + 1):
            poll = wire.asks(request_)
            wire.hears(reply[:cut])
            assert poll.said(0) == (answer if cut == len(reply) else None)
            if cut < len(reply):
                wire.hears(reply[cut:])
            assert poll.said(0) == answer
            assert not wire.link.owed

    def test_several_may_come_together(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        polls = [wire.asks(request_) for _ in range(3)]
        wire.hears(reply + reply + reply[:2])
        assert [poll.said(0) for poll in polls] == [answer, answer, None]
        wire.hears(reply[2:])
        assert polls[2].said(0) == answer

    def test_something_else_may_come(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        poll = wire.asks(request_)
        wire.hears(b"-ERR no\r\n")
        assert isinstance(poll.said(0), Failed)
        poll = wire.asks(request_)
        wire.hears(reply)
        assert poll.said(0) == answer

    def test_the_end_of_something_else_is_not_taken_for_it(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        poll = wire.asks(request_)
        wire.hears(b"-ERR not ")
        wire.hears(reply)
        assert isinstance(poll.said(0), Failed)

    def test_nor_the_end_of_what_an_exchange_has_begun_to_read(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        wire.far.sendall(b"-ERR not ")
        assert wire.link.exchange(b"?", select.poll(), PROMPT, look=False) is NOT_YET
        poll = FanOut((request_,), (0,), 1.0)
        wire.link.owe(Owed(SPEECH.phrase((request_,)), poll))
        wire.hears(reply)
        assert isinstance(poll.said(0), Failed)

    def test_it_may_come_with_the_reply_to_an_exchange(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        """If another thread has said something meanwhile. It is not mixed up with what follows."""
        polls: list[FanOut] = []

        class Meanwhile:
            def recv_into(self, *args: Any) -> int:
                polls.append(wire.asks(request_))
                return int(sock.recv_into(*args))

            def __getattr__(self, name: str) -> Any:
                return getattr(sock, name)

        sock, wire.link.sock = wire.link.sock, Meanwhile()
        wire.far.sendall(b":7\r\n" + b"-ERR no\r\n")
        assert wire.link.exchange(b"?", select.poll(), PROMPT, look=False) == 7
        wire.link.settle()
        wire.link.sock = sock
        polls.append(wire.asks(request_))
        wire.link.hear()  # though nothing more has come
        assert [type(poll.said(0)) for poll in polls] == [Failed, type(None)]
        wire.hears(reply)
        assert polls[1].said(0) == answer

    def test_all_that_have_come_are_heard(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        """Else a node that was silent for a while would seem to be so for longer."""
        polls = [wire.asks(request_) for _ in range(500)]
        wire.hears(reply * 500)
        assert [poll.said(0) for poll in polls] == [answer] * 500

    def test_whoever_says_it_is_well_again(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        wire.link.node.trouble = "did not answer in time"
        wire.asks(request_)
        wire.hears(reply)
        assert not wire.link.node.trouble

    def test_nothing_is_changed_by_it_once_all_is_settled(
        self, wire: Wire, request_: ToNode, reply: bytes, answer: Answer
    ) -> None:
        poll = wire.asks(request_)
        poll.settled = True
        wire.hears(reply)
        assert poll.answers == {}


@pytest.mark.parametrize("error", [BlockingIOError, TimeoutError, KeyboardInterrupt])
@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        (b":%d\r\n" % FENCE, b":0\r\n:1\r\n"),
        (b":7\r\n", b":0\r\n:1\r\n"),
        (b":%d\r\n:0\r\n" % FENCE, b":1\r\n"),
    ],
)
def test_whatever_strikes_while_it_is_read_no_reply_is_taken_for_another(
    reply: bytes, rest: bytes, error: type[BaseException]
) -> None:
    """A signal handler may raise anything, also what a socket does when nothing has come."""
    for line in itertools.count():
        wire = Wire()
        polls = [wire.asks(each) for each in (ACQUIRE, RELEASE, RELEASE)]
        wire.far.sendall(reply)
        strike = Strike(line, ("redis/link.py", "redis/owed.py", "core/fanout.py"), error)
        with contextlib.suppress(*BROKEN, KeyboardInterrupt), strike:
            wire.link.hear()
        if not wire.link.interrupted:  # else it is dropped
            wire.hears(rest)
            assert [poll.said(0) for poll in polls[1:]] == [NOT_YOURS, DONE]
        wire.close()
        if not strike.struck:
            break
    assert line > 5


def test_what_a_signal_handler_raises_amid_a_call_is_not_the_sockets() -> None:
    def handler() -> None:
        raise BlockingIOError(errno.EAGAIN, "the pipe is full")

    class Struck:
        """After it has done what it should."""

        def __init__(self, sock: Any) -> None:
            self._sock = sock

        def send(self, *args: Any) -> int:
            self._sock.send(*args)
            handler()
            return 0

        def recv(self, *args: Any) -> bytes:
            self._sock.recv(*args)
            handler()
            return b""

    for act in ("say", "hear"):
        wire = Wire()
        wire.asks(RELEASE)
        wire.far.sendall(b":1\r\n")
        said, near = Owed(SPEECH.phrase((RELEASE,)), FanOut((RELEASE,), (0,), 1.0)), wire.link.sock
        wire.link.sock = Struck(near)
        with pytest.raises(BlockingIOError):
            wire.link.say(said) if act == "say" else wire.link.hear()
        assert wire.link.interrupted
        wire.link.sock = near
        wire.close()


def test_long_replies_are_read_in_one_go(wire: Wire) -> None:
    poll = FanOut((RELEASE,) * 200, (0,), 1.0)
    wire.link.owed.append(Owed(SPEECH.phrase(poll.requests), poll))
    wire.hears(b":1\r\n" * 200)
    assert poll.answers == {0: [DONE] * 200}


def test_a_connection_that_was_closed_is_no_reply(wire: Wire) -> None:
    wire.asks(RELEASE)
    wire.far.close()
    with pytest.raises(EOFError, match="closed"):
        wire.link.hear()


class TestSaying:
    """To several at once."""

    @pytest.fixture(autouse=True)
    def _of_one_circuit(self, wires: list[Wire]) -> None:
        for wire in wires:
            wire.link.mutex = wires[0].link.mutex

    @pytest.fixture
    def said(self) -> Owed:
        return Owed(SPEECH.phrase((RELEASE,)), FanOut((RELEASE,), range(3), 1.0))

    def test_each_of_them_hears_it(self, wires: list[Wire], said: Owed) -> None:
        assert not say_to([wire.link for wire in wires], said)
        assert [wire.far.recv(1000) for wire in wires] == [said.text] * 3
        assert [list(wire.link.owed) for wire in wires] == [[said]] * 3

    def test_one_that_is_broken_keeps_it_from_nobody(self, wires: list[Wire], said: Owed) -> None:
        wires[1].far.close()
        [(link, error)] = say_to([wire.link for wire in wires], said)
        assert link is wires[1].link
        assert isinstance(error, BrokenPipeError)
        assert wires[0].far.recv(1000) == wires[2].far.recv(1000) == said.text

    def test_one_that_was_interrupted_keeps_it_from_nobody(
        self, wires: list[Wire], said: Owed
    ) -> None:
        wires[1].link.saying = True
        [(link, error)] = say_to([wire.link for wire in wires], said)
        assert link is wires[1].link
        assert isinstance(error, EOFError)
        assert not link.owed

    def test_what_does_not_go_out_waits_its_turn(self, wires: list[Wire], said: Owed) -> None:
        full, far = wires[1].link, wires[1].far
        sent = fill(full.sock)
        for _ in range(2):  # told each time: the word of it may have been lost to a Ctrl-C
            assert say_to([wire.link for wire in wires], said) == ((full, None),)
            while sent:
                sent -= len(far.recv(sent))  # and though there would be room by now
        assert full.unsent == said.text * 2
        assert full.flush()
        assert far.recv(1000) == said.text * 2

    def test_a_signal_handler_that_speaks_in_the_middle_does_not_hang(
        self, wires: list[Wire], said: Owed
    ) -> None:
        link, sock = wires[1].link, wires[1].link.sock
        heard: list[Any] = []

        class Struck:
            def send(self, text: bytes, flags: int) -> int:
                heard.append(say_to((link,), said))
                return int(sock.send(text, flags))

        link.sock = Struck()
        assert not say_to([wire.link for wire in wires], said)
        [[(_, error)]] = heard
        assert isinstance(error, EOFError)
        link.sock = sock

    def test_a_ctrl_c_while_the_rest_is_sent_is_known(self, wire: Wire) -> None:
        """It may have gone out, or not."""
        sock = wire.link.sock

        class Struck:
            def send(self, text: bytes, flags: int) -> int:
                sock.send(text, flags)
                raise KeyboardInterrupt

        wire.link.unsent, wire.link.sock = b"the rest", Struck()
        with pytest.raises(KeyboardInterrupt):
            wire.link.flush()
        wire.link.sock = sock
        assert wire.link.interrupted
        with pytest.raises(EOFError, match="interrupted"):
            wire.link.flush()

    def test_nothing_comes_between_the_parts_of_what_is_sent(self, wire: Wire, said: Owed) -> None:
        """By a signal handler."""
        link, sock = wire.link, wire.link.sock
        heard: list[Any] = []

        class Struck:
            def send(self, text: bytes, flags: int) -> int:
                heard.append(say_to((link,), said))
                return int(sock.send(text, flags))

        link.unsent, link.sock = b"the rest", Struck()
        assert link.flush()
        link.sock = sock
        [[(_, error)]] = heard
        assert isinstance(error, EOFError)
        assert not link.owed
        assert wire.far.recv(1000) == b"the rest"


def fill(sock: socket.socket) -> int:
    """Send until nothing more goes out; gives how much went."""
    sent = 0
    while True:
        try:
            sent += sock.send(b"x" * 4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return sent


def test_what_was_in_vain_is_tried_less_and_less_often() -> None:
    eagerness = Eagerness()

    def skips() -> int:
        eagerness.was_vain()
        count = 0
        while not eagerness.pays():
            count += 1
        return count

    assert [skips() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 32, MOST_SKIPS]
    eagerness.has_paid()
    assert eagerness.pays()
    assert skips() == 1


class TestLooking:
    """Whether nodes have answered, without going to sleep."""

    @pytest.fixture
    def circuit(self) -> Circuit:
        self.now, self.owing = 1000.0, Owing()
        fleet: Any = SimpleNamespace(
            nodes=(),
            speech=SPEECH,
            owing=self.owing,
            around=SimpleNamespace(clock=self.later),
        )
        return Circuit(fleet)

    def later(self) -> float:
        self.now += LOOKING / 10
        return self.now

    def looks(self, circuit: Circuit, monkeypatch: pytest.MonkeyPatch, over_at: int) -> int:
        """How often it looks at a poll that is over when it does so for that time."""
        poll, count = FanOut((RELEASE,), (0,), 0.0), 0

        def hear(links: Sequence[Link], poll: FanOut) -> Sequence[Any]:
            nonlocal count
            count += 1
            poll.over = count == over_at
            return ()

        monkeypatch.setattr("holdfast.engines.redis.circuit.hear_from", hear)
        circuit._look_out(poll)
        return count

    def test_for_a_while(self, circuit: Circuit, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.looks(circuit, monkeypatch, over_at=5) == 5
        vain = self.looks(circuit, monkeypatch, over_at=99)
        assert 5 < vain <= 12
        # Which was in vain, so it is not tried the next time, and twice after the next.
        assert self.looks(circuit, monkeypatch, over_at=99) == 1
        assert self.looks(circuit, monkeypatch, over_at=99) == vain
        assert [self.looks(circuit, monkeypatch, over_at=99) for _ in range(2)] == [1, 1]
        # But where it was not, all is well again.
        assert self.looks(circuit, monkeypatch, over_at=5) == 5
        assert self.looks(circuit, monkeypatch, over_at=99) == vain
        assert self.looks(circuit, monkeypatch, over_at=99) == 1
        assert self.looks(circuit, monkeypatch, over_at=99) == vain

    def test_what_is_there_at_once_says_nothing_of_what_is_not(
        self, circuit: Circuit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.looks(circuit, monkeypatch, over_at=99)
        assert self.looks(circuit, monkeypatch, over_at=1) == 1
        assert self.looks(circuit, monkeypatch, over_at=99) == 1

    def test_not_while_others_are_at_work(
        self, circuit: Circuit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.owing.all += [circuit, "another", "one more"]
        self.owing.resting.append("one more")
        assert self.looks(circuit, monkeypatch, over_at=99) == 1
        self.owing.resting.append("another")
        assert self.looks(circuit, monkeypatch, over_at=99) > 1

    def test_only_at_those_that_owe_something_and_only_until_it_is_settled(
        self, wires: list[Wire]
    ) -> None:
        poll = ReleaseRound(RELEASE, (1, 2), 0.0, 1)
        said = Owed(SPEECH.phrase((RELEASE,)), poll)
        for wire in wires:
            wire.far.sendall(b":1\r\n")
        for wire in wires[1:]:  # from the first, it would be a reply that nobody has asked for
            wire.link.owed.append(said)
        assert not hear_from([wire.link for wire in wires], poll)
        assert poll.settled
        assert [len(wire.link.owed) for wire in wires] == [0, 0, 1]
