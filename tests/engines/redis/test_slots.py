"""Finding the way within a cluster, without one: nodes that answer as they are told to."""

from collections.abc import Sequence

import pytest

from holdfast.core.effects import Sleep
from holdfast.core.messages import (
    DONE,
    NOT_YOURS,
    Acquire,
    Answer,
    Extend,
    Failed,
    Granted,
    List,
    Listing,
    Release,
    Request,
    Seen,
    Write,
)
from holdfast.core.ports import StoreHost
from holdfast.engines.redis.addresses import server
from holdfast.engines.redis.cluster import (
    Cluster,
    NodeRound,
    SlotMap,
    SlotRange,
    read_slots,
)
from holdfast.engines.redis.nodes import Nodes, Together
from holdfast.engines.redis.protocol import Exchange
from holdfast.engines.urls import Endpoint

A, B, C = Endpoint("a", 1), Endpoint("b", 2), Endpoint("c", 3)
LOW, HIGH = "foo2", "foo"
"""Keys of the slots 1044 and 12182."""


def shares(low: Endpoint, high: Endpoint) -> SlotMap:
    """A reply to `CLUSTER SLOTS`."""
    masters = ((0, 8191, low), (8192, 16383, high))
    return SlotMap(
        [[first, last, [owner.host.encode(), owner.port]] for first, last, owner in masters]
    )


SHARES = shares(A, B)
MOVED_TO_C = Failed.at("x", "MOVED 1044 c:3")


class Net:
    """Nodes whose answers are scripted: the last of a script is repeated."""

    def __init__(self, *seeds: Endpoint) -> None:
        self.now = 0.0
        host = StoreHost(lambda: self.now, lambda _: None, lambda _: None)
        self.nodes = Nodes(host, lambda *_: pytest.fail("nothing is sent"), "")
        self.cluster = Cluster(seeds or (A, B), lambda at: server(at._asdict()), self.nodes)
        self.answers: dict[tuple[Endpoint, bool], list[Answer]] = {}
        self.slots: dict[Endpoint, Answer] = dict.fromkeys((A, B, C), SHARES)
        self.log: list[str] = []

    def says(self, endpoint: Endpoint, *answers: Answer, asking: bool = False) -> None:
        self.answers[endpoint, asking] = list(answers)

    def ask(self, *requests: Request, until: float = 1.0) -> Sequence[Answer]:
        steps = self.cluster.ask(requests, until)
        try:
            while True:
                effect = next(steps)
                if isinstance(effect, Sleep):
                    self.log.append("pause")
                    self.now = effect.until
                    continue
                for sent in effect.parts if isinstance(effect, Together) else (effect,):
                    assert isinstance(sent, NodeRound)
                    sent.received(sent.nodes[0], self._run(sent))
        except StopIteration as stop:
            answers: Sequence[Answer] = stop.value
            return answers

    def _run(self, sent: NodeRound) -> Sequence[Answer]:
        endpoint, asking = sent.turn
        if isinstance(sent.requests[0], Exchange):
            self.log.append(f"{endpoint.host}?")
            return [self.slots[endpoint]]
        self.log.append(endpoint.host + "!" * asking + str(len(sent.requests)))
        script = self.answers[endpoint, asking]
        answer = script.pop(0) if len(script) > 1 else script[0]
        return [answer] * len(sent.requests)


@pytest.fixture
def net() -> Net:
    net = Net()
    for endpoint in (A, B, C):
        net.says(endpoint, Granted(7))
    return net


def acquire(key: str) -> Acquire:
    return Acquire(key, "me", 1.0)


def test_the_owner_of_the_slot_is_asked_and_the_map_once(net: Net) -> None:
    assert net.ask(acquire(LOW)) == [Granted(7)]
    assert net.ask(acquire(HIGH)) == [Granted(7)]
    assert net.log == ["a?", "a1", "b1"]


def test_what_goes_to_one_master_goes_together_and_answers_keep_their_order(net: Net) -> None:
    net.says(A, Failed.at("a", "no"))
    net.says(B, DONE)
    keys = (HIGH, LOW, HIGH, LOW)
    answers = net.ask(*(Extend(key, "me", 1.0) for key in keys))
    assert [type(answer) is Failed for answer in answers] == [False, True, False, True]
    assert net.log[:3] == ["a?", "b2", "a2"]


def test_moved_is_followed_and_remembered_and_the_map_is_asked_for_again(net: Net) -> None:
    net.says(A, MOVED_TO_C)
    assert net.ask(acquire(LOW)) == [Granted(7)]
    assert net.log == ["a?", "a1", "c1"]
    net.slots = dict.fromkeys(net.slots, shares(C, B))
    net.ask(acquire(LOW))
    net.ask(acquire(LOW))
    assert net.log[3:] == ["a?", "c1", "c1"]


def test_a_release_goes_to_where_the_slot_was_though_the_map_is_in_doubt(net: Net) -> None:
    net.ask(acquire(LOW))
    silent = Failed.at("a", "did not answer in time")
    net.says(A, silent)
    net.slots = dict.fromkeys(net.slots, silent)
    assert net.ask(Extend(LOW, "me", 1.0)) == [silent]
    net.says(A, DONE)
    net.log.clear()
    assert net.ask(Release(LOW, "me")) == [DONE]
    assert net.log == ["a1"]


def test_ask_is_followed_for_once(net: Net) -> None:
    net.says(A, Failed.at("a", "ASK 1044 b:2"))
    net.says(B, Granted(9), asking=True)
    assert net.ask(acquire(LOW)) == [Granted(9)]
    assert net.log == ["a?", "a1", "b!1"]
    net.ask(acquire(LOW))
    assert net.log[3:] == ["a?", "a1", "b!1"]


