"""A call or its reply is lost, or comes late: at every step of every request. Whatever happens, one
question more finds out how things are, and a release leaves nothing behind."""

import itertools

import pytest

from holdfast.core.messages import (
    Acquire,
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
)
from holdfast.engines.etcd.registry import WAITING
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import Fate, UnreliableStore, ask

pytestmark = pytest.mark.slow

FATES: tuple[Fate, ...] = ("request lost", "reply lost", "late")
KINDS = pytest.mark.parametrize("shares", [1, pytest.param(2, marks=pytest.mark.full), 0])


def losses(steps: int) -> list[tuple[Fate, int]]:
    """Each of so many steps is lost, in each way. Then none is, to see that there are no more."""
    return [*itertools.product(FATES, range(steps)), ("none", steps)]


def cases(steps: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("fate", "step"), losses(steps), ids=str)


def taking(holder: str, *, queue: bool = False, shares: int = 1) -> Acquire:
    return Acquire("door", holder, 30, queue, shares=shares)


def nothing_is_left(server: EtcdServer) -> None:
    assert server.keys() == []


def stays_held(store: UnreliableStore, holder: str, fence: int) -> None:
    """Its place is attached to the etcd lease that is kept alive, also when others are not."""
    for _ in range(2):
        assert isinstance(ask(store, Extend("door", holder, 30, fence)), Done)


@KINDS
@cases(2)
def test_taking_a_free_lock(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int, shares: int
) -> None:
    with store.losing(step, fate) as loss:
        first = ask(store, taking("ann", shares=shares))
    again = ask(store, taking("ann", shares=shares))
    assert isinstance(again, Granted)
    if isinstance(first, Granted):
        assert first == again
    loss.arrive()
    assert ask(store, taking("ann", shares=shares)) == again, (
        "it has the same fence, however often it is asked"
    )
    stays_held(store, "ann", again.fence)
    assert isinstance(ask(store, Release("door", "ann")), Done)
    nothing_is_left(server)


@KINDS
@cases(2)
def test_giving_up_on_a_free_lock(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int, shares: int
) -> None:
    with store.losing(step, fate) as loss:
        ask(store, taking("ann", shares=shares))
    ask(store, Release("door", "ann"))
    loss.arrive()
    nothing_is_left(server)
    assert isinstance(ask(store, taking("ben")), Granted), "what came late took the lock"


@cases(1)
def test_a_try_that_comes_when_the_lock_was_released(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int
) -> None:
    ask(store, Acquire("gate", "cleo", 30))  # the session lives on
    with store.losing(step, fate) as loss:
        ask(store, taking("ann"))
    ask(store, taking("ann"))
    assert isinstance(ask(store, Release("door", "ann")), Done)
    loss.arrive()
    granted = ask(store, Acquire("wall", "cleo too", 30))
    assert isinstance(granted, Granted)
    assert isinstance(ask(store, Extend("gate", "cleo", 30)), Done)  # and deletes what came late
    assert server.keys(b"door\0") == []


@cases(2)
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


@KINDS
@cases(1)
def test_trying_a_held_lock(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int, shares: int
) -> None:
    ask(store, taking("ann"))
    with store.losing(step, fate) as loss:
        ask(store, taking("ben", shares=shares))
    assert isinstance(ask(store, taking("ben", shares=shares)), Held)
    loss.arrive()
    assert len(server.keys()) == 1


@KINDS
@cases(2)
def test_joining_a_queue(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int, shares: int
) -> None:
    ask(store, taking("ann"))
    with store.losing(step, fate) as loss:
        ask(store, taking("ben", queue=True, shares=shares))
    assert isinstance(ask(store, taking("ben", queue=True, shares=shares)), Held)
    loss.arrive()
    assert isinstance(ask(store, taking("ben", queue=True, shares=shares)), Held)
    assert len(server.keys()) == 2
    ask(store, Release("door", "ann"))
    wait_for(lambda: isinstance(ask(store, taking("ben", queue=True, shares=shares)), Granted))
    assert isinstance(ask(store, Release("door", "ben")), Done)
    nothing_is_left(server)


@cases(1)
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


@KINDS
@cases(3)
def test_being_the_next(
    server: EtcdServer, store: UnreliableStore, fate: Fate, step: int, shares: int
) -> None:
    ask(store, taking("ann"))
    ask(store, taking("ben", queue=True, shares=shares))
    ask(store, Release("door", "ann"))
    with store.losing(step, fate) as loss:
        first = ask(store, taking("ben", queue=True, shares=shares))
    again = ask(store, taking("ben", queue=True, shares=shares))
    assert isinstance(again, Granted)
    if isinstance(first, Granted):
        assert first == again
    loss.arrive()
    assert ask(store, taking("ben", queue=True, shares=shares)) == again
    stays_held(store, "ben", again.fence)
    assert isinstance(ask(store, Release("door", "ben")), Done)
    nothing_is_left(server)


@cases(5)
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


@pytest.mark.parametrize("fate", FATES)
def test_giving_back_the_last_lease_of_a_retired_session(
    server: EtcdServer, store: UnreliableStore, fate: Fate
) -> None:
    """Its place was deleted; what is lost is the end of its session, which has nothing any more."""
    assert isinstance(ask(store, taking("ann")), Granted)
    with store.losing(0, "request lost"):
        ask(store, Acquire("gate", "ben", 30))
    ask(store, Release("gate", "ben"))
    with store.losing(1, fate, end=2) as loss:
        assert isinstance(ask(store, Release("door", "ann")), Done)
    loss.arrive()
    assert not server.keys()


def test_giving_back_what_is_gone(server: EtcdServer, store: UnreliableStore) -> None:
    ask(store, taking("ann"))
    server.clear()
    assert isinstance(ask(store, Release("door", "ann")), NotYours)


@pytest.mark.parametrize("fate", FATES)
def test_breaking_a_lock(server: EtcdServer, store: UnreliableStore, fate: Fate) -> None:
    """It is sent again, and does not break that of the next one."""
    ask(store, taking("ann"))
    ask(store, taking("ben", queue=True))
    with store.losing(1, fate, end=2) as loss:
        assert isinstance(ask(store, Break("door")), Done)
    loss.arrive()
    seen = ask(store, Inspect("door"))
    assert isinstance(seen, Listing)
    assert [each.holder for each in seen.leases] == ["ben"]


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
    assert WAITING < 10, "or there would be no waiting for it"
    ask(store, Release("door", "ann"))
    wait_for(lambda: isinstance(ask(store, taking("cleo", queue=True)), Granted))
