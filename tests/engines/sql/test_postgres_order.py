"""A release does not overtake the acquire before it, whose answer nobody has waited for."""

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from urllib.parse import urlsplit

import pytest

from holdfast.core.messages import DONE, Acquire, Granted, Inspect, Listing, Release
from holdfast.core.ports import Engine, StoreHost
from holdfast.engines.sql.blocking import ServerStore
from holdfast.engines.sql.postgres import engine
from holdfast.lab.faults.proxy import Proxy
from holdfast.lab.servers.postgres import PostgresServer
from tests.patience import wait_for

FIRST, TAKE, GIVE = Acquire("job", "ann", 60.0), Acquire("job", "ben", 60.0), Release("job", "ben")
AROUND = StoreHost(time.monotonic, lambda holder: None, lambda event: None)
A_WHILE = 20.0


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres.port) as proxy:
        yield proxy


def through(proxy: Proxy) -> Engine:
    return engine(urlsplit(f"postgresql://holdfast@{proxy.address}/postgres"), {})


def soon() -> float:
    return time.monotonic() + A_WHILE


@contextmanager
def interrupted_once(proxy: Proxy) -> Iterator[None]:
    """Strikes the main thread when something is on its way. A signal that comes just before it goes
    to sleep does not wake it, so there are several; the first that is heard is the only one."""
    struck = threading.Event()

    def strike(number: int, frame: FrameType | None) -> None:
        if not struck.is_set():
            struck.set()
            raise KeyboardInterrupt

    def keep_striking() -> None:
        wait_for(lambda: proxy.waiting("requests"))
        while not struck.wait(0.02):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, strike)
    striker = threading.Thread(target=keep_striking)
    striker.start()
    try:
        yield
    finally:
        struck.set()
        striker.join()
        signal.signal(signal.SIGUSR1, before)


def test_after_an_interrupt(proxy: Proxy) -> None:
    store = through(proxy).connect(AROUND)
    assert isinstance(store, ServerStore)
    assert isinstance(store.ask([FIRST], soon())[0], Granted)  # connected, and all is there
    assert store.ask([Release("job", "ann")], soon()) == [DONE]
    [link] = store._all
    proxy.hold("requests")

    with interrupted_once(proxy), pytest.raises(KeyboardInterrupt):
        store.ask([TAKE], soon())
    with ThreadPoolExecutor(1) as others:
        releasing = others.submit(store.ask, [GIVE], soon())
        proxy.mark_released()
        assert releasing.result(A_WHILE) == [DONE], "there was something to give back"
    assert store.ask([Inspect("job")], soon()) == [Listing(())]
    assert store._all == {link}, "it went out behind it, on the same connection"
    store.close()


def test_after_a_cancellation(proxy: Proxy) -> None:
    async def main() -> None:
        store = through(proxy).connect_async(AROUND)
        assert isinstance((await store.ask([FIRST], soon()))[0], Granted)
        assert await store.ask([Release("job", "ann")], soon()) == [DONE]
        proxy.hold("requests")
        taking = asyncio.create_task(store.ask([TAKE], soon()))
        await asyncio.to_thread(wait_for, lambda: proxy.waiting("requests"))
        taking.cancel()
        await asyncio.wait([taking])
        assert taking.cancelled()
        releasing = asyncio.create_task(store.ask([GIVE], soon()))
        proxy.mark_released()
        assert await releasing == [DONE], "there was something to give back"
        assert await store.ask([Inspect("job")], soon()) == [Listing(())]
        assert proxy.connections == 1
        await store.close()

    asyncio.run(main())


def test_an_answer_that_never_comes_holds_nobody_up(proxy: Proxy) -> None:
    """The server has forgotten the connection of one who was cancelled."""

    async def main() -> None:
        store = through(proxy).connect_async(AROUND)
        assert isinstance((await store.ask([FIRST], soon()))[0], Granted)
        proxy.half_open()
        looking = asyncio.create_task(store.ask([Inspect("job")], soon()))
        await asyncio.sleep(0)  # it has asked
        looking.cancel()
        await asyncio.wait([looking])
        [found] = await store.ask([Inspect("job")], time.monotonic() + A_WHILE / 8)
        assert isinstance(found, Listing), found
        await store.close()

    asyncio.run(main())
