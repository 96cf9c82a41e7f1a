"""What is particular to the asyncio driver."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import AsyncClient, AsyncLease, LockError, LockLost
from holdfast.core.messages import Answer, HandedOver, Request
from holdfast.core.ports import AsyncStore


async def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not happen")


async def queued(client: AsyncClient) -> str:
    """The ticket of the one who waits for the lock `job`, when it has its place in the queue."""
    for _ in range(2000):
        await asyncio.sleep(0.001)
        info = await client.inspect("job")
        if info is not None and info.waiters == 1:
            [waiter_id] = client._driver._tickets
            return waiter_id
    pytest.fail("nobody has queued up")


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name = f"aio-{request.node.name}".replace("[", "-").strip("]")
    return f"memory://{name}" if request.param == "memory" else f"sqlite://{tmp_path}/locks.db"


class SlowStore:
    """Asks nothing of the engine before it is told to."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self.asked, self.goes_on = asyncio.Event(), asyncio.Event()
        self.close, self.abandon, self.forget = store.close, store.abandon, store.forget

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        self.asked.set()
        await self.goes_on.wait()
        return await self._store.ask(requests, until)


async def holding(url: str) -> tuple[AsyncClient, AsyncLease]:
    """A client that holds the lock `job`."""
    client = AsyncClient(url)
    lease = await client.lock("job").acquire()
    assert lease is not None
    return client, lease


async def closing(url: str) -> tuple[AsyncClient, AsyncLease, SlowStore, asyncio.Task[None]]:
    """One that is being closed, and comes to its end when its store is told to go on."""
    client, lease = await holding(url)
    slow = client._driver._store = SlowStore(client._driver._store)
    first = asyncio.create_task(client.aclose())
    await slow.asked.wait()
    return client, lease, slow, first


