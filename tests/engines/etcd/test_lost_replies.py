"""A call or its reply is lost, or comes late: at every step of every request. Whatever happens, one
question more finds out how things are, and a release leaves nothing behind."""

import itertools
from base64 import b64encode
from collections.abc import Iterator

import pytest

from holdfast.core.messages import (
    Acquire,
    Answer,
    Break,
    Done,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    Listing,
    NotYours,
    Release,
    Request,
)
from holdfast.drivers.common import clock
from holdfast.engines.etcd.books import SESSION
from holdfast.engines.etcd.keys import place_of
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import Fate, UnreliableStore, store_on

pytestmark = pytest.mark.slow

FATES: tuple[Fate, ...] = ("request lost", "reply lost", "late")
STEPS = range(5)
CASES = pytest.mark.parametrize(("fate", "step"), list(itertools.product(FATES, STEPS)), ids=str)


@pytest.fixture
def store(server: EtcdServer) -> Iterator[UnreliableStore]:
    with store_on(server) as store:
        yield store


def ask(store: UnreliableStore, request: Request) -> Answer:
    [answer] = store.ask((request,), clock() + 10)
    return answer


def taking(holder: str, *, queue: bool = False) -> Acquire:
    return Acquire("door", holder, 30, queue)


def nothing_is_left(server: EtcdServer) -> None:
    """No key; and no lease but those that end by themselves, since nobody keeps them alive."""
    assert server.keys() == []


def is_kept(server: EtcdServer, store: UnreliableStore, holder: str) -> bool:
    """Whether the lease that the holder's key hangs on is the one that will be renewed."""
    place = b64encode(place_of("door", holder)).decode()
    [found] = server.command("kv/range", key=place)["kvs"]
    return int(found["lease"]) == store._books.stakes[holder].lease


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
    assert is_kept(server, store, "ann")
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
    assert is_kept(server, store, "ben")
    assert ask(store, taking("ben", queue=True)) == again
    assert isinstance(ask(store, Extend("door", "ben", 30, again.fence)), Done)
    assert isinstance(ask(store, Release("door", "ben")), Done)
    nothing_is_left(server)


def test_a_move_to_another_session_that_comes_when_the_lock_is_held(
    server: EtcdServer, store: UnreliableStore
) -> None:
    """It would hang the holder's key on a lease that nobody renews."""
    ask(store, taking("ann"))
    ask(store, taking("ben", queue=True))
    session = store._books.session
    assert session is not None
    store._books.retire(session)
    with store.losing(2, "late") as loss:  # it looks, opens another session, and goes over to it
        assert isinstance(ask(store, taking("ben", queue=True)), Failed)
    ask(store, Release("door", "ann"))
    assert isinstance(ask(store, taking("ben", queue=True)), Granted)
    assert len(loss.late) > 0
    loss.arrive()
    assert is_kept(server, store, "ben")


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
    assert is_kept(server, store, "ann")
    assert isinstance(ask(store, Extend("door", "ann", 60, granted.fence)), Done)
    seen = ask(store, Inspect("door"))
    assert isinstance(seen, Listing)
    assert seen.leases[0].fence == granted.fence
    assert seen.leases[0].remaining > 50
    assert isinstance(ask(store, Release("door", "ann")), Done)
    nothing_is_left(server)


def test_extending_to_another_ttl_without_knowing_whether_it_was(
    server: EtcdServer, store: UnreliableStore
) -> None:
    """What is renewed from then on is the lease that the key hangs on, wherever that is."""
    granted = ask(store, taking("ann"))
    assert isinstance(granted, Granted)
    with store.losing(4, "reply lost"):  # of what hangs the key on another lease
        assert isinstance(ask(store, Extend("door", "ann", 60, granted.fence)), Failed)
    renewal = Extend("door", "ann", 30, granted.fence)
    assert isinstance(ask(store, renewal), Done)
    first, later = store._books.stakes["ann"].leases
    server.command("lease/revoke", ID=str(first))
    assert isinstance(ask(store, renewal), Done)
    server.command("lease/revoke", ID=str(later))
    assert server.keys() == []
    assert isinstance(ask(store, renewal), NotYours)


@pytest.mark.parametrize("fate", FATES)
def test_giving_back(server: EtcdServer, store: UnreliableStore, fate: Fate) -> None:
    """One reply is lost: asked again, the server knows of no such lease; it was ours all the same,
    and it is we who have given it back."""
    for again in ("in the same request", "in another one"):
        assert isinstance(ask(store, taking("ann")), Granted)
        with store.losing(0, fate, end=1 if again == "in the same request" else 2) as loss:
            first = ask(store, Release("door", "ann"))
        answer = first if again == "in the same request" else ask(store, Release("door", "ann"))
        assert isinstance(answer, Done), again
        loss.arrive()
        nothing_is_left(server)


def test_giving_back_what_is_gone(server: EtcdServer, store: UnreliableStore) -> None:
    ask(store, taking("ann"))
    server.clear()
    assert isinstance(ask(store, Release("door", "ann")), NotYours)


@pytest.mark.parametrize("fate", FATES)
def test_breaking_a_lock(server: EtcdServer, store: UnreliableStore, fate: Fate) -> None:
    """Asked again, it must not break that of the next one."""
    ask(store, taking("ann"))
    ask(store, taking("ben", queue=True))
    with store.losing(1, fate, end=2) as loss:
        assert isinstance(ask(store, Break("door")), Done)
    loss.arrive()
    assert server.keys() == [place_of("door", "ben")]


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