def test_a_slot_on_its_way_is_waited_for(net: Net) -> None:
    again = Failed.at("a", "TRYAGAIN Multiple keys request during rehashing of slot")
    net.says(A, again, again, Granted(7))
    assert net.ask(acquire(LOW)) == [Granted(7)]
    assert net.log == ["a?", "a1", "pause", "a1", "pause", "a1"]
    net.says(A, again)
    assert net.ask(acquire(LOW), until=2.0) == [again]
    assert 1.9 < net.now < 2.0, "no longer than there is time"


def test_nodes_that_contradict_each_other_are_not_followed_for_ever(net: Net) -> None:
    net.says(A, Failed.at("a", "MOVED 1044 b:2"))
    net.says(B, Failed.at("b", "MOVED 1044 a:1"))
    assert type(net.ask(acquire(LOW))[0]) is Failed
    assert len(net.log) < 12


def test_an_owner_that_fails_is_looked_for_elsewhere_at_once(net: Net) -> None:
    net.ask(acquire(LOW))
    net.says(A, Failed.at("a", "Connection refused"))
    net.slots = dict.fromkeys((B, C), shares(C, B))
    net.slots[A] = Failed.at("a", "Connection refused")
    assert net.ask(acquire(LOW)) == [Granted(7)]
    assert net.log == ["a?", "a1", "a1", "a?", "b?", "c1"]


def test_a_write_that_was_not_heard_of_is_not_made_once_more(net: Net) -> None:
    net.says(A, Failed.at("a", "did not answer in time"))
    net.slots = dict.fromkeys(net.slots, shares(C, B))
    net.slots[A] = SHARES
    assert type(net.ask(Write(LOW, "1", 0))[0]) is Failed
    assert net.log == ["a?", "a1"]
    net.says(A, MOVED_TO_C)
    net.says(C, DONE)
    assert net.ask(Write(LOW, "1", 0)) == [DONE], "what was refused was not made"


def test_nobody_who_knows() -> None:
    net = Net()
    net.slots = {A: Failed.at("a:1", "Connection refused"), B: SlotMap(())}
    [answer] = net.ask(acquire(LOW))
    expected = {"a:1": "Connection refused", "b:2": "has no slots assigned"}
    assert isinstance(answer, Failed)
    assert dict(answer.nodes) == expected
    assert type(net.ask(List("", "", 5))[0]) is Failed


def test_a_slot_that_nobody_has(net: Net) -> None:
    net.slots = dict.fromkeys(net.slots, SlotMap([[8192, 16383, [b"b", 2]]]))
    [low, high] = net.ask(acquire(LOW), acquire(HIGH))
    assert "slot 1044" in str(low)
    assert high == Granted(7)
    net.slots = dict.fromkeys(net.slots, SHARES)
    assert net.ask(acquire(LOW)) == [Granted(7)], "asked for again"


def test_a_release_without_an_answer_is_not_repeated_but_the_new_owner_is_found(net: Net) -> None:
    """The first may have been carried out: only the core knows what "not yours" means then."""
    net.ask(acquire(LOW))
    silent = Failed.at("a", "did not answer in time")
    net.says(A, silent)
    net.says(C, NOT_YOURS)
    net.slots = dict.fromkeys(net.slots, shares(C, B))
    assert net.ask(Release(LOW, "me")) == [silent]
    assert net.ask(Release(LOW, "me")) == [NOT_YOURS]


def test_every_node_has_half_of_what_is_left_to_tell_of_the_slots() -> None:
    net = Net(A, B, C)
    spent = []

    def silence(sent: NodeRound) -> Sequence[Answer]:
        spent.append(sent.until - net.now)
        net.now = sent.until
        return [Failed.at(sent.turn.endpoint.name, "did not answer in time")]

    net._run = silence  # type: ignore[method-assign]
    net.ask(acquire(LOW))
    assert spent == [0.5, 0.25, 0.125]


def test_a_listing_is_of_all_masters_in_order(net: Net) -> None:
    def seen(*keys: str) -> Listing:
        return Listing(tuple(Seen(key, "me", 1, 1.0, 0) for key in keys))

    net.says(A, seen("a", "d"))
    net.says(B, Failed.at("b", "MOVED 9 c:3"), seen("b", "c", "e"))
    [answer] = net.ask(List("", "", 3))
    assert isinstance(answer, Listing)
    assert [each.key for each in answer.leases] == ["a", "b", "c"]
    net.says(B, Failed.at("b", "Connection refused"))
    [answer] = net.ask(List("", "", 3))
    assert answer == Failed.at("b", "Connection refused"), "half a list would be a lie"


@pytest.mark.parametrize("host", [None, b"", b"?"])
def test_a_node_without_a_name_is_where_it_was_asked(host: bytes | None) -> None:
    reply = [[0, 5, [b"b", 2, b"id", []], [b"replica", 9, b"id"]], [6, 9, [host, 7, b"id"]]]
    shares = read_slots(Endpoint("asked", 6379), reply)
    assert shares == (SlotRange(0, 5, B), SlotRange(6, 9, Endpoint("asked", 7)))


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("c:3", C),
        ("::1:3", Endpoint("::1", 3)),
        (":3", Endpoint("a", 3)),
        ("?:3", Endpoint("a", 3)),
    ],
)
def test_the_ways_of_saying_where(text: str, endpoint: Endpoint, net: Net) -> None:
    net.says(A, Failed.at("a", f"MOVED 1044 {text}"))
    net.says(endpoint, Granted(8))
    assert net.ask(acquire(LOW)) == [Granted(8)]


def test_names_of_endpoints() -> None:
    assert Endpoint("h", 5).name == "h:5"
    assert Endpoint("::1", 5).name == "[::1]:5"
