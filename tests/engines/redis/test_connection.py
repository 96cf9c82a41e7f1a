"""One connection, by the bytes on it: replies, pushes and subscriptions in their order."""

from collections.abc import Sequence
from math import inf

import pytest

from holdfast.core.fanout import FanOut
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    Release,
    ToNode,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.core.restart_guard import RestartGuard
from holdfast.engines.redis.addresses import server
from holdfast.engines.redis.commands import Commands
from holdfast.engines.redis.connection import MAX_PENDING, Connection
from holdfast.engines.redis.handshake import Handshake, NodeHandshake
from holdfast.engines.redis.nodes import FIRST_CONTACT, Nodes, Voting
from holdfast.events import PollingOnly
from holdfast.lab.simulator.redis.server import encode
from tests.core.quorum_stage import quorum_of

HELLO = b"%1\r\n$5\r\nproto\r\n:3\r\n"
OTHER = "host/1/program/" + 32 * "0"
HELD = encode([5000, OTHER.encode()])
SUBSCRIBED = encode([b"subscribe", b"channel", 1], kind=b">")
NOSCRIPT = b"-NOSCRIPT No matching script\r\n"


class Client:
    """A client of one server, whose bytes the test plays."""

    def __init__(self, replicas: int = 0) -> None:
        self.now = 0.0
        self.connects = 0
        self.woken: list[str] = []
        self.said: list[str] = []
        host = StoreHost(
            lambda: self.now,
            self.woken.append,
            lambda event: self._note(event),
            notify_all=lambda: self.woken.append("all"),
        )
        commands = Commands(quorum=False, keep=3600.0, channel="channel", replicas=replicas)
        self.nodes = Nodes(host, commands.exchange, "channel")
        self.nodes.connect = self._connect
        self.outgoing: list[bytes] = []
        self.nodes.disconnect = lambda connection, why, heals=None: connection.lost(why, heals)
        self.connection = self.nodes.add(server({"host": "server", "port": 1}), Handshake())

    def _note(self, event: object) -> None:
        self.said.append(str(event))
        assert isinstance(event, PollingOnly)

    def _connect(self, connection: Connection, timeout: float) -> None:
        self.connects += 1

    def connect(self, hello: bytes = HELLO) -> None:
        self.connection.opened(self.outgoing.extend)
        self.sent()
        self.receive(hello)

    def ask(self, *requests: ToNode) -> FanOut:
        each = FanOut(requests, (0,), self.now + 1.0)
        self.nodes.start(each, lambda: None)
        return each

    def sent(self) -> list[str]:
        """The names of the commands that were sent since the last time."""
        names = [command.split(b"\r\n")[2].decode() for command in self.outgoing]
        self.outgoing.clear()
        return names

    def receive(self, data: bytes) -> None:
        self.connection.receive(data)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.connect()
    return client


def answer(each: FanOut) -> Answer:
    [found] = each.answers[0]
    return found


def acquire(holder: str, *, queue: bool = False) -> Acquire:
    return Acquire("job", holder, 10.0, queue)


def test_replies_are_matched_in_order_however_the_bytes_come(client: Client) -> None:
    rounds = [client.ask(acquire(str(number))) for number in range(3)]
    for byte in b":1\r\n" + HELD + b":3\r\n":
        client.receive(bytes([byte]))
    first, second, third = map(answer, rounds)
    assert (first, third) == (Granted(1), Granted(3))
    assert second == Held(5.0, False, OTHER)


def test_a_late_reply_is_nobody_elses(client: Client) -> None:
    late = client.ask(acquire("a"))
    client.nodes.expire(late)
    later = client.ask(acquire("b"))
    client.receive(b":1\r\n:2\r\n")
    assert answer(later) == Granted(2)


def test_what_is_asked_before_there_is_a_connection_waits_for_it() -> None:
    client = Client()
    each = client.ask(acquire("a"))
    assert client.connects == 1
    client.connect()
    assert client.sent() == ["EVALSHA"]
    client.receive(b":1\r\n")
    assert answer(each) == Granted(1)


