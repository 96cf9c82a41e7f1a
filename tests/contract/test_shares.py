"""Locks that several hold at once: semaphores, and readers beside one writer."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from holdfast import LockLost
from holdfast.core.messages import (
    Acquire,
    Break,
    Done,
    Extend,
    Granted,
    Held,
    Inspect,
    Listing,
    NotYours,
    Release,
    Request,
)
from holdfast.engines.memory import Table

from .actors import Actor
from .stage import A_WHILE, AT_ONCE, Stage
from .test_store import KEY, Port, port

pytestmark = pytest.mark.needs("shares")

LONG = 90.0
"""Against hanging, where a hundred wait."""


def reading(stage: Stage, actor: Actor, **options: Any) -> Any:
    return actor.client.rwlock("door", **{"ttl": stage.long, **options}).read


def writing(stage: Stage, actor: Actor, **options: Any) -> Any:
    return actor.client.rwlock("door", **{"ttl": stage.long, **options}).write


def slot(stage: Stage, actor: Actor, slots: int = 2, **options: Any) -> Any:
    return actor.client.semaphore("door", slots, **{"ttl": stage.long, **options})


async def gets(stage: Stage, actor: Actor, lock: Any) -> Any:
    """A lease that must be there for the asking."""
    lease = await stage.tries(actor, lock)
    assert lease, "there was room"
    return lease


async def waits(
    stage: Stage,
    watcher: Actor,
    actor: Actor,
    lock: Any,
    place: int = 1,
    timeout: float = 3 * AT_ONCE,
) -> Any:
    """A waiter, in that place of the queue."""
    waiting = actor.begins(lock.acquire, timeout=timeout)
    await stage.settles(watcher, "door", waiters=place)
    assert not waiting.done()
    return waiting


async def shared(ask: Port, holder: str, shares: int, ttl: float = 100.0) -> int:
    answer = await ask.ask(Acquire(KEY, holder, ttl, shares=shares))
    assert isinstance(answer, Granted)
    return answer.fence


async def dies(ask: Port, stage: Stage, shares: int) -> None:
    """A client that takes a share, and is not heard of again."""
    await shared(ask, "dead", shares, stage.short)


@pytest.mark.needs("slots")
async def test_a_semaphore_has_as_many_holders_as_slots(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    one = await gets(stage, ann, slot(stage, ann))
    two = await gets(stage, ben, slot(stage, ben))
    assert one.held
    assert two.held
    assert await stage.tries(cleo, slot(stage, cleo)) is None
    assert await stage.waits_in_vain(cleo, slot(stage, cleo))
    waiting = await waits(stage, ann, cleo, slot(stage, cleo))
    await ann(one.release)
    three = await asyncio.wait_for(waiting, AT_ONCE)
    assert three.held
    assert two.held
    assert await stage.tries(ann, slot(stage, ann)) is None
    for actor, lease in ((ben, two), (cleo, three)):
        await actor(lease.release)
    assert await ann(ann.client.inspect, "door") is None


@pytest.mark.turns
async def test_a_semaphore_of_one_is_a_lock(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    lease = await gets(stage, ann, slot(stage, ann, 1))
    assert await stage.tries(ben, ben.lock("door")) is None
    await ann(lease.release)
    lease = await gets(stage, ben, ben.lock("door", ttl=stage.long))
    assert await stage.tries(ann, slot(stage, ann, 1)) is None
    await ben(lease.release)


@pytest.mark.needs("slots")
async def test_clients_that_disagree_on_the_slots_wait_for_each_other(stage: Stage) -> None:
    """Which is how a semaphore is resized."""
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    two = await gets(stage, ann, slot(stage, ann, 2))
    assert await stage.tries(ben, slot(stage, ben, 3)) is None
    assert await stage.tries(ben, reading(stage, ben)) is None
    three = await waits(stage, ann, ben, slot(stage, ben, 3))
    assert await stage.tries(cleo, slot(stage, cleo, 2)) is None, "ben has come before"
    await ann(two.release)
    lease = await asyncio.wait_for(three, AT_ONCE)
    another = await gets(stage, cleo, slot(stage, cleo, 3))
    await ben(lease.release)
    await cleo(another.release)


async def test_many_readers_or_one_writer(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    one = await gets(stage, ann, reading(stage, ann))
    two = await gets(stage, ben, reading(stage, ben))
    assert await stage.tries(cleo, writing(stage, cleo)) is None
    waiting = await waits(stage, ann, cleo, writing(stage, cleo))
    await ann(one.release)
    assert await ben(two.extend) is None, "the other share goes on"
    await stage.passes(A_WHILE)
    assert not waiting.done(), "a writer beside a reader"
    await ben(two.release)
    write = await asyncio.wait_for(waiting, AT_ONCE)
    assert await stage.tries(ann, reading(stage, ann)) is None
    assert await stage.tries(ann, ann.lock("door")) is None
    await cleo(write.release)
    assert await ann(ann.client.inspect, "door") is None


@pytest.mark.needs("order")
async def test_a_reader_that_comes_after_a_writer_waits_for_it(stage: Stage) -> None:
    """So that readers, however many, cannot keep a writer out."""
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    read = await gets(stage, ann, reading(stage, ann))
    write = await waits(stage, ann, ben, writing(stage, ben))
    assert await stage.tries(cleo, reading(stage, cleo)) is None
    later = await waits(stage, ann, cleo, reading(stage, cleo), 2)
    await ann(read.release)
    lease = await asyncio.wait_for(write, AT_ONCE)
    await stage.passes(A_WHILE)
    assert not later.done()
    await ben(lease.release)
    last = await asyncio.wait_for(later, AT_ONCE)
    assert last.fence > lease.fence > read.fence
    await cleo(last.release)


@pytest.mark.slow
@pytest.mark.needs("order")
async def test_a_flood_of_readers_keeps_no_writer_out(stage: Stage) -> None:
    """The writer waits for the readers that came before it, and for no other: those that follow
    are many, and those that have read ask again at once."""
    ann, watcher, *clerks = stage.cast(
        "ann", "watcher", *(f"clerk {number}" for number in range(4))
    )
    crowd = 100 if stage.mode == "async" else 25  # threads
    readers = [
        stage.actor(f"reader {number}", clerks[number % 4].client) for number in range(crowd)
    ]
    served: list[str] = []

    async def note(lease: Any) -> None:
        served.append("reader")  # before it releases: nothing that it kept out is served before

    def reads(reader: Actor) -> asyncio.Future[Any]:
        return asyncio.ensure_future(reader.inside(reading(stage, reader, timeout=LONG), note))

    before = [(reader, await gets(stage, reader, reading(stage, reader))) for reader in readers[:5]]
    write = await waits(stage, watcher, ann, writing(stage, ann), timeout=LONG)
    flood = [reads(reader) for reader in readers[5:]]
    await stage.settles(watcher, "door", 1 + len(flood), within=LONG)
    for reader, lease in before:
        await reader(lease.release)
        flood.append(reads(reader))
    lease = await asyncio.wait_for(write, LONG)
    assert served == []
    await stage.settles(watcher, "door", crowd, within=LONG)
    assert served == []
    assert lease.held
    await ann(lease.release)
    await asyncio.wait_for(asyncio.gather(*flood), LONG)
    assert len(served) == crowd


@pytest.mark.needs("order")
async def test_those_who_may_share_it_get_it_together(stage: Stage) -> None:
    ann, ben, cleo, dora, emil = stage.cast("ann", "ben", "cleo", "dora", "emil")
    write = await gets(stage, ann, writing(stage, ann))
    first = await waits(stage, ann, ben, reading(stage, ben), 1)
    second = await waits(stage, ann, cleo, reading(stage, cleo), 2)
    third = await waits(stage, ann, dora, writing(stage, dora), 3)
    fourth = await waits(stage, ann, emil, reading(stage, emil), 4)
    await ann(write.release)
    reads = await asyncio.wait_for(asyncio.gather(first, second), AT_ONCE)
    assert all(lease.held for lease in reads)
    assert not third.done()
    for actor, lease in zip((ben, cleo), reads, strict=True):
        await actor(lease.release)
    lease = await asyncio.wait_for(third, AT_ONCE)
    assert not fourth.done()
    await dora(lease.release)
    await emil((await asyncio.wait_for(fourth, AT_ONCE)).release)


async def test_fences_of_shares(stage: Stage) -> None:
    """A writer's is greater than all before; a reader's is greater than those of writers before."""
    ann, ben = stage.cast("ann", "ben")
    highest_write = highest = 0
    for _ in range(3):
        reads = [await gets(stage, actor, reading(stage, actor)) for actor in (ann, ben)]
        for actor, lease in zip((ann, ben), reads, strict=True):
            assert lease.fence > highest_write
            highest = max(highest, lease.fence)
            await actor(lease.release)
        write = await gets(stage, ann, writing(stage, ann))
        assert write.fence > highest
        highest = highest_write = write.fence
        await ann(write.release)


async def test_a_reader_that_dies_frees_its_share(stage: Stage) -> None:
    (cleo,) = stage.cast("cleo")
    async with port(stage) as ask:
        await dies(ask, stage, 0)
        lease = await cleo(writing(stage, cleo).acquire, timeout=stage.short + AT_ONCE)
        assert lease
        await cleo(lease.release)


async def test_the_last_reader_leaves_nothing_of_one_that_died(stage: Stage) -> None:
    ben, cleo = stage.cast("ben", "cleo")
    alive = await gets(stage, ben, reading(stage, ben))

    async def is_alone() -> bool:
        return len((await ben(ben.client.inspect, "door")).members) == 1

    async with port(stage) as ask:
        await dies(ask, stage, 0)
        await stage.until(is_alone, stage.short + AT_ONCE)
        await ben(alive.release)
        await cleo((await gets(stage, cleo, writing(stage, cleo))).release)


async def test_a_reader_that_leaves_early_keeps_nobody_waiting_for_its_ttl(stage: Stage) -> None:
    """The waiter was told to look when the last lease ends, and that is earlier now."""
    ann, cleo = stage.cast("ann", "cleo")
    long = await gets(stage, ann, reading(stage, ann))
    async with port(stage) as ask:
        await dies(ask, stage, 0)
        waiting = await waits(stage, ann, cleo, writing(stage, cleo))
        await ann(long.release)
        lease = await asyncio.wait_for(waiting, stage.short + AT_ONCE)
        await cleo(lease.release)


@pytest.mark.needs("slots")
async def test_a_slot_whose_holder_dies_goes_to_the_next(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    alive = await gets(stage, ben, slot(stage, ben))
    async with port(stage) as ask:
        await dies(ask, stage, 2)
        lease = await cleo(slot(stage, cleo).acquire, timeout=stage.short + AT_ONCE)
        assert lease
        assert alive.held
        assert await stage.tries(ann, slot(stage, ann)) is None
        await ben(alive.release)
        await cleo(lease.release)


@pytest.mark.turns
async def test_a_share_that_is_renewed_outlasts_one_that_is_not(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    kept = await gets(stage, ann, reading(stage, ann, ttl=stage.ttl))
    left = await ben(reading(stage, ben, ttl=stage.short, renew=False).acquire, timeout=3 * AT_ONCE)
    await stage.until(lambda: left.lost, stage.short + AT_ONCE)
    await stage.passes(stage.ttl)
    assert kept.held
    assert await stage.tries(cleo, writing(stage, cleo)) is None
    await ann(kept.release)
    await stage.until(lambda: stage.takes(cleo, "door"))


@pytest.mark.turns
async def test_one_who_gives_up_keeps_nobody_out(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    read = await gets(stage, ann, reading(stage, ann))
    assert await stage.waits_in_vain(ben, writing(stage, ben))
    await cleo((await gets(stage, cleo, reading(stage, cleo))).release)
    waiting = asyncio.ensure_future(stage.waits_in_vain(ben, writing(stage, ben)))
    later = cleo.begins(reading(stage, cleo).acquire, timeout=3 * AT_ONCE)
    assert await waiting
    await cleo((await asyncio.wait_for(later, AT_ONCE)).release)
    await ann(read.release)


@pytest.mark.turns
async def test_all_holders_from_outside(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    one = await gets(stage, ann, reading(stage, ann))
    two = await gets(stage, ben, reading(stage, ben))
    info = await cleo(cleo.client.inspect, "door")
    assert {member.holder for member in info.members} == {one.holder, two.holder}
    assert info.shares == 0
    assert all(0 < member.remaining <= stage.long for member in info.members)
    assert (info.holder, info.remaining) == (info.members[0].holder, info.members[0].remaining)
    assert info.fence >= max(one.fence, two.fence)
    assert {member.label.program for member in info.members} == {info.label.program}
    assert [each.name for each in await cleo(cleo.client.leases)] == ["door"]
    [listed] = await cleo(cleo.client.leases)
    assert {member.holder for member in listed.members} == {one.holder, two.holder}
    await ann(one.release)
    info = await cleo(cleo.client.inspect, "door")
    assert [member.holder for member in info.members] == [two.holder]
    await ben(two.release)
    assert await cleo(cleo.client.inspect, "door") is None


@pytest.mark.turns
async def test_breaking_one_share_or_all(stage: Stage) -> None:
    ann, ben, cleo = stage.cast("ann", "ben", "cleo")
    one = await gets(stage, ann, reading(stage, ann))
    two = await gets(stage, ben, reading(stage, ben))
    assert not await cleo(cleo.client.break_lock, "door", "unknown")
    assert await cleo(cleo.client.break_lock, "door", one.holder)
    with pytest.raises(LockLost):
        await ann(one.extend)
    await ben(two.extend)
    three = await gets(stage, ann, reading(stage, ann))
    assert await cleo(cleo.client.break_lock, "door")
    for actor, lease in ((ben, two), (ann, three)):
        with pytest.raises(LockLost):
            await actor(lease.extend)
    write = await gets(stage, cleo, writing(stage, cleo))
    assert write.fence > max(two.fence, three.fence)
    await cleo(write.release)


@pytest.mark.slow
@pytest.mark.needs("slots")
async def test_a_crowd_never_exceeds_the_slots(stage: Stage) -> None:
    crowd = stage.cast(*(f"contender {number}" for number in range(6)))
    inside = 0

    async def work(lease: Any) -> None:
        nonlocal inside
        inside += 1
        assert inside <= 3
        await asyncio.sleep(0.002)
        assert lease.held
        inside -= 1

    async def contend(actor: Actor) -> None:
        for _ in range(5):
            await actor.inside(slot(stage, actor, 3, timeout=3 * AT_ONCE), work)

    await asyncio.gather(*map(contend, crowd))


@pytest.mark.slow
async def test_readers_and_writers_in_a_crowd_never_meet(stage: Stage) -> None:
    crowd = stage.cast(*(f"contender {number}" for number in range(6)))
    readers = writers = 0

    async def read(lease: Any) -> None:
        nonlocal readers
        readers += 1
        assert not writers
        await asyncio.sleep(0.002)
        assert not writers
        readers -= 1

    async def write(lease: Any) -> None:
        nonlocal writers
        writers += 1
        assert (readers, writers) == (0, 1)
        await asyncio.sleep(0.002)
        assert (readers, writers) == (0, 1)
        writers -= 1

    async def contend(number: int, actor: Actor) -> None:
        for step in range(5):
            if (number + step) % 3:
                await actor.inside(reading(stage, actor, timeout=3 * AT_ONCE), read)
            else:
                await actor.inside(writing(stage, actor, timeout=3 * AT_ONCE), write)

    await asyncio.gather(*(contend(*each) for each in enumerate(crowd)))


@pytest.mark.needs("slots")
async def test_asking_again_takes_no_second_slot(stage: Stage) -> None:
    ttl = stage.long
    async with port(stage) as ask:
        fence = await shared(ask, "ann", 2, ttl)
        assert await shared(ask, "ann", 2, ttl) == fence
        await shared(ask, "ben", 2, ttl)
        assert isinstance(await ask.ask(Acquire(KEY, "cleo", ttl, shares=2)), Held)
        assert await shared(ask, "ann", 2, ttl) == fence
        for holder in ("ann", "ben"):
            assert isinstance(await ask.ask(Release(KEY, holder, shares=2)), Done)
            assert isinstance(await ask.ask(Release(KEY, holder, shares=2)), NotYours)


async def test_an_expired_share_is_not_extended(stage: Stage) -> None:
    async with port(stage) as ask:
        await shared(ask, "ann", 0, stage.short)
        fence = await shared(ask, "ben", 0, stage.long)

        async def is_alone() -> bool:
            answer = await ask.ask(Inspect(KEY))
            assert isinstance(answer, Listing)
            return not answer.leases[0].others

        await stage.until(is_alone, stage.short + AT_ONCE)
        assert not isinstance(await ask.ask(Extend(KEY, "ann", stage.long, fence, shares=0)), Done)
        assert isinstance(await ask.ask(Extend(KEY, "ben", stage.long, fence, shares=0)), Done)
        await ask.ask(Release(KEY, "ben", shares=0))


@pytest.mark.needs("slots")
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.full)])
async def test_any_requests_are_answered_as_by_the_reference(stage: Stage, seed: int) -> None:
    """The table of `memory://`, whose clock stands still, as no lease here comes to its end."""
    chance, table, ttl = random.Random(seed), Table(), stage.long
    fences: list[tuple[int, int]] = []
    async with port(stage) as ask:
        for step in range(60):
            shares = chance.choice((0, 0, 1, 2, 3, 3))  # a holder never changes its kind
            holder = f"{chance.choice('abcd')}{shares}"
            request: Request
            match chance.randrange(7):
                case 0 | 1 | 2:
                    request = Acquire(KEY, holder, ttl, shares=shares)
                case 3 | 4:
                    request = Release(KEY, holder, shares=shares)
                case 5:
                    request = Extend(KEY, holder, ttl, shares=shares)
                case _:
                    request = Break(KEY, chance.choice(("", holder)))
            expected, answer = table.answer(request, 0.0), await ask.ask(request)
            assert type(answer) is type(expected), (seed, step, request, answer, expected)
            if isinstance(answer, Granted) and isinstance(expected, Granted):
                fences.append((expected.fence, answer.fence))
            listing, ours = table.answer(Inspect(KEY), 0.0), await ask.ask(Inspect(KEY))
            assert isinstance(listing, Listing)
            assert isinstance(ours, Listing)
            assert [_members(each) for each in ours.leases] == [
                _members(each) for each in listing.leases
            ], (seed, step, request)
        await ask.ask(Break(KEY))
    for (a, x), (b, y) in pairwise(fences):
        assert not a < b or x < y, "a later phase has a greater fence"


def _members(seen: Any) -> tuple[int, list[str]]:
    return seen.shares, sorted([seen.holder, *(holder for holder, _ in seen.others)])
