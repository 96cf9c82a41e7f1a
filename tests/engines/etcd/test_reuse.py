"""Leases that are used again, on real servers: what is left behind, and what comes late."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import holdfast
from holdfast.core.messages import (
    Acquire,
    Answer,
    Break,
    Done,
    Extend,
    Granted,
    Held,
    NotYours,
    Release,
    Request,
)
from holdfast.drivers.common import clock
from holdfast.engines.etcd.aio import AsyncEtcdStore
from holdfast.engines.etcd.keys import place_of
from holdfast.engines.etcd.replies import Trouble
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

from .unreliable import Fate, UnreliableStore, store_on

pytestmark = pytest.mark.slow

PAIRS = 10
FATES: tuple[Fate, ...] = ("request lost", "reply lost", "late")
ONE_LINE = pytest.mark.parametrize("running", ["3.5"], indirect=True)


@pytest.fixture
def store(server: EtcdServer, patient: None) -> Iterator[UnreliableStore]:
    """One with two spares."""
    with store_on(server) as store:
        doors = ("front door", "back door", "cellar")
        for door in doors:
            ask(store, Acquire(door, "somebody at the " + door, 30))
        for door in doors:
            ask(store, Release(door, "somebody at the " + door))
        assert len(server.leases()) == 2
        yield store


def ask(store: UnreliableStore, request: Request) -> Answer:
    [answer] = store.ask((request,), clock() + 10)
    return answer


def pairs(url: str, after: Callable[[], object]) -> None:
    with holdfast.Client(url) as client:
        lock = client.lock("door")
        for _ in range(PAIRS):
            with lock:
                pass
        after()


def async_pairs(url: str, after: Callable[[], object]) -> None:
    async def story() -> None:
        async with holdfast.AsyncClient(url) as client:
            lock = client.lock("door")
            for _ in range(PAIRS):
                async with lock:
                    pass
            await asyncio.to_thread(after)

    asyncio.run(story())


COLOURS = pytest.mark.parametrize("loop", [pairs, async_pairs], ids=["sync", "async"])


@COLOURS
@pytest.mark.usefixtures("patient")
def test_in_a_loop_a_lock_takes_two_calls(
    server: EtcdServer, loop: Callable[[str, Callable[[], object]], None]
) -> None:
    def counts() -> dict[str, int]:
        return {name: server.calls(name) for name in ("LeaseGrant", "LeaseRevoke", "Txn")}

    def kept() -> None:
        assert server.keys() == []
        assert len(server.leases()) == 1

    before = counts()
    loop(server.url, kept)
    after = counts()
    assert server.leases() == [], "closing revokes what is kept"
    assert {name: after[name] - before[name] for name in after} == {
        "LeaseGrant": 2,
        "LeaseRevoke": 2,
        "Txn": 2 * PAIRS - 1,
    }, "the first lock was not taken in a loop yet"


@ONE_LINE
@COLOURS
def test_a_spare_that_nobody_wants_is_revoked(
    server: EtcdServer, loop: Callable[[str, Callable[[], object]], None]
) -> None:
    def nothing_is_left() -> None:
        wait_for(lambda: not server.leases())
        wait_for(lambda: not any("spares" in each.name for each in threading.enumerate()))

    loop(server.url, nothing_is_left)


def test_one_that_the_servers_have_ended(server: EtcdServer, store: UnreliableStore) -> None:
    server.clear()
    assert isinstance(ask(store, Acquire("door", "ann", 30)), Granted)
    assert len(server.leases()) == 1
    assert isinstance(ask(store, Release("door", "ann")), Done)
    assert server.keys() == []


def test_who_waits_is_woken(server: EtcdServer, store: UnreliableStore) -> None:
    ann = ask(store, Acquire("door", "ann", 30))
    assert isinstance(ann, Granted)
    assert isinstance(ask(store, Acquire("door", "ben", 30, queue=True)), Held)
    assert isinstance(ask(store, Release("door", "ann")), Done)
    wait_for(lambda: store._books.stakes["ben"].called)
    ben = ask(store, Acquire("door", "ben", 30, queue=True))
    assert isinstance(ben, Granted)
    assert ben.fence > ann.fence
    assert isinstance(ask(store, Release("door", "ben")), Done)
    assert server.keys() == []


@ONE_LINE
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize(
    ("lost", "tries"), [(0, 1), (1, 1), (9, 1), (9, 2)], ids=["none", "one", "all", "all, again"]
)
def test_what_comes_late_finds_no_lease(
    server: EtcdServer, store: UnreliableStore, fate: Fate, lost: int, tries: int
) -> None:
    """Neither from an acquire, some of whose calls are lost, nor from a release, though others use
    leases again meanwhile."""
    with store.losing(0, fate, end=lost) as taking:
        ask(store, Acquire("door", "ann", 30))
    if tries > 1:
        assert isinstance(ask(store, Acquire("door", "ann", 30)), Granted)
    with store.losing(0, fate, end=1) as leaving:
        ask(store, Release("door", "ann"))
    for holder in ("ben", "cleo", "dan"):
        assert isinstance(ask(store, Acquire("gate", holder, 30)), Granted)
        if holder != "dan":
            ask(store, Release("gate", holder))
    taking.arrive()
    leaving.arrive()
    assert server.keys() == [store._books.stakes["dan"].place]
    assert isinstance(ask(store, Acquire("door", "eve", 30)), Granted)


def follow(store: UnreliableStore, talk: Any, step: Any) -> Any:
    """Have that step of a talk performed; the next one."""
    return talk.send(store._perform(step, store._lines.current, clock() + 10))


def finish(store: UnreliableStore, talk: Any, step: Any) -> Any:
    try:
        while True:
            step = follow(store, talk, step)
    except StopIteration as end:
        return end.value


@ONE_LINE
def test_a_lock_that_is_given_back_while_its_key_is_moved(
    server: EtcdServer, store: UnreliableStore
) -> None:
    """The lease that it was moved from is about to be revoked: nobody else may use it."""
    granted = ask(store, Acquire("door", "ann", 30))
    assert isinstance(granted, Granted)
    moving = store._speech.talk((Extend("door", "ann", 60, granted.fence),), {})
    look = next(moving)
    leaving = store._speech.talk((Release("door", "ann"),), {})
    farewell = next(leaving)
    step = look
    for _ in range(5):  # it looks, looks at the lease, keeps it alive, gets another, moves the key
        step = follow(store, moving, step)
    assert finish(store, leaving, farewell) == [Done()]
    assert isinstance(ask(store, Acquire("gate", "ben", 30)), Granted)
    finish(store, moving, step)
    assert server.keys() == [place_of("gate", "ben")]
    assert len(server.leases()) == 1


@ONE_LINE
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_lock_that_is_given_back_while_somebody_breaks_it(
    server: EtcdServer, store: UnreliableStore, fate: Fate, number: int
) -> None:
    """Some reply of the one who breaks it is lost, and its holder leaves meanwhile. Whoever uses
    leases again after that, and holds another lock, keeps it."""
    ask(store, Acquire("door", "ann", 30))
    known: dict[str, Any] = {}
    breaking = store._speech.talk((Break("door"),), known)
    with store.losing(number, fate) as loss, suppress(Trouble):
        finish(store, breaking, next(breaking))
    breaking.close()
    ask(store, Release("door", "ann"))
    assert isinstance(ask(store, Acquire("gate", "ben", 30)), Granted)
    again = store._speech.talk((Break("door"),), known)
    assert finish(store, again, next(again)) == [Done()]
    loss.arrive()
    assert server.keys() == [place_of("gate", "ben")]


@ONE_LINE
def test_a_lock_that_is_broken_while_its_key_is_moved(
    server: EtcdServer, store: UnreliableStore
) -> None:
    """Its holder is told, although its key did not hang on the lease that was seen first."""
    granted = ask(store, Acquire("door", "ann", 30))
    assert isinstance(granted, Granted)
    extend = Extend("door", "ann", 60, granted.fence)
    breaking = store._speech.talk((Break("door"),), {})
    revoking = follow(store, breaking, follow(store, breaking, next(breaking)))
    assert ask(store, extend) == Done()
    assert finish(store, breaking, revoking) == [Done()]
    assert server.keys() == []
    assert ask(store, extend) == NotYours()


@ONE_LINE
def test_a_lock_that_is_broken_while_a_waiter_comes_to_hold_it(
    server: EtcdServer, store: UnreliableStore
) -> None:
    """Who waited when its place was looked at holds the lock now, and is told, too."""
    ask(store, Acquire("door", "ann", 30))
    assert isinstance(ask(store, Acquire("door", "ben", 30, queue=True)), Held)
    ask(store, Release("door", "ann"))
    breaking = store._speech.talk((Break("door"),), {})
    removing = follow(store, breaking, follow(store, breaking, next(breaking)))
    granted = ask(store, Acquire("door", "ben", 30, queue=True))
    assert isinstance(granted, Granted)
    assert finish(store, breaking, removing) == [Done()]
    assert server.keys() == []
    assert ask(store, Extend("door", "ben", 30, granted.fence)) == NotYours()


@ONE_LINE
def test_a_client_that_is_abandoned_connects_no_more(server: EtcdServer) -> None:
    """Nobody would close that. Its spares end by themselves."""

    async def story() -> None:
        client = holdfast.AsyncClient(server.url)
        store = client._driver._store
        assert isinstance(store, AsyncEtcdStore)
        while store._alarm is None:
            async with client.lock("door"):
                pass
        alarm = store._alarm
        store.abandon()
        await until(lambda: store._alarm is not alarm)
        assert store._lines.hang_up() == []
        await client.aclose()

    asyncio.run(story())


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in this loop."""
    await asyncio.to_thread(wait_for, condition)


@ONE_LINE
@pytest.mark.usefixtures("patient")
def test_whoever_is_cancelled_at_any_moment_leaves_nothing_behind(server: EtcdServer) -> None:
    async def story() -> None:
        async with holdfast.AsyncClient(server.url) as client:
            lock = client.lock("door")

            async def loop() -> None:
                while True:
                    async with lock:
                        pass

            for turns in range(0, 60, 2):
                task = asyncio.create_task(loop())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                assert server.keys() == []
                lease = await lock.acquire(timeout=10)
                assert lease
                await lease.release()

    asyncio.run(story())
    assert server.leases() == []
