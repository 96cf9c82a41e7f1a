"""The client's two loops at their worst moments, and the callbacks that tell of a loss."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from holdfast import AsyncClient, Client, Lease, LockLost
from holdfast.core.holding import mark_lost
from holdfast.core.messages import Acquire, Extend, Release, Request
from holdfast.drivers.common import call_back, clock, log
from holdfast.drivers.threads import MOST_CALLBACKS
from tests.drivers.line import AsyncStop, Line, Raise, Stop
from tests.drivers.test_aio import wait_for as wait_for_async
from tests.patience import wait_for


@pytest.fixture
def client(line: Line) -> Iterator[Client]:
    with Client(line.url) as made:
        yield made


def later(go_on: threading.Event) -> Callable[..., None]:
    """Calls back, but not before that."""

    def wait(*arguments: Any) -> None:
        go_on.wait(60)
        call_back(*arguments)

    return wait


def take(client: Client, name: str = "job", ttl: float = 0.3, *, renew: bool = True) -> Lease:
    lease = client.lock(name, ttl=ttl, renew=renew).acquire(timeout=60)  # a grant may come too late
    assert lease is not None
    return lease


class TestThreads:
    def test_a_loss_is_told_while_the_renewer_waits_for_the_engine(
        self, line: Line, client: Client
    ) -> None:
        line.before = stop = Stop(Extend)
        told: list[str] = []
        leases = [take(client, "renewed"), take(client, "not renewed", renew=False)]
        for lease in leases:
            lease.on_lost(lambda lost: told.append(lost.name))
        assert stop.reached.wait(60)
        wait_for(lambda: sorted(told) == ["not renewed", "renewed"])
        stop.go_on.set()
        client.close()
        assert len(told) == 2
        assert all(lease.lost for lease in leases)

    def test_a_renewer_that_fails_starts_again(
        self, line: Line, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        lease = take(client, ttl=3.0)
        line.before = failure = Raise(Extend, ZeroDivisionError())
        wait_for(lambda: line.asked(Extend))
        assert failure.raised
        assert lease.held
        log.wait(30)
        assert "ZeroDivisionError" in caplog.text
        lease.release()

    def test_a_watcher_that_fails_starts_again_and_forgets_no_deadline(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failures = iter([ZeroDivisionError()])

        def fail_once(*args: object) -> None:
            for failure in failures:
                raise failure
            mark_lost(*args)  # type: ignore[arg-type]

        monkeypatch.setattr("holdfast.core.renewal.mark_lost", fail_once)
        kept = take(client, "kept")  # so that the renewer runs already
        told: list[str] = []
        leases = [take(client, name, ttl=0.05, renew=False) for name in "ab"]
        for lease in leases:
            lease.on_lost(lambda lost: told.append(lost.name))
        wait_for(lambda: sorted(told) == ["a", "b"])
        kept.release()

    def test_what_was_seen_as_lost_is_not_held_again_by_a_renewal_in_the_making(
        self, line: Line, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The renewer has found that the end still lies ahead, and has yet to move it on."""
        lease = take(client, ttl=3.0)
        state, runtime = lease._state, client._driver.runtime
        drift = runtime.drift
        over, seen = threading.Event(), threading.Event()

        def drift_slowly(ttl: float) -> float:
            if line.asked(Extend) and not over.is_set():
                state.valid_until = runtime.clock()
                over.set()
                seen.wait(0.3)  # in vain, if the look waits for the renewal
            return drift(ttl)

        monkeypatch.setattr(runtime, "drift", drift_slowly)
        assert over.wait(60)
        was_lost, remaining, was_held = lease.lost, lease.remaining(), lease.held
        seen.set()
        assert (was_lost, remaining > 0, was_held) == (False, True, True)
        assert lease.held
        lease.release()

    def test_there_are_two_for_any_number_of_leases(self, client: Client) -> None:
        before = set(threading.enumerate())
        leases = [take(client, f"job{number}", ttl=30.0) for number in range(100)]
        assert len(set(threading.enumerate()) - before) == 2
        for lease in leases:
            lease.release()

    def test_one_that_cannot_start_is_started_by_the_next_lease(
        self, line: Line, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError):
                client.lock("job", ttl=1.5).acquire()
        lease = take(client, "other")
        wait_for(lambda: line.asked(Extend))
        wait_for(lambda: line.asked(Release))  # of what had been granted
        lease.release()

    def test_one_whose_start_was_interrupted_makes_room_for_the_next(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A Ctrl-C came before the new thread ran, so another was started in its place."""
        start, late = threading.Thread.start, list[threading.Thread]()

        def is_interrupted(thread: threading.Thread) -> None:
            late.append(thread)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", is_interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.lock("job").acquire()
        lease = take(client, "other", ttl=30.0)
        assert late
        for each in late:
            start(each)
            wait_for(lambda each=each: not each.is_alive())  # type: ignore[misc]
        assert lease.held
        lease.release()

    def test_they_have_nothing_of_the_context_of_the_caller(
        self, line: Line, client: Client
    ) -> None:
        user: ContextVar[str] = ContextVar("user", default="none")
        seen: list[str] = []

        def look(request: Request) -> None:
            if isinstance(request, Extend):
                seen.append(user.get())

        line.before = look
        user.set("me")
        with client.lock("job", ttl=0.3):
            wait_for(lambda: seen)
        assert set(seen) == {"none"}


class TestTasks:
    def test_a_loss_is_told_while_the_renewer_waits_for_the_engine(self, line: Line) -> None:
        async def main() -> None:
            line.before = stop = AsyncStop(Extend)
            told: list[str] = []
            async with AsyncClient(line.url) as client:
                kept = []
                for name, renew in (("renewed", True), ("not renewed", False)):
                    lease = await client.lock(name, ttl=0.3, renew=renew).acquire()
                    assert lease is not None
                    lease.on_lost(lambda lost: told.append(lost.name))
                    kept.append(lease)
                await stop.reached.wait()
                await wait_for_async(lambda: sorted(told) == ["not renewed", "renewed"])
                stop.go_on.set()
            assert len(told) == 2

        asyncio.run(main())

    def test_a_renewer_that_fails_starts_again(
        self, line: Line, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client, client.lock("job", ttl=3.0) as lease:
                line.before = failure = Raise(Extend, ZeroDivisionError())
                await wait_for_async(lambda: line.asked(Extend))
                assert failure.raised
                assert lease.held

        asyncio.run(main())
        log.wait(30)
        assert "ZeroDivisionError" in caplog.text

    @pytest.mark.parametrize("idle", [False, True], ids=["in use", "idle"])
    def test_they_start_again_when_they_were_cancelled(self, line: Line, idle: bool) -> None:
        """By themselves as long as there is a lease, else with the next one."""

        async def cancel_them() -> None:
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

        async def main() -> None:
            async with AsyncClient(line.url) as client:
                async with client.lock("first"):
                    if idle:
                        await asyncio.sleep(0)
                if idle:
                    await cancel_them()
                renewed = await client.lock("renewed", ttl=0.6).acquire()
                short = await client.lock("short", ttl=0.3, renew=False).acquire()
                assert renewed is not None
                assert short is not None
                told: list[object] = []
                short.on_lost(told.append)
                if not idle:
                    await cancel_them()
                await wait_for_async(lambda: line.asked(Extend))
                await wait_for_async(lambda: told == [short])
                assert renewed.held

        asyncio.run(main())

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
    def test_they_are_not_started_in_the_middle_of_a_change(self, line: Line) -> None:
        """As eager tasks are. The fault: a renewal that was due at once, and failed at once, woke
        the renewer that was just being started, so there were two."""

        async def main() -> None:
            eager = asyncio.eager_task_factory  # type: ignore[attr-defined,unused-ignore]
            asyncio.get_running_loop().set_task_factory(eager)
            async with AsyncClient(line.url) as client:
                runtime = client._driver.runtime

                def come_late(request: Request) -> None:
                    if isinstance(request, Acquire):
                        line.down = True
                        runtime.clock = lambda: clock() + 11.0  # more than a third of the ttl

                line.after = come_late
                lease = await client.lock("job", ttl=30.0).acquire()
                assert lease is not None
                names = [each.get_name() for each in asyncio.all_tasks()]
                assert names.count("holdfast-renewer") == 1
                line.down = False

        asyncio.run(main())

    def test_a_lease_that_is_granted_just_as_the_watcher_ends_is_watched(self, line: Line) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client:
                lock = client.lock("job", ttl=0.3, renew=False)
                async with lock:
                    pass
                [watcher] = (
                    each for each in asyncio.all_tasks() if each.get_name() == "holdfast-watcher"
                )
                while not watcher.done():  # noqa: ASYNC110 - the turn in which it ends
                    await asyncio.sleep(0)
                lease = await lock.acquire()  # before the event loop tells that it is done
                assert lease is not None
                told: list[str] = []
                lease.on_lost(lambda lost: told.append(lost.name))
                await wait_for_async(lambda: told)

        asyncio.run(main())

    def test_they_have_nothing_of_the_context_of_the_caller(self, line: Line) -> None:
        user: ContextVar[str] = ContextVar("user", default="none")
        seen: list[str] = []

        def look(request: Request) -> None:
            if isinstance(request, Extend):
                seen.append(user.get())

        async def main() -> None:
            line.before = look
            user.set("me")
            async with AsyncClient(line.url) as client, client.lock("job", ttl=0.3):
                await wait_for_async(lambda: seen)

        asyncio.run(main())
        assert set(seen) == {"none"}


class TestCallbacks:
    @pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
    def test_one_that_raises_hurts_nothing_else(
        self,
        line: Line,
        client: Client,
        error: type[BaseException],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail(lost: Lease) -> None:
            raise error

        kept = take(client, "kept")
        told: list[str] = []
        leases = [take(client, name, ttl=0.05, renew=False) for name in "ab"]
        for lease in leases:
            lease.on_lost(fail)
            lease.on_lost(lambda lost: told.append(lost.name))
        wait_for(lambda: sorted(told) == ["a", "b"])
        wait_for(lambda: line.asked(Extend))
        assert kept.held
        log.wait(30)
        assert error.__name__ in caplog.text
        kept.release()

    def test_one_that_blocks_holds_up_neither_renewals_nor_other_losses(
        self, line: Line, client: Client
    ) -> None:
        go_on = threading.Event()
        told: list[str] = []
        kept = take(client, "kept")
        blocking = take(client, "blocking", ttl=0.05, renew=False)
        blocking.on_lost(lambda lost: go_on.wait(60))
        wait_for(lambda: blocking.lost)
        other = take(client, "other", ttl=0.05, renew=False)
        other.on_lost(lambda lost: told.append(lost.name))
        wait_for(lambda: told == ["other"])
        before = len(line.asked(Extend))
        wait_for(lambda: len(line.asked(Extend)) > before)
        go_on.set()
        kept.release()

    @pytest.mark.parametrize("renew", [False, True])
    def test_each_is_called_once_also_if_the_client_is_closed_at_that_moment(
        self, line: Line, renew: bool
    ) -> None:
        for _ in range(30):
            told: list[object] = []
            client = Client(line.url)
            lease = take(client, ttl=0.01, renew=False) if not renew else take(client)
            lease.on_lost(told.append)
            if not renew:
                wait_for(lambda lease=lease: lease.lost)  # type: ignore[misc]
                with pytest.raises(LockLost):
                    lease.release()
            client.close()
            assert told == [lease]
            assert lease.lost

    def test_one_for_a_lost_lease_is_called_at_once_and_isolated_too(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        lease = take(client, ttl=0.01, renew=False)
        wait_for(lambda: lease.lost)
        told: list[object] = []
        lease.on_lost(told.append)
        lease.on_lost(lambda lost: sys.exit(3))
        assert told == [lease]
        log.wait(30)
        assert "SystemExit" in caplog.text

    def test_one_for_a_lost_lease_that_is_let_go_of_at_once_is_called(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As by a function that ends with `LockLost`, before the thread of its callbacks begins."""
        let_go, told = threading.Event(), threading.Event()
        monkeypatch.setattr("holdfast.drivers.threads.call_back", later(let_go))

        lease = take(client, ttl=0.05, renew=False)
        lease.on_lost(lambda lost: told.set())
        wait_for(partial(getattr, lease, "lost"))
        with pytest.raises(LockLost):
            lease.ensure_held()
        with pytest.raises(LockLost):
            lease.release()
        del lease  # the last reference
        let_go.set()
        assert told.wait(30)

    def test_one_for_a_lease_that_was_dropped_is_not_called(self, client: Client) -> None:
        told: list[object] = []
        lease = take(client, ttl=0.05, renew=False)
        lease.on_lost(told.append)
        with pytest.warns(ResourceWarning):
            del lease  # the last reference
        wait_for(lambda: client.inspect("job") is None)
        client.close()
        assert told == []

    def test_those_of_many_leases_that_are_lost_together_have_few_threads(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that blocks holds up no other, nor do some."""
        go_on, told, started = threading.Event(), list[str](), list[str]()
        start = threading.Thread.start

        def count(thread: threading.Thread) -> None:
            started.append(thread.name)
            start(thread)

        def note(lost: Lease) -> None:
            told.append(lost.name)
            if lost.name in ("0", "1", "2"):
                go_on.wait(60)

        leases = [take(client, str(number), renew=False) for number in range(5 * MOST_CALLBACKS)]
        for lease in leases:
            lease.on_lost(note)
        closing = threading.Thread(target=client.close)
        monkeypatch.setattr(threading.Thread, "start", count)
        closing.start()
        wait_for(lambda: len(told) == len(leases))
        go_on.set()
        closing.join()
        assert sorted(told) == sorted(lease.name for lease in leases)
        assert started.count("holdfast-callbacks") <= MOST_CALLBACKS

    def test_without_a_thread_to_be_had_they_are_called_all_the_same(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if thread.name == "holdfast-callbacks":
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)
        told: list[object] = []
        lease = take(client, ttl=0.05, renew=False)
        lease.on_lost(told.append)
        wait_for(lambda: told == [lease])
