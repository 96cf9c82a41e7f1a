"""The clock of the pytest plugin, which a test moves."""

import asyncio
import threading

import pytest

import holdfast
from holdfast.virtual_time import VirtualTime


def test_time_passes_and_leases_are_renewed(
    holdfast_client: holdfast.Client, holdfast_time: VirtualTime
) -> None:
    lost: list[str] = []
    with holdfast_client.lock("a", ttl=30) as lease:
        lease.on_lost(lambda lease: lost.append(lease.name))
        holdfast_time.advance(3600)
        assert lease.held
        assert lease.remaining() > 10
    assert lost == []


def test_a_pause_costs_the_lease(
    holdfast_client: holdfast.Client, holdfast_time: VirtualTime
) -> None:
    lost: list[str] = []
    lease = holdfast_client.lock("a", ttl=30).acquire()
    assert lease
    lease.on_lost(lambda lease: lost.append(lease.name))
    holdfast_time.pause(5)
    assert lease.held
    holdfast_time.pause(31)
    assert lost == ["a"]  # the callback has returned
    with pytest.raises(holdfast.LockLost):
        lease.ensure_held()
    with holdfast_client.lock("a", timeout=0) as later:
        assert later.fence > lease.fence


def test_an_unrenewed_lease_ends_in_time(
    holdfast_url: str, holdfast_client: holdfast.Client, holdfast_time: VirtualTime
) -> None:
    lease = holdfast_client.lock("a", ttl=3600, renew=False).acquire()
    assert lease
    with holdfast.Client(holdfast_url) as other:  # one that the code under test has made
        holdfast_time.advance(1800)
        assert other.lock("a").acquire(blocking=False) is None
        holdfast_time.advance(1800)
        with other.lock("a", timeout=0):
            assert lease.lost


def test_max_hold(holdfast_client: holdfast.Client, holdfast_time: VirtualTime) -> None:
    lease = holdfast_client.lock("a", ttl=30, max_hold=600).acquire()
    assert lease
    holdfast_time.advance(500)
    assert lease.held
    holdfast_time.advance(101)
    assert lease.lost


def test_a_waiter_gives_up_in_time(
    holdfast_url: str, holdfast_client: holdfast.Client, holdfast_time: VirtualTime
) -> None:
    got: list[object] = []
    with holdfast_client.lock("a"), holdfast.Client(holdfast_url) as other:
        waiter = threading.Thread(target=lambda: got.append(other.lock("a").acquire(timeout=3600)))
        waiter.start()
        while not getattr(holdfast_client.inspect("a"), "waiters", 0):
            threading.Event().wait(0.001)
        holdfast_time.advance(3601)
        waiter.join()
    assert got == [None]


def test_under_asyncio(
    holdfast_async_client: holdfast.AsyncClient, holdfast_time: VirtualTime
) -> None:
    async def main() -> None:
        lost: list[str] = []
        async with holdfast_async_client as client:
            lease = await client.lock("a", ttl=30).acquire()
            assert lease
            lease.on_lost(lambda lease: lost.append(lease.name))
            waiting = asyncio.ensure_future(client.lock("a").acquire(timeout=3000))
            await asyncio.to_thread(holdfast_time.advance, 3600)
            assert lease.held
            assert await waiting is None
            with pytest.raises(RuntimeError, match="to_thread"):
                holdfast_time.pause(31)
            await asyncio.to_thread(holdfast_time.pause, 31)
            assert lost == ["a"]
            with pytest.raises(holdfast.LockLost):
                await paused_inside(client.lock("b", cancel_on_loss=True))

    async def paused_inside(lock: holdfast.AsyncLock) -> None:
        async with lock:
            await asyncio.to_thread(holdfast_time.pause, 31)
            await asyncio.Event().wait()

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [57, 1000])
def test_the_work_of_a_leader_ends_before_its_term(
    holdfast_async_client: holdfast.AsyncClient, holdfast_time: VirtualTime, seconds: float
) -> None:
    ended: list[bool] = []

    async def work(lease: holdfast.AsyncLease) -> None:
        working.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(lease.held)

    async def main() -> None:
        async with holdfast_async_client as client:
            leading = asyncio.create_task(client.election("a", ttl=30, max_hold=60).run(work))
            await working.wait()
            await asyncio.to_thread(holdfast_time.advance, 50)
            assert ended == []
            await asyncio.to_thread(holdfast_time.advance, seconds - 50)
            leading.cancel()
            await asyncio.wait([leading])

    working = asyncio.Event()
    asyncio.run(main())
    assert ended[0]


def test_other_clients_keep_their_clock(request: pytest.FixtureRequest) -> None:
    with holdfast.Client("memory://before") as client, client.lock("a", ttl=30) as lease:
        time: VirtualTime = request.getfixturevalue("holdfast_time")
        time.pause(3600)
        assert lease.held
