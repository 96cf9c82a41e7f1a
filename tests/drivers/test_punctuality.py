"""Timers are neither early nor late: both drivers on virtual time.

A busy machine cannot delay virtual time, so lateness can be asserted.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import holdfast.drivers.aio  # noqa: F401 - so that virtual time can be put into it
from holdfast import AsyncClient, Client, LockLost
from holdfast.core.messages import Answer, Extend, Failed, Release, Request
from holdfast.core.ports import Engine
from holdfast.engines import open_engine
from tests.equipment.virtual_time import BEGINNING, VirtualLoop, VirtualTime
from tests.patience import wait_for

LATE = 0.02
"""How late is still in time."""

TTL = 9.0


NO_ANSWER = Failed((("memory", "no answer"),))


class Faults:
    """An engine in memory, with a log of what is asked and when, and with faults of renewals."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.asked: list[tuple[float, Request]] = []
        self.renewals = "work"
        """Or "hang": no answer; or "reply lost": carried out, but not answered."""

    def of(self, kind: type[Request]) -> list[float]:
        """When requests of this kind were sent."""
        return [at for at, request in list(self.asked) if isinstance(request, kind)]

    def note(self, requests: Sequence[Request]) -> bool:
        """Write them down; whether they have no answer."""
        self.asked += [(self.clock(), request) for request in requests]
        return self.renewals != "work" and any(isinstance(r, Extend) for r in requests)


@contextmanager
def engine(
    monkeypatch: pytest.MonkeyPatch,
    faults: Faults,
    wait: Callable[[float], None] | None = None,
) -> Iterator[None]:
    """Clients are made over a store that has these faults; `wait` blocks until an instant."""

    class Blocking:
        def __init__(self, store: Any) -> None:
            self.close, self.forget, self._ask = store.close, store.forget, store.ask

        def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
            if not faults.note(requests):
                return self._ask(requests, until)  # type: ignore[no-any-return]
            if faults.renewals == "reply lost":
                self._ask(requests, until)
            assert wait is not None
            wait(until)
            return [NO_ANSWER] * len(requests)

    class Awaiting:
        def __init__(self, store: Any) -> None:
            self.close, self.forget, self._ask = store.close, store.forget, store.ask
            self.abandon = store.abandon

        async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
            if not faults.note(requests):
                return await self._ask(requests, until)  # type: ignore[no-any-return]
            if faults.renewals == "reply lost":
                await self._ask(requests, until)
            await asyncio.sleep(until - faults.clock())
            return [NO_ANSWER] * len(requests)

    def opening(*arguments: Any) -> Engine:
        made = open_engine(*arguments)
        return replace(
            made,
            connect=lambda host: Blocking(made.connect(host)),
            connect_async=lambda host: Awaiting(made.connect_async(host)),
        )

    monkeypatch.setattr("holdfast.client.open_engine", opening)
    yield


# Threads: the test moves the time. It looks at what they wait for before it does.


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    made = VirtualTime()
    made.use(monkeypatch)
    return made


