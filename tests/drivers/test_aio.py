"""What is particular to the asyncio driver: closing, cancellation, waiting, event loops."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import (
    AsyncClient,
    AsyncLease,
    AsyncLock,
    ClientClosed,
    EngineUnavailable,
    LockError,
    LockLost,
    NotHeld,
)
from holdfast.core.messages import Acquire, Extend, Release, Request
from holdfast.drivers.common import log
from tests.drivers.line import AsyncStop, Line, go_on
from tests.patience import wait_for as wait_in_thread


async def wait_for(condition: Callable[[], object]) -> None:
    """Look again and again until it holds; fail after ten seconds."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not happen")


async def is_free(client: AsyncClient) -> None:
    """Wait until the lock `job` is free."""
    for _ in range(2000):
        if await client.inspect("job") is None:
            return
        await asyncio.sleep(0.005)
    pytest.fail("it was not released")


async def has_waiters(client: AsyncClient, count: int) -> None:
    """Wait until so many wait for the lock `job`, which is held."""
    for _ in range(2000):
        info = await client.inspect("job")
        assert info is not None
        if info.waiters == count:
            return
        await asyncio.sleep(0.005)
    pytest.fail("the queue did not change")


class TestClosing:
    def test_a_grant_that_is_on_its_way_is_not_taken_and_released(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client, AsyncClient(line.url) as other:
                line.after = stop = AsyncStop(Acquire)
                taking = asyncio.create_task(client.lock("job").acquire())
                await stop.reached.wait()
                closing = asyncio.create_task(client.aclose())
                await wait_for(lambda: client.closed)
                stop.go_on.set()
                with pytest.raises(ClientClosed):
                    await taking
                await closing
                assert await other.inspect("job") is None

        asyncio.run(main())

    def test_a_waiter_that_pauses_because_the_engine_fails_is_sent_away(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client:
                line.down = True
                asked = asyncio.Event()
                line.before = lambda request: asked.set()
                waiting = asyncio.create_task(client.lock("job", timeout=60).acquire())
                await asked.wait()
                await client.aclose()
                with pytest.raises(ClientClosed):
                    await waiting

        asyncio.run(main())

    @pytest.mark.parametrize("cancelled", [False, True])
    def test_a_second_close_waits_for_the_first_even_if_that_was_cancelled(
        self, line: Line, cancelled: bool
    ) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client, AsyncClient(line.url) as other:
                lease = await client.lock("job").acquire()
                assert lease is not None
                line.before = stop = AsyncStop(Release)
                first = asyncio.create_task(client.aclose())
                await stop.reached.wait()
                if cancelled:
                    first.cancel()
                second = asyncio.create_task(client.aclose())
                for _ in range(9):
                    await asyncio.sleep(0)
                assert not second.done()
                stop.go_on.set()
                await second
                assert await other.inspect("job") is None
                assert line.closed == 1
                with suppress(asyncio.CancelledError):
                    await first
                assert lease.lost

        asyncio.run(main())


class TestCancellation:
    """A cancellation leaves a release behind that the renewer then delivers."""

    @pytest.mark.parametrize("contended", [False, True])
    @pytest.mark.parametrize("twice", [False, True])
    def test_at_every_await_of_an_acquire(self, line: Line, contended: bool, twice: bool) -> None:
        async def slow(request: Request) -> None:
            await asyncio.sleep(0)

        async def cancelled_after(steps: int) -> bool:
            async with AsyncClient(line.url) as client, AsyncClient(line.url) as other:
                held = await other.lock("job").acquire() if contended else None
                taking = asyncio.create_task(take(client.lock("job")))
                for step in range(steps):
                    await asyncio.sleep(0)
                    if held is not None and step == 15:
                        await held.release()
                for _ in range(1 + twice):
                    taking.cancel()
                    await asyncio.sleep(0)
                if held is not None and held.held:
                    await has_waiters(other, 0)
                    await held.release()
                with suppress(asyncio.CancelledError):
                    await taking
                await is_free(other)
                return taking.cancelled()

        async def take(lock: AsyncLock) -> None:
            lease = await lock.acquire()
            assert lease is not None
            taken.set()
            await lease.release()

        line.before = line.after = slow
        steps = 0
        taken = asyncio.Event()
        while asyncio.run(cancelled_after(steps)):
            steps += 1
        assert steps > 3
        assert taken.is_set()

    def test_the_release_is_delivered_before_the_cancelled_task_ends(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client:
                line.after = stop = AsyncStop(Acquire)
                taking = asyncio.create_task(client.lock("job").acquire())
                await stop.reached.wait()
                taking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await taking
                assert len(line.asked(Release)) == 1

        asyncio.run(main())

    def test_of_a_release_while_the_engine_does_not_answer(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client, AsyncClient(line.url) as other:
                lease = await client.lock("job").acquire()
                assert lease is not None
                line.before = stop = AsyncStop(Release)
                releasing = asyncio.create_task(lease.release())
                await stop.reached.wait()
                for _ in range(2):  # the second ends the wait for the delivery
                    releasing.cancel()
                    await asyncio.sleep(0)
                with pytest.raises(asyncio.CancelledError):
                    await releasing
                assert not lease.held
                stop.go_on.set()
                await is_free(other)

        asyncio.run(main())


class TestAnUndeliveredRelease:
    @pytest.mark.parametrize("renew", [True, False])
    def test_it_is_delivered_when_the_engine_answers_again(self, line: Line, renew: bool) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client, AsyncClient(line.url) as other:
                lease = await client.lock("job", renew=renew).acquire()
                assert lease is not None
                line.down = True
                with pytest.raises(EngineUnavailable, match="retrying in the background"):
                    await lease.release()
                line.down = False
                await is_free(other)
                assert not lease.lost

        asyncio.run(main())

    def test_a_second_release_is_refused(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client, AsyncClient(line.url) as other:
                lease = await client.lock("job").acquire()
                assert lease is not None
                line.down = True
                for error in (EngineUnavailable, NotHeld):
                    with pytest.raises(error):
                        await lease.release()
                line.down = False
                async with other.lock("job"):  # it is free again
                    pass

        asyncio.run(main())


@pytest.mark.parametrize("elsewhere", [False, True], ids=["from the loop", "from a thread"])
def test_a_wake_up_that_comes_before_the_wait_is_not_lost(line: Line, elsewhere: bool) -> None:
    """The lock is released between the answer that it is held, and the wait for it."""

    async def main() -> None:
        async with AsyncClient(line.url) as client, AsyncClient(line.url) as other:
            held = await other.lock("job", ttl=600).acquire()
            assert held is not None

            async def release(request: Request) -> None:
                if isinstance(request, Acquire) and request.queue:
                    line.after = go_on
                    if elsewhere:
                        await asyncio.to_thread(lambda: asyncio.run(broken()))
                    else:
                        await held.release()

            line.after = release
            async with asyncio.timeout(60), client.lock("job"):
                pass

    async def broken() -> None:
        async with AsyncClient(line.url) as operator:
            assert await operator.break_lock("job")

    asyncio.run(main())


class TestEventLoops:
    def test_a_client_belongs_to_one_loop(self, line: Line) -> None:
        client = AsyncClient(line.url)

        async def use() -> None:
            async with client.lock("job"):
                pass

        with asyncio.Runner() as first:
            first.run(use())
            with pytest.raises(LockError, match="another event loop"):
                asyncio.run(use())
            first.run(client.aclose())

    @pytest.mark.parametrize("waiting", [False, True], ids=["a lease", "a waiter"])
    def test_one_that_ends_with_a_client_open_gets_no_new_task(
        self, line: Line, waiting: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> None:
            if waiting:
                kept.append(await other.lock("job").acquire())
            kept.append(asyncio.create_task(client.lock("job").acquire()))
            if waiting:
                await has_waiters(other, 1)
            else:
                await wait_for(kept[0].done)  # type: ignore[attr-defined]

        kept: list[object] = []
        client, other = AsyncClient(line.url), AsyncClient(line.url)
        asyncio.run(main())
        asyncio.run(client.aclose())
        asyncio.run(other.aclose())
        gc.collect()
        assert "destroyed" not in caplog.text

    def test_one_that_dies_with_a_waiter_inside_raises_nothing(self, tmp_path: Path) -> None:
        """A task that is destroyed while it waits cannot clean up; it must not fail either."""

        async def main() -> None:
            client, other = (AsyncClient(f"sqlite://{tmp_path}/locks.db") for _ in range(2))
            held = await other.lock("job").acquire()
            waiting = asyncio.create_task(client.lock("job").acquire())
            await has_waiters(client, 1)
            assert held is not None
            assert not waiting.done()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(lambda loop, context: None)  # "Task was destroyed"
            loop.run_until_complete(main())
            loop.close()
            gc.collect()

    def test_a_waiter_of_one_that_has_ended_hurts_no_other_client(
        self, line: Line, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def wait() -> tuple[AsyncClient, object]:
            client = AsyncClient(line.url)
            waiting = asyncio.create_task(client.lock("job").acquire())
            async with AsyncClient(line.url) as other:
                await has_waiters(other, 1)
            return client, waiting

        async def release() -> None:
            assert held is not None
            await held.release()

        loop = asyncio.new_event_loop()
        with asyncio.Runner() as first, warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            holder = AsyncClient(line.url)
            held = first.run(holder.lock("job").acquire())
            loop.set_exception_handler(lambda loop, context: None)  # "Task was destroyed"
            kept = loop.run_until_complete(wait())
            loop.close()  # without an end for the task
            first.run(release())
            first.run(holder.aclose())
            log.wait(30)
            assert caplog.text == ""
            assert kept is not None

    def test_one_that_ends_just_as_another_thread_notifies_raises_nothing_there(
        self, line: Line, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = AsyncClient(line.url)

        async def main() -> asyncio.AbstractEventLoop:
            await client.inspect("job")
            return asyncio.get_running_loop()

        loop = asyncio.run(main())
        monkeypatch.setattr(loop, "is_closed", lambda: False)  # as it was an instant before
        with ThreadPoolExecutor() as pool:
            pool.submit(client._driver._notify, "waiter").result()
        monkeypatch.undo()
        asyncio.run(client.aclose())


class TestADroppedLease:
    @pytest.mark.parametrize("renewing", [False, True])
    def test_it_is_not_renewed_any_more(self, line: Line, renewing: bool) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client:
                stop = AsyncStop(Extend)
                if renewing:
                    line.before = stop
                lease = await client.lock("job", ttl=3.0).acquire()
                assert lease is not None
                if renewing:
                    await stop.reached.wait()
                with pytest.warns(ResourceWarning):
                    del lease  # the last reference
                stop.go_on.set()
                await is_free(client)

        asyncio.run(main())


class TestCancelOnLoss:
    def test_a_body_that_never_waits_again_still_learns_of_it(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client:
                lock = client.lock("job", ttl=0.05, timeout=60, renew=False, cancel_on_loss=True)
                with pytest.raises(LockLost):  # noqa: PT012 - leaving the block is what raises
                    async with lock as lease:
                        while not lease.lost:  # blocks the loop past the end of the lease
                            threading.Event().wait(0.01)
                await asyncio.sleep(0)  # no cancellation is left over for what comes after
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0

        asyncio.run(main())

    def test_a_loss_that_another_thread_sees_first(self, line: Line) -> None:
        """The fault: that thread reported it, and could not cancel the body."""

        def see(lease: AsyncLease) -> None:
            wait_in_thread(lambda: lease.lost)
            lease.on_lost(lambda lease: None)

        async def main() -> None:
            async with AsyncClient(line.url) as client:
                lock = client.lock("job", ttl=0.05, timeout=60, renew=False, cancel_on_loss=True)
                with pytest.raises(LockLost):  # noqa: PT012 - leaving the block is what raises
                    async with asyncio.timeout(60), lock as lease:
                        thread = threading.Thread(target=see, args=(lease,))
                        thread.start()
                        thread.join()  # which blocks the loop
                        await asyncio.Event().wait()

        asyncio.run(main())

    def test_nothing_is_left_of_inner_blocks(self, line: Line) -> None:
        """The fault: of each, what cancels its body was kept as long as the lease."""

        async def main() -> None:
            async with AsyncClient(line.url) as client:
                lock = client.lock("job", reentrant=True, cancel_on_loss=True)
                async with lock:
                    for _ in range(100):
                        async with lock:
                            pass
                    gc.collect()
                    terms = [each for each in gc.get_objects() if type(each) is asyncio.Timeout]
                    assert len(terms) < 10

        asyncio.run(main())

    def test_another_cancellation_goes_first(self, line: Line) -> None:
        async def work(client: AsyncClient) -> None:
            async with client.lock(
                "job", ttl=0.05, timeout=60, renew=False, cancel_on_loss=True
            ) as lease:
                try:
                    await asyncio.sleep(60)
                finally:
                    assert lease.lost
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()  # as if another task had cancelled it too

        async def main() -> None:
            async with AsyncClient(line.url) as client:
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.create_task(work(client))

        asyncio.run(main())

    @pytest.mark.parametrize("ending", [ValueError("mine"), None], ids=["fails", "ends"])
    def test_another_cancellation_that_comes_as_the_lost_block_is_left_is_obeyed(
        self, line: Line, ending: Exception | None
    ) -> None:
        async def work(client: AsyncClient) -> None:
            with suppress(ValueError, LockLost):
                async with client.lock(
                    "job", ttl=0.05, timeout=60, renew=False, cancel_on_loss=True
                ):
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
            async with AsyncClient(line.url) as client:
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.wait_for(asyncio.create_task(work(client)), 30)

        asyncio.run(main())

    def test_within_a_timeout(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client:
                with pytest.raises(TimeoutError):  # noqa: PT012 - leaving the block is what raises
                    async with asyncio.timeout(0.05):
                        async with client.lock("job", ttl=30, cancel_on_loss=True):
                            await asyncio.sleep(60)
                assert await client.inspect("job") is None

        asyncio.run(main())


def test_the_work_of_a_leader_is_cancelled_at_once_when_its_lease_is_lost() -> None:
    terms: list[int] = []

    async def main() -> None:
        async with AsyncClient("memory://lost-leader") as client:

            async def work(lease: AsyncLease) -> None:
                terms.append(lease.fence)
                if len(terms) == 1:
                    await client.break_lock("boss")
                    with suppress(LockLost):
                        await lease.extend()
                    await asyncio.Event().wait()

            async with asyncio.timeout(60):
                await client.election("boss", ttl=3600).run(work)

    asyncio.run(main())
    assert len(terms) == 2
