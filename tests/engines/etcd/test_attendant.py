"""Those who listen for waiters, and keep their places: they leave with the last of them, and with
their client."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from holdfast.engines.etcd.aio import AsyncEtcdStore
from holdfast.engines.etcd.blocking import EtcdStore
from tests.equipment.servers.etcd import EtcdServer
from tests.patience import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("running", ["3.5"], indirect=True)]


@pytest.fixture
def freezing(server: EtcdServer) -> Iterator[EtcdServer]:
    yield server
    server.thaw()


def attendants() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name in ("holdfast-etcd-watch", "holdfast-etcd-session")]


def test_they_leave_with_the_last_who_waits(server: EtcdServer) -> None:
    with holdfast.Client(server.url) as client:
        for _ in range(2):
            hand_over(client, server)
            wait_for(lambda: not attendants())
            wait_for(lambda: not server.leases())


def test_a_client_that_is_closed_while_they_take_their_leave(freezing: EtcdServer) -> None:
    """They are still telling a server that does not answer. They need their connection for that."""
    with holdfast.Client(freezing.url) as client:
        store = client._driver._store
        assert isinstance(store, EtcdStore)
        hand_over(client, freezing)
        freezing.freeze()
        wait_for(lambda: store._books.session is None)
    assert attendants() == []


def test_the_same_for_tasks(freezing: EtcdServer) -> None:
    async def story() -> None:
        async with holdfast.AsyncClient(freezing.url) as client:
            store = client._driver._store
            assert isinstance(store, AsyncEtcdStore)
            await hand_over_to_a_task(client, freezing)
            freezing.freeze()
            await asyncio.to_thread(wait_for, lambda: store._books.session is None)
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert names.isdisjoint({"holdfast-etcd-watch", "holdfast-etcd-session"})

    asyncio.run(story())


def test_a_client_that_is_abandoned_when_they_have_left(server: EtcdServer) -> None:
    async def story() -> None:
        async with holdfast.AsyncClient(server.url) as client:
            store = client._driver._store
            assert isinstance(store, AsyncEtcdStore)
            await hand_over_to_a_task(client, server)
            attendants = store._attendants
            await asyncio.to_thread(wait_for, lambda: not any(each.alive for each in attendants))
            store.abandon()

    asyncio.run(story())


def hand_over(client: holdfast.Client, server: EtcdServer) -> None:
    """Somebody waits, and gets the lock, and nobody has it any more."""

    def take_turn() -> None:
        with client.lock("door"):
            pass

    with ThreadPoolExecutor(1) as pool:
        with client.lock("door"):
            waiting = pool.submit(take_turn)
            wait_for(lambda: len(server.keys()) == 2 and len(attendants()) == 2)
        waiting.result()


async def hand_over_to_a_task(client: holdfast.AsyncClient, server: EtcdServer) -> None:
    async def take_turn() -> None:
        async with client.lock("door"):
            pass

    async with client.lock("door"):
        waiting = asyncio.create_task(take_turn())
        await asyncio.to_thread(wait_for, lambda: len(server.keys()) == 2)
    await waiting