def test_an_acquire_that_is_given_up_before_it_was_sent_is_not_sent() -> None:
    client = Client()
    each = client.ask(acquire("a"))
    client.ask(Release("job", "a"))
    client.nodes.expire(each)
    client.connect()
    assert client.sent() == ["EVALSHA"], "the release alone"


def test_a_connection_that_comes_too_late_answers_what_has_waited_for_it() -> None:
    client = Client()
    each = client.ask(acquire("a"))
    client.now = 2.0
    client.connect()
    assert client.sent() == []
    assert type(answer(each)) is Failed
    assert each.over


def test_a_connection_that_fails_at_once_answers_what_would_have_waited_for_it() -> None:
    """As an eager task of asyncio does, where there is no such socket."""
    client = Client()
    client.nodes.connect = lambda connection, timeout: connection.lost("no such file")
    each = client.ask(acquire("a"))
    assert each.over
    assert answer(each) == Failed.at("server:1", "no such file")
    assert client.connection.unanswered() == []


def test_wake_ups_come_between_replies(client: Client) -> None:
    waiting = client.ask(acquire("a", queue=True))
    assert client.sent() == ["SUBSCRIBE", "EVALSHA"]
    client.receive(SUBSCRIBED + HELD)
    assert answer(waiting) == Held(5.0, True, OTHER)
    other = client.ask(acquire("b"))
    client.receive(encode([b"message", b"channel", b"a"], kind=b">") + b":7\r\n")
    assert client.woken == ["a"]
    assert answer(other) == Granted(7)
    client.ask(acquire("c", queue=True))
    assert client.sent() == ["EVALSHA", "EVALSHA"], "once is enough"


@pytest.mark.parametrize("message", [b"a soon", b"a -1", b"a 1 2", b"\xff", b""])
def test_a_message_of_another_program_is_ignored(client: Client, message: bytes) -> None:
    """The fault: a `ValueError` came out of the request of the thread that reads."""
    client.ask(acquire("a", queue=True))
    client.receive(SUBSCRIBED + HELD)
    client.receive(encode([b"message", b"channel", message], kind=b">"))
    client.now = 9.0
    client.nodes.waiters.wake_due()
    assert "a" not in client.woken


def test_a_refused_subscription_is_said_once_and_waiters_poll(client: Client) -> None:
    refusal = b"-NOPERM No permissions to access a channel\r\n"
    waiting = client.ask(acquire("a", queue=True))
    client.receive(refusal + HELD)
    assert answer(waiting) == Held(5.0, False, OTHER)
    client.sent()
    again = client.ask(acquire("b", queue=True))
    assert client.sent() == ["EVALSHA"]
    client.receive(HELD)
    assert answer(again) == Held(5.0, False, OTHER)
    assert [line for line in client.said if "NOPERM" in line and "poll" in line] == client.said
    assert len(client.said) == 1


def test_a_refusal_that_passes_is_followed_by_another_subscription(client: Client) -> None:
    busy = b"-BUSY Redis is busy running a script.\r\n"
    waiting = client.ask(acquire("a", queue=True))
    client.receive(busy + busy)
    assert type(answer(waiting)) is Failed
    client.sent()
    waiting = client.ask(acquire("a", queue=True))
    assert client.sent() == ["SUBSCRIBE", "EVALSHA"]
    client.receive(SUBSCRIBED + HELD)
    assert answer(waiting) == Held(5.0, True, OTHER)


def test_without_resp3_nothing_is_subscribed_and_waiters_poll() -> None:
    client = Client()
    client.connect(b"-ERR unknown command 'HELLO'\r\n")
    waiting = client.ask(acquire("a", queue=True))
    assert client.sent() == ["EVALSHA"]
    client.receive(HELD)
    assert answer(waiting) == Held(5.0, False, OTHER)
    assert len(client.said) == 1


