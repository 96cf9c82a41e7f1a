"""Both drivers on a clock that a test moves: what is due is done at that instant, not later."""

import asyncio
import selectors
import threading
from collections import deque
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.core.messages import Extend, Request
from tests.drivers.line import Line
from tests.patience import wait_for


class Clock:
    """Stands until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.changed = threading.Condition()
        self.deadlines: list[float] = []
        """Until when the present waits last."""

    def __call__(self) -> float:
        return self.now

    def set(self, now: float) -> None:
        with self.changed:
            self.now = now
            self.changed.notify_all()

    def next_deadline(self) -> float:
        with self.changed:
            return min(self.deadlines)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in ("common", "threads", "aio"):
        monkeypatch.setattr(f"holdfast.drivers.{module}.clock", made)
    return made


class TestThreads:
    """The queue that every wait of the thread driver ends in goes by the clock of the test."""

    @pytest.fixture(autouse=True)
    def queues(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        class Queue:
            def __init__(self) -> None:
                self._items: deque[object] = deque()

            def put(self, item: object) -> None:
                with clock.changed:
                    self._items.append(item)
                    clock.changed.notify_all()

            def empty(self) -> bool:
                return not self._items

            def get(self, timeout: float = 0.0) -> object:
                with clock.changed:
                    until = clock.now + timeout
                    clock.deadlines.append(until)
                    clock.changed.wait_for(lambda: self._items or clock.now >= until)
                    clock.deadlines.remove(until)
                    if not self._items:
                        raise Empty
                    return self._items.popleft()

        monkeypatch.setattr("holdfast.drivers.threads.SimpleQueue", Queue)

    @pytest.fixture
    def client(self, line: Line, clock: Clock) -> Iterator[Client]:
        with Client(line.url) as made:
            yield made

    def test_a_loss_is_told_at_the_deadline(self, clock: Clock, client: Client) -> None:
        told: list[object] = []
        lease = client.lock("job", ttl=10.0, renew=False).acquire()
        assert lease is not None
        lease.on_lost(told.append)
        deadline = clock.now + lease.remaining()
        wait_for(lambda: clock.deadlines and clock.next_deadline() == deadline)
        clock.set(deadline)
        wait_for(lambda: told == [lease])

    def test_a_renewal_leaves_when_it_is_due(
        self, line: Line, clock: Clock, client: Client
    ) -> None:
        with client.lock("job", ttl=30.0) as lease:
            wait_for(lambda: len(clock.deadlines) == 2)  # the renewer's and the watcher's
            due = clock.next_deadline()
            assert clock.now + 9 <= due <= clock.now + 10
            clock.set(due)
            wait_for(lambda: line.asked(Extend))
            wait_for(lambda: lease.remaining() == pytest.approx(30.0))

    def test_a_waiter_gives_up_at_its_timeout(self, clock: Clock, client: Client) -> None:
        with client.lock("job", ttl=600.0):
            wait_for(lambda: len(clock.deadlines) == 2)
            taken: list[object] = []
            lock = client.lock("job")
            waiting = threading.Thread(target=lambda: taken.append(lock.acquire(timeout=5.0)))
            waiting.start()
            wait_for(lambda: len(clock.deadlines) == 3)
            assert clock.next_deadline() == clock.now + 5
            clock.set(clock.now + 5)
            wait_for(lambda: taken == [None])
            waiting.join()


class Selector(selectors.SelectSelector):
    """Waits for nothing: the time that it was to wait for has passed."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout:
            self._clock.now += timeout
        return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop that goes by the clock of the test."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Selector(clock))
        self._clock_of_test = clock

    def time(self) -> float:
        return self._clock_of_test.now


class TestTasks:
    """The clock moves by itself to whatever is due next."""

    @pytest.fixture
    def runner(self, clock: Clock) -> Iterator[asyncio.Runner]:
        with asyncio.Runner(loop_factory=lambda: Loop(clock)) as made:
            yield made

    def test_a_loss_is_told_at_the_deadline(
        self, line: Line, clock: Clock, runner: asyncio.Runner
    ) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client:
                lease = await client.lock("job", ttl=10.0, renew=False).acquire()
                assert lease is not None
                told: list[float] = []
                lease.on_lost(lambda lost: told.append(clock.now))
                deadline = clock.now + lease.remaining()
                await asyncio.sleep(60)
                assert told == [pytest.approx(deadline)]

        runner.run(main())

    def test_renewals_leave_when_they_are_due(
        self, line: Line, clock: Clock, runner: asyncio.Runner
    ) -> None:
        left: list[float] = []

        def look(request: Request) -> None:
            if isinstance(request, Extend):
                left.append(clock.now)

        line.before = look

        async def main() -> None:
            async with AsyncClient(line.url) as client, client.lock("job", ttl=30.0):
                await asyncio.sleep(95)

        began = clock.now
        runner.run(main())
        assert len(left) == 9
        for number, instant in enumerate(left, 1):
            assert 9 * number <= instant - began <= 10 * number + 0.01

    def test_a_waiter_gives_up_at_its_timeout(
        self, line: Line, clock: Clock, runner: asyncio.Runner
    ) -> None:
        async def main() -> None:
            async with AsyncClient(line.url) as client, client.lock("job", ttl=600.0):
                began = clock.now
                assert await client.lock("job").acquire(timeout=5.0) is None
                assert clock.now - began == pytest.approx(5.0)

        runner.run(main())