@pytest.fixture
def faults(time: VirtualTime, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    made = Faults(time.clock)
    with engine(monkeypatch, made, lambda until: [time.wait(lambda: False, until)].clear()):
        yield made


@pytest.fixture
def client(faults: Faults, request: pytest.FixtureRequest) -> Iterator[Client]:
    made = Client(f"memory://{request.function.__name__}")
    yield made
    faults.renewals = "work"
    closing = threading.Thread(target=made.close)
    closing.start()
    closing.join(10)


def at(seconds: float) -> float:
    """An instant, in seconds from the beginning."""
    return BEGINNING + seconds


def test_threads_lose_a_lease_at_its_deadline(client: Client, time: VirtualTime) -> None:
    told: list[float] = []
    lease = client.lock("job", ttl=TTL, renew=False).acquire()
    assert lease
    lease.on_lost(lambda _: told.append(time.now))
    assert time.next_timer(after=time.now) == pytest.approx(at(TTL), abs=LATE)
    time.advance_to(at(TTL) - LATE)
    assert lease.held
    assert not told
    time.advance_to(at(TTL) + LATE)
    assert lease.lost
    wait_for(lambda: told)


def test_threads_renew_after_a_third_of_the_ttl(
    client: Client, time: VirtualTime, faults: Faults
) -> None:
    lease = client.lock("job", ttl=TTL).acquire()
    assert lease
    for nth in range(1, 4):
        latest = time.now + TTL / 3 + LATE
        wait_for(lambda latest=latest: time.next_timer(after=time.now) <= latest)  # type: ignore[misc]
        time.advance_to(time.next_timer(after=time.now))
        wait_for(lambda nth=nth: len(faults.of(Extend)) == nth)  # type: ignore[misc]
        wait_for(lambda: lease.remaining() == pytest.approx(TTL, abs=LATE))
    lease.release()


@pytest.mark.parametrize("renewals", ["hang", "reply lost"])
def test_threads_lose_a_lease_at_its_deadline_while_the_engine_is_silent(
    client: Client, time: VirtualTime, faults: Faults, renewals: str
) -> None:
    """And give it back, once it is lost: the engine may have kept it for longer."""
    told: list[float] = []
    faults.renewals = renewals
    lease = client.lock("job", ttl=TTL).acquire()
    assert lease
    lease.on_lost(lambda _: told.append(time.now))
    time.advance_until(lambda: told, at(TTL) + LATE)
    [when] = told
    assert at(TTL) - LATE <= when <= at(TTL) + LATE
    time.advance_until(lambda: faults.of(Release), at(2 * TTL))


def test_threads_give_up_waiting_at_their_timeout(client: Client, time: VirtualTime) -> None:
    lease = client.lock("job", ttl=TTL, renew=False).acquire()
    got: list[Any] = []
    waiting = threading.Thread(
        target=lambda: got.append(client.lock("job", ttl=TTL).acquire(timeout=2.0))
    )
    waiting.start()
    wait_for(lambda: min(time.timers.values(), default=at(TTL)) < at(2.0) + LATE)
    time.advance_to(at(2.0) - LATE)
    assert not got
    time.advance_to(at(2.0) + LATE)
    waiting.join(10)
    assert got == [None]
    assert lease
    lease.release()


def test_threads_take_over_when_the_holder_expires(client: Client, time: VirtualTime) -> None:
    lease = client.lock("job", ttl=TTL, renew=False).acquire()
    got: list[float] = []

    def wait() -> None:
        with client.lock("job", ttl=TTL, renew=False):
            got.append(time.now)

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_for(lambda: sum(until < at(TTL) + 1 for until in time.timers.values()) == 2)
    assert max(time.timers.values()) == pytest.approx(at(TTL), abs=LATE)
    time.advance_to(at(TTL) + LATE)
    waiting.join(10)
    assert got == [at(TTL) + LATE]
    assert lease
    with pytest.raises(LockLost):
        lease.release()


# asyncio: time moves by itself, from timer to timer.


def on_virtual_loop(story: Callable[[Faults, AsyncClient], Awaitable[None]]) -> Any:
    """A test that is played on a virtual loop, with a client over an engine with faults."""

    def test(monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> None:
        loop = VirtualLoop()
        loop.use(monkeypatch)
        faults = Faults(loop.time)

        async def play() -> None:
            async with AsyncClient(f"memory://{story.__name__}") as client:
                await story(faults, client, **arguments)
                faults.renewals = "work"

        with engine(monkeypatch, faults), asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(play())

    test.__name__ = story.__name__
    return test


def now() -> float:
    return asyncio.get_running_loop().time()


async def until_told(lease: Any) -> float:
    """When a lease is lost, as its callback says."""
    told: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    lease.on_lost(lambda _: told.set_result(now()))
    return await asyncio.wait_for(told, 10 * TTL)


@on_virtual_loop
async def test_tasks_lose_a_lease_at_its_deadline(faults: Faults, client: AsyncClient) -> None:
    lease = await client.lock("job", ttl=TTL, renew=False).acquire()
    assert await until_told(lease) == pytest.approx(at(TTL), abs=LATE)


@on_virtual_loop
async def test_tasks_renew_after_a_third_of_the_ttl(faults: Faults, client: AsyncClient) -> None:
    lease = await client.lock("job", ttl=TTL).acquire()
    assert lease
    await asyncio.sleep(4 * TTL)
    sent = [BEGINNING, *faults.of(Extend)]
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert len(gaps) >= 11
    assert max(gaps) <= TTL / 3 + LATE
    await lease.release()


async def lose_while_silent(renewals: str, faults: Faults, client: AsyncClient) -> None:
    """The lease is lost in time, and given back: the engine may have kept it for longer."""
    faults.renewals = renewals
    lease = await client.lock("job", ttl=TTL).acquire()
    assert await until_told(lease) == pytest.approx(at(TTL), abs=LATE)
    await asyncio.sleep(TTL)
    assert faults.of(Release), "it was never given back"


def named(name: str, story: Any) -> Any:
    story.__name__ = name
    return story


test_tasks_lose_a_lease_while_the_engine_is_silent = on_virtual_loop(
    named("silent", partial(lose_while_silent, "hang"))
)
test_tasks_lose_a_lease_whose_renewals_are_not_answered = on_virtual_loop(
    named("unanswered", partial(lose_while_silent, "reply lost"))
)


@on_virtual_loop
async def test_tasks_give_up_waiting_at_their_timeout(faults: Faults, client: AsyncClient) -> None:
    lease = await client.lock("job", ttl=TTL, renew=False).acquire()
    assert await client.lock("job").acquire(timeout=2.0) is None
    assert now() == pytest.approx(at(2.0), abs=LATE)
    assert lease
    await lease.release()


@on_virtual_loop
async def test_tasks_take_over_when_the_holder_expires(faults: Faults, client: AsyncClient) -> None:
    lease = await client.lock("job", ttl=TTL, renew=False).acquire()
    async with client.lock("job", ttl=TTL, renew=False):
        assert now() == pytest.approx(at(TTL), abs=LATE)
    assert lease
    with pytest.raises(LockLost):
        await lease.release()