def test_the_subscription_is_made_again_on_the_next_connection(client: Client) -> None:
    client.ask(acquire("a", queue=True))
    client.receive(SUBSCRIBED + HELD)
    client.connection.lost("the server closed the connection")
    assert client.woken == ["all"], "it may have missed a wake-up"
    client.ask(acquire("a", queue=True))
    client.connect()
    assert client.sent() == ["SUBSCRIBE", "EVALSHA"]


def test_a_connection_that_is_lost_fails_all_that_is_pending(client: Client) -> None:
    rounds = [client.ask(acquire("a")), client.ask(Extend("job", "b", 1.0), Extend("k", "b", 1.0))]
    client.connection.lost("it broke")
    answers: list[Sequence[Answer]] = [each.answers[0] for each in rounds]
    assert [len(each) for each in answers] == [1, 2]
    assert all(type(one) is Failed and one.heals_in is None for each in answers for one in each)
    client.ask(acquire("c"))
    assert client.connects == 1


@pytest.mark.parametrize("code", ["READONLY", "NOREPLICAS", "MISCONF", "MASTERDOWN", "LOADING"])
def test_a_server_that_is_no_master_is_left(client: Client, code: str) -> None:
    each = client.ask(acquire("a"))
    with pytest.raises(EOFError, match=code):
        client.receive(f"-{code} it says why\r\n".encode())
    assert type(answer(each)) is Failed


@pytest.mark.parametrize(
    ("error", "heals_in"),
    [
        ("NOPERM this user has no permissions to run the 'evalsha' command", inf),
        ("NOAUTH Authentication required.", inf),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", inf),
        ("BUSY Redis is busy running a script", None),
    ],
)
def test_what_does_not_heal_by_waiting(client: Client, error: str, heals_in: float | None) -> None:
    each = client.ask(acquire("a"))
    client.receive(f"-{error}\r\n".encode())
    assert answer(each) == Failed.at("server:1", error, heals_in)


def test_a_handshake_that_needs_a_password(client: Client) -> None:
    client = Client()
    each = client.ask(acquire("a"))
    client.connect(b"-NOAUTH HELLO must be called with the client already authenticated\r\n")
    refusal = answer(each)
    assert isinstance(refusal, Failed)
    assert refusal.heals_in == inf


FACTS = b"run_id:1\r\nuptime_in_seconds:100"


@pytest.mark.parametrize(
    ("guarded", "info", "max_ttl", "is_clear"),
    [
        (True, FACTS, b"60000", True),
        (True, FACTS + b"\r\nexecutable:/opt/caf\xe9", b"60000", True),  # a path of any bytes
        (True, FACTS, None, False),  # another client has just deleted it
        (True, b"run_id:1", b"60000", False),  # a server that keeps some facts to itself
        (True, None, b"60000", False),
        (False, b"run_id:1", None, True),  # nothing depends on them
    ],
)
def test_a_handshake_whose_replies_make_no_sense(
    guarded: bool, info: bytes | None, max_ttl: bytes | None, is_clear: bool
) -> None:
    """The node has no connection, which is no error of the caller's."""
    client = Client()
    guard = RestartGuard(61.0, on=guarded)
    handshake = NodeHandshake(guard, client.nodes.clock, 60.0, guarded=guarded)
    address = server({"host": "node", "port": 1})
    connection = client.connection = client.nodes.add(address, handshake)
    each = FanOut((acquire("a"),), (connection.index,), 1.0)
    client.nodes.start(each, lambda: None)
    facts: dict[str, object] = {
        "CONFIG": [],
        "SET": None,
        "INFO": info,
        "GET": max_ttl,
        "SCRIPT": b"sha",
    }
    connection.opened(client.outgoing.extend)
    _, *asked = client.sent()
    client.receive(HELLO + b"".join(encode(facts[name]) for name in asked))
    assert connection.ready == is_clear
    if not is_clear:
        assert type(each.answers[connection.index][0]) is Failed