def test_a_cancelled_renewer_starts_again(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client, client.lock("job", ttl=3.0) as lease:
            await wait_for(lambda: client._driver._renewer)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            before = lease._tenure.valid_until
            await wait_for(lambda: lease._tenure.valid_until > before)

    asyncio.run(main())


def test_a_client_belongs_to_one_loop(url: str) -> None:
    client = AsyncClient(url)

    async def use() -> None:
        async with client.lock("job"):
            pass

    with asyncio.Runner() as first:
        first.run(use())
        with pytest.raises(LockError, match="another event loop"):
            asyncio.run(use())
        first.run(client.aclose())


def test_whoever_waits_is_sent_away_when_the_client_closes(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as other, other.lock("job"):
            client = AsyncClient(url)
            waiting = asyncio.create_task(client.lock("job").acquire())
            await wait_for(lambda: len(client._driver._tickets) == 1)
            while (info := await other.inspect("job")) is None or info.waiters != 1:
                continue
            await client.aclose()
            with pytest.raises(LockError, match="closed"):
                await waiting
            info = await other.inspect("job")
            assert info is not None
            assert info.waiters == 0

    asyncio.run(main())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_waiter_has_what_is_handed_over_to_it(url: str, elsewhere: bool) -> None:
    async def main() -> None:
        async with AsyncClient(url) as other, other.lock("job"), AsyncClient(url) as client:
            waiting = asyncio.create_task(client.lock("job").acquire())
            driver = client._driver
            waiter_id = await queued(client)
            word = HandedOver(99, 1)  # the second request had it wait
            if elsewhere:
                await asyncio.to_thread(driver._notify, waiter_id, word)
            else:
                driver._notify(waiter_id, word)
                driver._notify(waiter_id)  # several rings are one, and no word is lost
            lease = await waiting
            assert lease
            assert lease.fence == 99
            assert not driver._handed_over
            driver._notify(waiter_id, word)
            assert not driver._handed_over  # nobody waits for it any more

    asyncio.run(main())


def test_what_is_handed_over_to_one_who_is_just_cancelled_is_forgotten(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as other, other.lock("job"), AsyncClient(url) as client:
            waiting = asyncio.create_task(client.lock("job").acquire())
            waiter_id = await queued(client)
            waiting.cancel()
            client._driver._notify(waiter_id, HandedOver(99, 1))
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not client._driver._handed_over
            info = await client.inspect("job")
            assert info is not None
            assert info.waiters == 0

    asyncio.run(main())


def test_closing_waits_for_what_is_under_way_and_gives_it_back(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Else whoever is just being granted a lock would hold it through a client that is no more."""

    async def main() -> None:
        async with AsyncClient(url) as other:
            client = AsyncClient(url)
            slow = client._driver._store = SlowStore(client._driver._store)
            taking = asyncio.create_task(client.lock("job").acquire())
            await slow.asked.wait()
            closing = asyncio.create_task(client.aclose())
            try:
                for _ in range(9):
                    await asyncio.sleep(0)
                assert not closing.done()
            finally:
                slow.goes_on.set()
            await closing
            assert "still under way" not in caplog.text, "it goes on as soon as that is over"
            lease = await taking
            assert lease is not None
            assert not lease.held
            assert await other.inspect("job") is None

    asyncio.run(main())


def test_a_cancelled_close_still_closes(url: str) -> None:
    async def main() -> None:
        client, _lease = await holding(url)
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        async with AsyncClient(url) as other:
            assert await other.inspect("job") is None
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    ours = [t.name for t in threading.enumerate() if t.name.startswith("holdfast")]
    assert not [name for name in ours if "launcher" not in name]


def test_whoever_closes_second_waits_until_it_is_closed(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as other:
            client, lease, slow, first = await closing(url)
            second = asyncio.create_task(client.aclose())
            for _ in range(9):
                await asyncio.sleep(0)
            assert not second.done()
            slow.goes_on.set()
            await second
            assert await other.inspect("job") is None
            await first
            assert not lease.held

    asyncio.run(main())


def test_a_close_that_somebody_has_cancelled_is_done_by_the_next(url: str) -> None:
    async def main() -> None:
        client, lease, slow, first = await closing(url)
        assert client._driver._end is not None
        client._driver._end.cancel()
        slow.goes_on.set()
        await asyncio.wait([first])
        await client.aclose()
        await client.aclose()
        assert client._driver._end.done()
        assert not client._driver._end.cancelled()
        assert not lease.held

    asyncio.run(main())


@pytest.mark.parametrize("ending", [ValueError("mine"), None], ids=["fails", "ends"])
def test_somebody_elses_cancellation_that_comes_as_a_lost_block_is_left_is_obeyed(
    url: str, ending: Exception | None
) -> None:
    async def work(client: AsyncClient, inside: asyncio.Event) -> None:
        with suppress(ValueError, LockLost):
            async with client.lock("job", cancel_on_loss=True):
                inside.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    assert task is not None
                    asyncio.get_running_loop().call_soon(task.cancel)
                    if ending is not None:
                        raise ending from None
        await asyncio.sleep(60)

    async def main() -> None:
        async with AsyncClient(url) as client:
            inside = asyncio.Event()
            working = asyncio.create_task(work(client, inside))
            await inside.wait()
            assert await client.break_lock("job")
            client._driver._lose([t.holder for t in client._driver.runtime.schedule.held()])
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(working, 30)
            assert await client.inspect("job") is None

    asyncio.run(main())


def test_a_loop_that_dies_with_a_waiter_inside_says_nothing_odd(url: str) -> None:
    """A task that is destroyed while it waits cannot clean up; it must not fail either."""

    async def main() -> None:
        client = AsyncClient(url)
        await client.lock("job").acquire()
        waiting = asyncio.create_task(client.lock("job").acquire())
        await asyncio.sleep(0.05)
        assert not waiting.done()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)  # "Task was destroyed"
        loop.run_until_complete(main())
        loop.close()
        gc.collect()


class TestCancelOnLoss:
    def test_a_body_that_never_waits_again_still_learns_of_it(self, url: str) -> None:
        async def main() -> None:
            async with AsyncClient(url) as client:
                lock = client.lock("job", ttl=0.5, renew=False, cancel_on_loss=True)
                with pytest.raises(LockLost):  # noqa: PT012 - leaving the block is what raises
                    async with lock as lease:
                        threading.Event().wait(0.6)  # blocks the loop past the end of the lease
                        assert lease.lost
                await asyncio.sleep(0)  # no cancellation is left over for whoever comes after
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0

        asyncio.run(main())

    def test_another_cancellation_goes_first(self, url: str) -> None:
        async def main() -> None:
            async with AsyncClient(url) as client:

                async def work() -> None:
                    lock = client.lock("job", ttl=0.5, renew=False, cancel_on_loss=True)
                    async with lock as lease:
                        try:
                            await asyncio.sleep(60)
                        finally:
                            assert lease.lost
                            task = asyncio.current_task()
                            assert task is not None
                            task.cancel()  # as if somebody else had cancelled it too

                with pytest.raises(asyncio.CancelledError):
                    await asyncio.create_task(work())

        asyncio.run(main())

    def test_within_a_timeout(self, url: str) -> None:
        async def main() -> None:
            async with AsyncClient(url) as client:
                with pytest.raises(TimeoutError):  # noqa: PT012 - leaving the block is what raises
                    async with asyncio.timeout(0.05):
                        async with client.lock("job", ttl=30, cancel_on_loss=True):
                            await asyncio.sleep(60)
                assert await client.inspect("job") is None

        asyncio.run(main())
