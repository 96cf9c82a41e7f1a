"""Questions of tasks that are cancelled, or not answered in time."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import grpc.aio
import pytest

from holdfast.core.messages import (
    Acquire,
    Answer,
    Done,
    Extend,
    Failed,
    Granted,
    Held,
    Read,
    Release,
    Request,
)
from holdfast.core.ports import StoreHost
from holdfast.core.records import Versioned
from holdfast.drivers.common import clock
from holdfast.engines.etcd import _cluster, aio, conversation
from holdfast.engines.etcd.aio import AsyncEtcdStore
from tests.equipment.servers.etcd import EtcdServer

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("running", ["3.5"], indirect=True)]

PATIENCE = 60.0


@pytest.fixture
def freezing(server: EtcdServer) -> Iterator[EtcdServer]:
    yield server
    server.thaw()


def play(server: EtcdServer, story: Callable[[AsyncEtcdStore], Awaitable[None]]) -> None:
    """With a store that is connected already."""

    async def begin() -> None:
        around = StoreHost(clock, lambda holder: None, lambda event: None)
        store = AsyncEtcdStore(_cluster(urlsplit(server.url), {}), around)
        assert isinstance(await ask(store, Read("cell")), Versioned)
        await story(store)
        await store.close()

    asyncio.run(begin())


async def ask(store: AsyncEtcdStore, request: Request, request_timeout: float = PATIENCE) -> Answer:
    [answer] = await store.ask((request,), clock() + request_timeout)
    return answer


@asynccontextmanager
async def asking(store: AsyncEtcdStore, request: Request) -> AsyncIterator["asyncio.Task[Answer]"]:
    """A question whose first call is on its way."""
    task = asyncio.create_task(ask(store, request))
    await asyncio.sleep(0)  # it goes as far as it can
    assert store._limits._calls
    yield task
    await asyncio.wait([task])


def test_what_is_said_to_one_who_is_cancelled_is_noted(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place in the queue is not in doubt: those of the others can stay where they are."""
    monkeypatch.setattr(conversation, "GRACE", PATIENCE)

    async def story(store: AsyncEtcdStore) -> None:
        assert isinstance(await ask(store, Acquire("door", "ann", 30)), Granted)
        assert isinstance(await ask(store, Acquire("door", "ben", 30, queue=True)), Held)
        session = store._books.session
        async with asking(store, Acquire("door", "cleo", 30, queue=True)) as joining:
            joining.cancel()
        assert joining.cancelled()
        assert len(server.keys()) == 3
        await ask(store, Release("door", "cleo"))
        assert len(server.keys()) == 2
        assert store._books.session is session

    play(server, story)


def test_one_who_is_cancelled_says_nothing_more(
    server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "GRACE", PATIENCE)

    async def story(store: AsyncEtcdStore) -> None:
        async with asking(store, Acquire("door", "ann", 30)) as taking:
            taking.cancel()
        assert taking.cancelled()
        assert len(server.leases()) == 1
        assert server.keys() == []
        await ask(store, Release("door", "ann"))
        assert server.leases() == []

    play(server, story)


def test_what_was_left_behind_is_not_overtaken(
    freezing: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "GRACE", 0.01)

    async def story(store: AsyncEtcdStore) -> None:
        freezing.freeze()
        async with asking(store, Acquire("door", "ann", 30)) as taking:
            taking.cancel()
        assert taking.cancelled()
        async with asking(store, Release("door", "ann")) as giving_back:
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(store._limits._calls) == 1, "it is said before the other one is answered"
            freezing.thaw()
        giving_back.result()
        assert freezing.leases() == []
        assert isinstance(await ask(store, Acquire("door", "ann", 30)), Granted)
        assert isinstance(await ask(store, Release("door", "ann")), Done)

    play(freezing, story)


def test_a_server_that_does_not_answer_in_time(freezing: EtcdServer) -> None:
    async def story(store: AsyncEtcdStore) -> None:
        freezing.freeze()
        answer = await ask(store, Acquire("door", "ann", 30), request_timeout=0.05)
        assert isinstance(answer, Failed)
        assert "in time" in str(answer)
        freezing.thaw()
        assert isinstance(await ask(store, Acquire("door", "ann", 30)), Granted)
        assert isinstance(await ask(store, Release("door", "ann")), Done)

    play(freezing, story)
    assert freezing.keys() == []


def test_a_client_that_is_closed_while_it_asks(
    freezing: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not ask anybody else, for nobody would close that connection."""
    monkeypatch.setattr(aio, "FAREWELL", 0.05)

    async def story(store: AsyncEtcdStore) -> None:
        freezing.freeze()
        async with asking(store, Read("cell")) as reading:
            await store.close()
        assert reading.cancelled()
        assert store._lines.hang_up() == []

    play(freezing, story)


def test_a_renewal_that_fails_when_nobody_listens_any_more(
    freezing: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "GRACE", 0.01)
    complaints: list[object] = []

    async def story(store: AsyncEtcdStore) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
        granted = await ask(store, Acquire("door", "ann", 30))
        assert isinstance(granted, Granted)
        freezing.freeze()
        async with asking(store, Extend("door", "ann", 30, granted.fence)) as extending:
            extending.cancel()
        [over] = store._busy.values()
        freezing.kill()
        await asyncio.wait([over])

    play(freezing, story)
    gc.collect()
    assert complaints == []


def streams() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, grpc.aio.StreamStreamCall)]


@pytest.fixture
def rubbish_stays() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("rubbish_stays")
def test_a_renewal_that_fails_leaves_no_stream(freezing: EtcdServer) -> None:
    """No connection can be closed while its streams are kept, if only as rubbish."""

    async def story(store: AsyncEtcdStore) -> None:
        granted = await ask(store, Acquire("door", "ann", 30))
        assert isinstance(granted, Granted)
        freezing.kill()
        renewal = Extend("door", "ann", 30, granted.fence)
        assert isinstance(await ask(store, renewal, request_timeout=1.0), Failed)
        assert streams() == []

    play(freezing, story)


@pytest.mark.usefixtures("rubbish_stays")
def test_nor_does_one_that_was_left_behind(
    freezing: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "GRACE", 0.01)

    async def story(store: AsyncEtcdStore) -> None:
        granted = await ask(store, Acquire("door", "ann", 30))
        assert isinstance(granted, Granted)
        freezing.freeze()
        renewal = Extend("door", "ann", 30, granted.fence)
        extending = asyncio.create_task(ask(store, renewal, request_timeout=1.0))
        await asyncio.sleep(0)
        extending.cancel()
        await asyncio.wait([extending])
        del extending
        await asyncio.wait(list(store._busy.values()))
        assert streams() == []

    play(freezing, story)


def test_a_client_that_is_closed_while_it_gives_back_several(
    freezing: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not say that it has."""
    monkeypatch.setattr(aio, "FAREWELL", 0.05)

    async def story(store: AsyncEtcdStore) -> None:
        for each in ("ann", "ben"):
            assert isinstance(await ask(store, Acquire(each, each, 30)), Granted)
        freezing.freeze()
        both = [Release(each, each) for each in ("ann", "ben")]
        giving_back = asyncio.create_task(store.ask(both, clock() + PATIENCE))
        await asyncio.sleep(0)
        await store.close()
        await asyncio.wait([giving_back])
        assert giving_back.cancelled()

    play(freezing, story)