@pytest.mark.parametrize("released_by", ["", "b", "a", "a#0"])
def test_a_script_that_was_not_loaded(client: Client, released_by: str) -> None:
    """The call is sent again, also if the other nodes of a quorum were enough; but not behind its
    own release, which would have been executed before it."""
    each = client.ask(acquire("a"))
    each.over = True
    if released_by:
        client.ask(Release("job", released_by))
    client.sent()
    client.receive(NOSCRIPT)
    again = client.sent()
    assert again[-1:] == ([] if released_by.startswith("a") else ["EVALSHA"])


def test_a_release_is_sent_again_though_nobody_waits(client: Client) -> None:
    each = client.ask(Release("job", "a"))
    client.sent()
    client.nodes.expire(each)
    client.receive(NOSCRIPT)
    assert client.sent()[-1] == "EVALSHA"


def test_a_server_that_is_stopped_before_it_confirms_a_subscription_is_overdue(
    client: Client,
) -> None:
    """Else each renewal would wait for it once more."""
    client.ask(acquire("a", queue=True))
    assert client.sent() == ["SUBSCRIBE", "EVALSHA"]
    assert not client.connection.is_overdue(client.now)
    assert client.connection.is_overdue(client.now + 2.0)


def test_a_silent_server_is_not_sent_more_than_it_can_answer(client: Client) -> None:
    for _ in range(MAX_PENDING):
        client.ask(acquire("a"))
    client.now = 2.0
    assert type(answer(client.ask(acquire("b")))) is Failed


def test_what_waits_for_its_turn_at_a_silent_server_is_limited_as_well(client: Client) -> None:
    connection = client.nodes.add(
        server({"host": "server", "port": 1}), Handshake(), exclusive=True
    )
    connection.opened(client.outgoing.extend)
    connection.receive(HELLO)

    def write() -> FanOut:
        each = FanOut((Write("job", b"", 0),), (connection.index,), client.now + 1.0)
        client.nodes.start(each, lambda: None)
        return each

    for _ in range(MAX_PENDING):
        assert not write().over
    client.now = 2.0
    [failed] = write().answers[connection.index]
    assert type(failed) is Failed


def test_replicas_confirm_a_grant_on_the_connection_of_the_grant() -> None:
    """The fault: after a failover, another server confirmed what it had not received."""
    client = Client(replicas=1)
    client.connect()
    each = client.ask(acquire("a"))
    assert client.sent() == ["EVALSHA"]
    client.receive(b":1\r\n")
    assert client.sent() == ["WAIT"]
    assert not each.over
    client.connection.lost("a failover")
    assert answer(each) == Failed.at("server:1", "a failover")


@pytest.mark.parametrize("acknowledged", [0, 1])
def test_what_was_done_counts_if_enough_replicas_have_it(acknowledged: int) -> None:
    client = Client(replicas=1)
    client.connect()
    each = client.ask(Extend("job", "a", 1.0), Extend("k", "b", 1.0))
    client.receive(b"*2\r\n:1\r\n:0\r\n")
    client.receive(b":%d\r\n" % acknowledged)
    too_few = Failed.at("server:1", "0 of 1 replicas acknowledged it")
    assert each.answers[0] == [DONE if acknowledged else too_few, NOT_YOURS]


def test_replicas_are_not_asked_to_confirm_what_was_not_granted() -> None:
    client = Client(replicas=1)
    client.connect()
    each = client.ask(acquire("a"))
    client.receive(HELD)
    assert answer(each) == Held(5.0, False, OTHER)


def test_a_reply_to_no_request_is_an_error(client: Client) -> None:
    with pytest.raises(EOFError):
        client.receive(b":1\r\n")


def test_the_first_request_to_a_quorum_waits_for_connections_but_not_for_long() -> None:
    """A node that is stopped must not keep an operator who looks."""
    steps = Voting(quorum_of(3)).ask((Inspect("job"),), 5.0)
    first = next(steps)
    assert isinstance(first, FanOut)
    assert (list(first.nodes), first.until) == ([0, 1, 2], FIRST_CONTACT)
    second = next(steps)
    assert isinstance(second, FanOut)
    assert second.requests == (Inspect("job"),)
