"""A call or its reply is lost, or comes late: at every step of every request. Whatever happens, one
question more finds out how things are, and a release leaves nothing behind."""

import itertools
from collections.abc import Iterator

import pytest

from holdfast.core.messages import (
    Acquire,
    Answer,
    Done,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    Listing,
    Release,
)
from holdfast.drivers.surroundings import clock
from holdfast.engines.etcd.books import SESSION
from holdfast.lab.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import Fate, UnreliableStore, store_on

pytestmark = pytest.mark.slow

FATES: tuple[Fate, ...] = ("request lost", "reply lost", "late")
STEPS = range(4)
CASES = pytest.mark.parametrize(("fate", "step"), list(itertools.product(FATES, STEPS)), ids=str)


@pytest.fixture
def store(server: EtcdServer) -> Iterator[UnreliableStore]:
    with store_on(server) as store:
        yield store


def ask(store: UnreliableStore, request: Acquire | Extend | Release | Inspect) -> Answer:
    [answer] = store.ask((request,), clock() + 10)
    return answer


def taking(holder: str, *, queue: bool = False) -> Acquire:
    return Acquire("door", holder, 30, queue)


def nothing_is_left(server: EtcdServer) -> None:
    """No key; and no lease but those that end by themselves, since nobody keeps them alive."""
    assert server.keys() == []


@CASES
def test_taking_a_free_lock(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int
) -> None:
    with store.losing(step, fate) as loss:
        first = ask(store, taking("ann"))
    again = ask(store, taking("ann"))
    assert isinstance(again, Granted)
    if isinstance(first, Granted):
        assert first == again
    loss.arrive()
    assert ask(store, taking("ann")) == again, "it has the same fence, however often it is asked"
    assert isinstance(ask(store, Extend("door", "ann", 30, again.fence)), Done)
    assert isinstance(ask(store, Release("door", "ann")), Done)
    nothing_is_left(server)


@CASES
def test_giving_up_on_a_free_lock(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int
) -> None:
    with store.losing(step, fate) as loss:
        ask(store, taking("ann"))
    ask(store, Release("door", "ann"))
    loss.arrive()
    nothing_is_left(server)
    assert isinstance(ask(store, taking("ben")), Granted), "what came late took the lock"


@CASES
def test_giving_up_after_two_tries(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int
) -> None:
    losses = []
    for _ in range(2):
        with store.losing(step, fate) as loss:
            ask(store, taking("ann"))
        losses.append(loss)
    ask(store, Release("door", "ann"))
    for loss in losses:
        loss.arrive()
    nothing_is_left(server)


@CASES
def test_trying_a_held_lock(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int
) -> None:
    ask(store, taking("ann"))
    leases = server.leases()
    with store.losing(step, fate) as loss:
        ask(store, taking("ben"))
    assert isinstance(ask(store, taking("ben")), Held)
    loss.arrive()
    assert len(server.keys()) == 1
    if fate != "late":
        assert server.leases() == leases, "a try that failed revokes what was granted to it"


@CASES
def test_joining_a_queue(server: EtcdServer, store: UnreliableStore, fate: Fate, step: int) -> None:
    ask(store, taking("ann"))
    with store.losing(step, fate) as loss:
        ask(store, taking("ben", queue=True))
    assert isinstance(ask(store, taking("ben", queue=True)), Held)
    loss.arrive()
    assert isinstance(ask(store, taking("ben", queue=True)), Held)
    assert len(server.keys()) == 2
    ask(store, Release("door", "ann"))
    wait_for(lambda: isinstance(ask(store, taking("ben", queue=True)), Granted))
    assert isinstance(ask(store, Release("door", "ben")), Done)
    nothing_is_left(server)


@CASES
def test_leaving_a_queue_that_may_have_been_joined(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int
) -> None:
    ask(store, taking("ann"))
    ask(store, taking("cleo", queue=True))
    ask(store, Acquire("gate", "ann too", 30))
    ask(store, Acquire("gate", "dan", 30, queue=True))  # so that somebody waits all the time
    with store.losing(step, fate) as loss:
        ask(store, taking("ben", queue=True))
    ask(store, Release("door", "ben"))
    loss.arrive()
    ask(store, Release("door", "ann"))
    # Whatever came late is gone with its session; who waits properly keeps its place.
    wait_for(lambda: isinstance(ask(store, taking("cleo", queue=True)), Granted))
    ask(store, Release("door", "cleo"))
    wait_for(lambda: not server.keys(b"door\0"))


def test_leaving_a_queue_after_looking_in_vain(server: EtcdServer, store: UnreliableStore) -> None:
    """That our place is not there yet does not mean that it will not come."""
    ask(store, taking("ann"))
    ask(store, Acquire("gate", "ann too", 30))
    ask(store, Acquire("gate", "dan", 30, queue=True))
    with store.losing(0, "late") as loss:
        ask(store, taking("ben", queue=True))
    with store.losing(1, "request lost"):
        ask(store, taking("ben", queue=True))
    ask(store, Release("door", "ben"))
    loss.arrive()
    wait_for(lambda: len(server.keys(b"door\0")) == 1)


@CASES
def test_being_the_next(server: EtcdServer, store: UnreliableStore, fate: Fate, step: int) -> None:
    ask(store, taking("ann"))
    ask(store, taking("ben", queue=True))
    ask(store, Release("door", "ann"))
    with store.losing(step, fate) as loss:
        first = ask(store, taking("ben", queue=True))
    again = ask(store, taking("ben", queue=True))
    assert isinstance(again, Granted)
    if isinstance(first, Granted):
        assert first == again
    loss.arrive()
    assert ask(store, taking("ben", queue=True)) == again
    assert isinstance(ask(store, Extend("door", "ben", 30, again.fence)), Done)
    assert isinstance(ask(store, Release("door", "ben")), Done)
    nothing_is_left(server)


@CASES
def test_extending_to_another_ttl(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int
) -> None:
    granted = ask(store, taking("ann"))
    assert isinstance(granted, Granted)
    with store.losing(step, fate) as loss:
        ask(store, Extend("door", "ann", 60, granted.fence))
    assert isinstance(ask(store, Extend("door", "ann", 60, granted.fence)), Done)
    loss.arrive()
    assert isinstance(ask(store, Extend("door", "ann", 60, granted.fence)), Done)
    seen = ask(store, Inspect("door"))
    assert isinstance(seen, Listing)
    assert seen.leases[0].fence == granted.fence
    assert seen.leases[0].remaining > 50
    assert isinstance(ask(store, Release("door", "ann")), Done)
    nothing_is_left(server)


@pytest.mark.parametrize("fate", FATES)
def test_leaving_a_queue_unheard(server: EtcdServer, store: UnreliableStore, fate: Fate) -> None:
    """Its place must not be kept alive, though others of this client wait on."""
    ask(store, taking("ann"))
    ask(store, taking("ben", queue=True))
    ask(store, taking("cleo", queue=True))
    with store.losing(0, fate):
        assert isinstance(ask(store, Release("door", "ben")), Failed)
    ask(store, taking("cleo", queue=True))
    wait_for(lambda: len(server.keys()) == 2)
    assert SESSION < 10, "or there would be no waiting for it"
    ask(store, Release("door", "ann"))
    wait_for(lambda: isinstance(ask(store, taking("cleo", queue=True)), Granted))
