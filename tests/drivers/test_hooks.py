"""Hooks: they see all that happens to a lock, and can neither break nor block one."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from holdfast import AsyncClient, Client, LockLost
from holdfast.drivers import hooks as hooks_module
from holdfast.drivers.common import log
from holdfast.events import (
    Acquired,
    Answered,
    Broken,
    Event,
    EventsDropped,
    InternalError,
    LockEvent,
    Lost,
    NotAcquired,
    PollingOnly,
    Released,
    Renewed,
    Requested,
    Waiting,
)
from holdfast.virtual_time import VirtualTime
from tests.children import in_child
from tests.drivers.test_aio import wait_for as wait_for_async

URL = "memory://hooks"


class Seen:
    """A hook that keeps what it is called with."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        """Of the events of locks."""
        return [type(event).__name__ for event in self.events if isinstance(event, LockEvent)]

    def one(self, kind: type[Any]) -> Any:
        """The only one of its kind."""
        [event] = [event for event in self.events if type(event) is kind]
        return event


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def client(seen: Seen) -> Iterator[Client]:
    with Client(URL, hooks=[seen]) as made:
        yield made


def settle(client: Client) -> None:
    client._driver.hooks.wait(30)


class TestTheStoryOfALock:
    def test_a_lock_that_is_free(self, client: Client, seen: Seen) -> None:
        with client.lock("job") as lease:
            fence = lease.fence
        settle(client)
        assert seen.kinds() == ["Requested", "Acquired", "Released"]
        acquired = seen.one(Acquired)
        assert (acquired.name, acquired.fence, acquired.shares) == ("job", fence, 1)
        assert seen.one(Released).held >= 0
        assert len({event.request for event in seen.events if isinstance(event, LockEvent)}) == 1

    def test_one_that_is_taken_by_another(self, client: Client, seen: Seen) -> None:
        with Client(URL) as other, other.lock("busy", ttl=30):
            assert client.lock("busy", timeout=0.5).acquire() is None
        settle(client)
        assert seen.kinds() == ["Requested", "Waiting", "NotAcquired"]
        assert seen.one(NotAcquired).why == "timeout"
        assert 0 < seen.one(Waiting).remaining <= 30
        assert seen.one(Requested).timeout == 0.5

    def test_one_try_does_not_wait(self, client: Client, seen: Seen) -> None:
        with Client(URL) as other, other.lock("once"):
            assert client.lock("once", timeout=0).acquire() is None
        settle(client)
        assert seen.kinds() == ["Requested", "NotAcquired"]

    def test_a_renewal_and_an_extension(self, seen: Seen) -> None:
        with VirtualTime() as time, Client(URL, hooks=[seen]) as client:
            with client.lock("renewed", ttl=30) as lease:
                time.advance(11)
                settle(client)
                renewed = seen.one(Renewed)
                assert 15 < renewed.margin < 21
                assert 25 < renewed.remaining <= 30
                lease.extend(60)
            settle(client)
            assert seen.kinds().count("Renewed") == 2

    def test_a_loss(self, seen: Seen) -> None:
        with VirtualTime() as time, Client(URL, hooks=[seen]) as client:
            lease = client.lock("lost", ttl=10, renew=False).acquire()
            assert lease is not None
            time.pause(11)
            settle(client)
            lost = seen.one(Lost)
            assert (lost.name, lost.fence) == ("lost", lease.fence)
            assert 10 < lost.held < 12
            with pytest.raises(LockLost):
                lease.release()
        assert "Released" not in seen.kinds()

    def test_a_lock_that_this_client_breaks(self, client: Client, seen: Seen) -> None:
        with Client(URL) as other:
            taken = other.lock("broken").acquire()
            assert client.break_lock("broken")
            assert not client.break_lock("broken")
            settle(client)
            assert seen.one(Broken).name == "broken"
            assert taken is not None

    def test_an_interruption(self, seen: Seen) -> None:
        async def main() -> None:
            async with (
                AsyncClient(URL, hooks=[seen]) as client,
                AsyncClient(URL) as other,
                other.lock("cancelled"),
            ):
                task = asyncio.create_task(client.lock("cancelled").acquire())
                await wait_for_async(lambda: "Waiting" in seen.kinds())
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        asyncio.run(main())
        assert seen.kinds() == ["Requested", "Waiting", "NotAcquired"]
        assert seen.one(NotAcquired).why == "interrupted"

    def test_taking_it_again_is_no_event(self, client: Client, seen: Seen) -> None:
        lock = client.lock("again", reentrant=True)
        with lock, lock:
            pass
        settle(client)
        assert seen.kinds() == ["Requested", "Acquired", "Released"]

    def test_each_answer_of_the_engine(self, client: Client, seen: Seen) -> None:
        with client.lock("answers"):
            pass
        settle(client)
        answers = [event for event in seen.events if isinstance(event, Answered)]
        assert [(event.requests, event.failed) for event in answers] == [(1, 0), (1, 0)]


class TestAHookCanNeitherBreakNorBlock:
    @pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
    def test_one_that_raises(
        self, seen: Seen, error: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(event: Event) -> None:
            raise error

        with Client(URL, hooks=[fail, seen]) as client, client.lock("job"):
            pass
        assert seen.kinds() == ["Requested", "Acquired", "Released"]
        log.wait(30)
        lines = [record for record in caplog.records if "the hook" in record.getMessage()]
        assert len(lines) == 1  # and not one for each event
        assert error.__name__ in lines[0].getMessage()

    def test_one_that_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not even closing waits for it for long; and what waits for it is bounded."""
        monkeypatch.setattr(hooks_module, "MOST_WAITING", 5)
        monkeypatch.setattr("holdfast.drivers.threads.LAST_LINES", 0.01)
        go_on = threading.Event()
        slow: list[Event] = []

        caller = threading.current_thread()

        def block(event: Event) -> None:
            if threading.current_thread() is not caller:
                go_on.wait(60)
            slow.append(event)

        client = Client(URL, hooks=[block])
        for _ in range(10):
            with client.lock("job"):
                pass
        client.close()
        go_on.set()
        client._driver.hooks.wait(30)
        [dropped] = [event for event in slow if isinstance(event, EventsDropped)]
        assert dropped.count + len(slow) - 1 == 10 * 5  # with two answers of the engine each
        assert len(slow) - 1 <= 6

    def test_one_that_has_no_thread(self, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is called with all of it once there is a thread, or at the end, and never by a thread
        that locks: there it could block."""
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if thread.name == "holdfast-events":
                raise RuntimeError("can't start new thread")
            start(thread)

        with Client(URL, hooks=[seen]) as client:
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", refuse)
                with client.lock("first"):
                    pass
                assert not seen.events
            with client.lock("second"):
                pass
            settle(client)
            assert seen.kinds() == ["Requested", "Acquired", "Released"] * 2
            monkeypatch.setattr(threading.Thread, "start", refuse)
            seen.events.clear()
            with client.lock("third"):
                pass
            assert not seen.events
        assert seen.kinds() == ["Requested", "Acquired", "Released"]

    def test_an_interruption_as_its_thread_starts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As by a Ctrl-C while the caller waits for that thread to begin: no second thread calls
        it at the same time, and nothing is delivered twice."""
        start = threading.Thread.start
        started: list[threading.Thread] = []
        delivered: list[Event] = []
        go_on = threading.Event()

        def interrupted(thread: threading.Thread) -> None:
            start(thread)
            started.append(thread)
            raise KeyboardInterrupt

        def slow(event: Event) -> None:
            delivered.append(event)
            go_on.wait(60)

        hook = hooks_module.HookThread(slow, print)
        events = [PollingOnly("a", "first"), PollingOnly("a", "second")]
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                hook(events[0])
        hook(events[1])
        started[0].join(30)
        assert not started[0].is_alive()
        go_on.set()
        hook.wait(60)
        assert delivered == events

    def test_a_logger_that_blocks(self) -> None:
        """As one does whose pipe is full: renewals go on."""
        go_on, handled = threading.Event(), threading.Event()

        class Full(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                handled.set()
                go_on.wait(60)

        handler = Full()
        logging.getLogger("holdfast").addHandler(handler)
        try:
            with VirtualTime() as time, Client(URL) as client:
                lost = client.lock("lost", ttl=10, renew=False).acquire()
                with client.lock("kept", ttl=30) as kept:
                    time.advance(11)
                    assert handled.wait(30)
                    time._ahead += 15  # not `advance`, which waits for the log
                    client._driver.clock_moved()
                    kept.extend(30)
                    assert kept.held
                assert lost is not None
                go_on.set()
        finally:
            go_on.set()
            log.wait(30)
            logging.getLogger("holdfast").removeHandler(handler)

    def test_one_that_uses_the_client(self) -> None:
        found: list[bool] = []

        def look(event: Event) -> None:
            if isinstance(event, Acquired) and event.name == "job":
                found.append(mine.inspect("job") is not None)

        with Client(URL, hooks=[look]) as mine, mine.lock("job"):
            settle(mine)
        assert found == [True]

    def test_a_forked_child_has_threads_of_its_own(self, seen: Seen) -> None:
        def work() -> None:
            seen.events.clear()
            with mine.lock("child"):
                pass
            settle(mine)
            assert seen.one(Acquired).name == "child"

        with Client(URL, hooks=[seen]) as mine, mine.lock("parent"):
            in_child(work)


def test_a_hook_runs_in_the_context_of_the_caller() -> None:
    """So that a trace finds its parent."""
    caller: ContextVar[str] = ContextVar("caller", default="")
    found: list[str] = []

    def look(event: Event) -> None:
        if isinstance(event, Acquired):
            found.append(caller.get())

    async def main() -> None:
        async with AsyncClient(URL, hooks=[look]) as client:

            async def work(name: str) -> None:
                caller.set(name)
                async with client.lock(name):
                    pass

            await asyncio.gather(work("a"), work("b"))

    asyncio.run(main())
    assert sorted(found) == ["a", "b"]


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (print, "must be a list of functions"),
        ([None], "must be functions, got None"),
        ([asyncio.sleep], "and not async ones"),
    ],
)
def test_what_is_no_hook_is_refused(hooks: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Client(URL, hooks=hooks)


def test_without_a_hook_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(URL) as client:
        events: list[Event] = []
        monkeypatch.setattr(client._driver.runtime, "emit", events.append)
        with client.lock("job") as lease:
            lease.extend(30)
        assert events == []


class TestTheLog:
    def test_it_has_fields(self, caplog: pytest.LogCaptureFixture) -> None:
        with VirtualTime() as time, Client(URL) as client:
            lease = client.lock("job", ttl=10, renew=False).acquire()
            info = client.inspect("job")
            assert lease is not None
            assert info is not None
            holder = info.holder
            time.pause(11)
            log.wait(30)
            record: Any = caplog.records[-1]
            assert (record.event, record.lock, record.fence) == ("Lost", "job", lease.fence)
            public, _, secret = holder.rpartition("/")
            assert record.holder == public
            assert secret not in str({**vars(record), "args": ""})

    def test_at_debug_it_has_all(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "holdfast")
        with Client(URL) as client, client.lock("job"):
            pass
        log.wait(30)
        lines = [record.getMessage() for record in caplog.records]
        assert any(line.startswith("acquired 'job' (fence ") for line in lines)
        assert all(record.levelno == logging.DEBUG for record in caplog.records)

    def test_a_filter_that_raises_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reported: list[Any] = []
        monkeypatch.setattr(threading, "excepthook", reported.append)

        def refuse(record: logging.LogRecord) -> bool:
            raise ZeroDivisionError

        logger = logging.getLogger("holdfast")
        logger.addFilter(refuse)
        try:
            log(InternalError("a test", ValueError()))
            log.wait(30)
        finally:
            logger.removeFilter(refuse)
        assert [each.exc_type for each in reported] == [ZeroDivisionError]


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_a_hook_gets_what_happened_before_closing(make: Callable[..., Any], seen: Seen) -> None:
    if make is Client:
        with Client(URL, hooks=[seen]) as client, client.lock("last"):
            pass
    else:

        async def main() -> None:
            async with AsyncClient(URL, hooks=[seen]) as client, client.lock("last"):
                pass

        asyncio.run(main())
    assert seen.kinds() == ["Requested", "Acquired", "Released"]


def test_a_second_close_waits_for_the_first_also_while_that_waits_for_a_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, waiting = threading.Event(), threading.Event()

    def is_busy() -> bool:
        waiting.set()
        return not go_on.is_set()

    async def main() -> None:
        client = AsyncClient(URL)
        async with client.lock("job"):
            pass
        monkeypatch.setattr(client._driver.hooks, "is_busy", is_busy)
        first = asyncio.create_task(client.aclose())
        await wait_for_async(waiting.is_set)
        second = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not second.done()
        go_on.set()
        await asyncio.gather(first, second)

    asyncio.run(main())
