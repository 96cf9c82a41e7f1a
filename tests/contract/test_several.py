"""Several locks as one: all of them, or none; no deadlock; lost as soon as one is."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from holdfast import AcquireTimeout, LockLost, NotHeld

from .stage import A_WHILE, AT_ONCE, Stage
from .steps import Cut, cut_everywhere, cut_short


@pytest.mark.turns
async def test_all_are_held_and_all_are_released(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.client.lock_all(["door", "window", "cellar", "door"])
    assert lock.names == ("cellar", "door", "window")

    async def body(lease: Any) -> None:
        assert lease.held
        assert not lease.lost
        assert 0 < lease.remaining() <= lease.ttl
        assert list(lease.fences) == ["cellar", "door", "window"]
        for name, fence in lease.fences.items():
            info = await ben(ben.client.inspect, name)
            assert info.fence == fence
        assert not await stage.takes(ben, "cellar")
        assert not await stage.takes(ben, "window")

    await ann.inside(lock, body)
    for name in lock.names:
        assert await stage.takes(ben, name)


@pytest.mark.turns
async def test_if_one_is_held_none_is_taken(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    held = await ben(ben.lock("window").acquire)
    lock = ann.client.lock_all(["door", "window", "yard"], timeout=A_WHILE)

    assert await stage.tries(ann, lock) is None
    assert await ann(lock.acquire) is None
    with pytest.raises(AcquireTimeout, match="'window' is held by another") as raised:
        await ann.inside(lock, _nothing)
    assert raised.value.name == "window"
    assert "none of 'door', 'window', 'yard' was acquired" in raised.value.__notes__[0]
    assert await stage.takes(ben, "door")
    assert await stage.takes(ben, "yard")
    await ben(held.release)
    lease = await ann(lock.acquire, timeout=None)
    await ann(lease.release)


@pytest.mark.core
@pytest.mark.parametrize(("guests", "clients"), [(5, 5), (50, 5)])
async def test_dining_philosophers(stage: Stage, guests: int, clients: int) -> None:
    """Each names the left fork first, and all reach for it at once: in that order they would
    deadlock."""
    (eve,) = stage.cast("eve")
    shared = [stage.client() for _ in range(clients)]
    table = [stage.actor(f"guest {n}", shared[n % clients]) for n in range(guests)]
    in_use: set[str] = set()
    meals = 0

    async def dines(seat: int) -> None:
        nonlocal meals
        guest, forks = table[seat], [f"fork {seat}", f"fork {(seat + 1) % guests}"]

        async def eats(lease: Any) -> None:
            nonlocal meals
            assert not in_use & {*forks}
            in_use.update(forks)
            await asyncio.sleep(0)
            in_use.difference_update(forks)
            meals += 1

        for _ in range(2):
            await guest.inside(guest.client.lock_all(forks), eats)

    async def all_wait() -> bool:
        waiters = [info.waiters for info in await eve(eve.client.leases)]
        return None in waiters or sum(waiters) >= guests

    laid = await eve(eve.client.lock_all(f"fork {n}" for n in range(guests)).acquire)
    dinner = asyncio.gather(*map(dines, range(guests)))
    await stage.until(all_wait, within=3 * AT_ONCE)
    await eve(laid.release)
    await dinner
    assert meals == 2 * guests


@pytest.mark.turns
async def test_it_waits_for_the_last_one(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    held = await ben(ben.lock("yard").acquire)
    waiting = ann.begins(ann.client.lock_all(["door", "yard"]).acquire)
    await stage.settles(ben, "yard")
    await ben(held.release)
    lease = await asyncio.wait_for(waiting, 10)
    assert lease.held
    assert lease.fences["yard"] > held.fence
    await ann(lease.release)


@pytest.mark.turns
async def test_overlapping_sets_do_not_deadlock(stage: Stage) -> None:
    ann, ben, eve = stage.cast("ann", "ben", "eve")
    present: list[str] = []

    async def visits(actor: Any, names: list[str]) -> None:
        async def body(lease: Any) -> None:
            present.append(actor.name)
            await asyncio.sleep(0)
            assert present == [actor.name], "any two of the sets overlap"
            present.remove(actor.name)

        for _ in range(4):
            await actor.inside(actor.client.lock_all(names), body)

    async with asyncio.timeout(60):
        await asyncio.gather(
            visits(ann, ["door", "yard"]),
            visits(ben, ["yard", "attic"]),
            visits(eve, ["attic", "door"]),
        )


@pytest.mark.core
async def test_it_is_lost_as_soon_as_one_is(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await ann(ann.client.lock_all(["door", "yard"], ttl=stage.ttl).acquire)
    told: list[Any] = []
    lease.on_lost(told.append)

    await ben(ben.client.break_lock, "yard")
    await stage.until(lambda: lease.lost)
    await stage.until(lambda: told)
    assert not lease.held
    assert lease.remaining() == 0
    with pytest.raises(LockLost, match="yard"):
        lease.ensure_held()
    assert not await stage.takes(ben, "door"), "the other is held until it is released"
    with pytest.raises(LockLost, match="yard"):
        await ann(lease.release)
    assert await stage.takes(ben, "door")
    assert told == [lease]
    with pytest.raises(LockLost, match="yard"):
        lease.ensure_held()


@pytest.mark.core
async def test_a_loss_is_reported_once(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lock = ann.client.lock_all(["door", "yard"], ttl=stage.short, renew=False, timeout=30)
    lease = await ann(lock.acquire)
    told: list[Any] = []
    lease.on_lost(told.append)
    await stage.until(lambda: not any(each.held for each in lease._leases))
    await stage.until(lambda: told)
    lease.on_lost(told.append)  # at once
    assert told == [lease, lease]


@pytest.mark.core
async def test_a_released_one_is_not_held(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    lease = await ann(ann.client.lock_all(["door", "yard"]).acquire)
    await ann(lease.extend, stage.long)
    assert lease.remaining() > stage.long / 2
    await ann(lease.release)
    assert not lease.held
    assert not lease.lost
    with pytest.raises(NotHeld, match="released already"):
        await ann(lease.release)
    with pytest.raises(NotHeld):
        lease.ensure_held()


@pytest.mark.core
async def test_a_block_that_fails_releases_all(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def fails(lease: Any) -> None:
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        await ann.inside(ann.client.lock_all(["door", "yard"]), fails)
    assert await stage.takes(ben, "door")
    assert await stage.takes(ben, "yard")


@pytest.mark.core
async def test_closing_the_client_is_a_loss(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def closes(lease: Any) -> None:
        await stage.close(ann.client)

    with pytest.raises(LockLost, match="the client was closed"):
        await ann.inside(ann.client.lock_all(["door", "yard"]), closes)
    lease = await ben(ben.client.lock_all(["door", "yard"]).acquire)
    await stage.close(ben.client)
    with pytest.raises(LockLost, match="the client was closed"):
        await ben(lease.release)


@pytest.mark.core
async def test_as_a_decorator(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")

    async def body(number: int) -> int:
        assert not await stage.takes(ben, "door")
        assert not await stage.takes(ben, "yard")
        return number + 1

    locked = ann.client.lock_all(["door", "yard"])(ann.function(body))
    assert await ann(locked, 41) == 42
    assert await stage.takes(ben, "yard")


@pytest.mark.mode("async")
@pytest.mark.parametrize("again", [None, 1])
async def test_a_cancelled_acquire_leaves_none(stage: Stage, again: int | None) -> None:
    ann, ben = stage.cast("ann", "ben")
    client = ann.client
    await _taken_and_released(client)  # it has connected

    async def attempt(cut: Cut) -> bool:
        if not await cut_short(_taken_and_released(client), cut):
            return False
        for name in ("door", "yard"):
            await stage.until(partial(stage.takes, ben, name))
        return True

    assert await cut_everywhere(attempt, again) or stage.engine.name == "memory"


@pytest.mark.core
@pytest.mark.mode("async")
async def test_the_loss_of_one_cancels_the_block(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lock = ann.client.lock_all(["door", "yard"], ttl=stage.ttl, cancel_on_loss=True)
    entered = asyncio.Event()

    async def body(lease: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    working = asyncio.ensure_future(ann.inside(lock, body))
    await entered.wait()
    await ben(ben.client.break_lock, "door")
    with pytest.raises(LockLost, match="door"):
        await asyncio.wait_for(working, 30)
    assert await stage.takes(ben, "yard")


@pytest.mark.core
@pytest.mark.parametrize(
    ("names", "error"),
    [("door", TypeError), (None, TypeError), ([], ValueError), (["door", ""], ValueError)],
)
async def test_bad_names_are_refused(stage: Stage, names: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="name"):
        stage.client().lock_all(names)


async def _taken_and_released(client: Any) -> None:
    lease = await client.lock_all(["door", "yard"]).acquire()
    await lease.release()


async def _nothing(lease: Any) -> None:
    raise AssertionError("entered without the locks")
