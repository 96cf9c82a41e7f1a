"""Many clients that want the same lock: nothing is lost, and none is left out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .actors import Actor
from .stage import Stage


@dataclass
class Tally:
    """A counter that loses counts whenever two add to it at once."""

    value: int = 0
    fences: list[int] = field(default_factory=list)

    async def add(self, lease: Any) -> None:
        seen = self.value
        self.fences.append(lease.fence)
        await asyncio.sleep(0)
        self.value = seen + 1

    def check(self, expected: int) -> None:
        assert self.value == expected
        assert len(set(self.fences)) == expected
        assert sorted(self.fences) == self.fences, "granted in one order, fenced in another"


CROWDS = [(4, 20), pytest.param(8, 100, marks=pytest.mark.full)]


@pytest.mark.parametrize("shared", [True, False], ids=["one client", "own clients"])
@pytest.mark.parametrize(("contenders", "sections"), CROWDS)
async def test_an_unprotected_counter_loses_nothing(
    stage: Stage, shared: bool, contenders: int, sections: int
) -> None:
    client = stage.client() if shared else None
    tally = Tally()

    async def contend(actor: Actor) -> None:
        lock = actor.lock("tally")
        for _ in range(sections):
            await actor.inside(lock, tally.add)

    crowd = stage.cast(*(f"contender {number}" for number in range(contenders)), client=client)
    await asyncio.gather(*map(contend, crowd))
    tally.check(contenders * sections)


@pytest.mark.slow
async def test_leases_that_run_out_under_contention_never_overlap(stage: Stage) -> None:
    """Holders that never release: each is followed only by one that comes after its loss."""
    crowd = stage.cast(*(f"contender {number}" for number in range(3)))
    tenures: list[Any] = []

    async def contend(actor: Actor) -> None:
        lock = stage.fleeting(actor, "door")
        for _ in range(2):
            lease = await actor(lock.acquire)
            for earlier in tenures:
                assert earlier.lost, "two leases on one name were valid at once"
                assert earlier.fence < lease.fence
            tenures.append(lease)

    await asyncio.gather(*map(contend, crowd))
    assert len(tenures) == 6


async def test_tries_that_race_have_one_winner(stage: Stage) -> None:
    crowd = stage.cast(*(f"contender {number}" for number in range(8)))
    for round_ in range(10):
        tries = (stage.tries(actor, actor.lock(f"door {round_}")) for actor in crowd)
        winners = [lease for lease in await asyncio.gather(*tries) if lease]
        assert len(winners) == 1, "None must mean that another client holds it"


@pytest.mark.needs("processes")
@pytest.mark.parametrize(
    ("workers", "sections"), [(2, 20), pytest.param(4, 50, marks=pytest.mark.full)]
)
async def test_processes_lose_nothing(
    stage: Stage, tmp_path: Path, workers: int, sections: int
) -> None:
    path = tmp_path / "tally"
    path.write_text("0")
    crew = [await stage.worker() for _ in range(workers)]
    answers = await asyncio.gather(
        *(worker("count", name="tally", path=str(path), times=sections) for worker in crew)
    )
    assert int(path.read_text()) == workers * sections
    fences = [fence for answer in answers for fence in answer["fences"]]
    assert len(set(fences)) == workers * sections
    for answer in answers:
        assert sorted(answer["fences"]) == answer["fences"]


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.needs("processes")
async def test_processes_of_both_modes_and_this_one_lose_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    path = tmp_path / "tally"
    path.write_text("0")
    crew = [await stage.worker(mode) for mode in ("sync", "async")]
    (ann,) = stage.cast("ann")

    async def add(lease: Any) -> None:
        seen = int(path.read_text())
        await asyncio.sleep(0)
        path.write_text(str(seen + 1))

    counting = [worker.begins("count", name="tally", path=str(path), times=20) for worker in crew]
    lock = ann.lock("tally")
    for _ in range(20):
        await ann.inside(lock, add)
    await asyncio.gather(*counting)
    assert int(path.read_text()) == 60


async def test_a_try_in_vain_met_a_holder(stage: Stage) -> None:
    """`None` means that another client has the lock, and not that others were trying, too."""
    loop = asyncio.get_running_loop()
    holds: list[tuple[float, float]] = []
    refusals: list[tuple[float, float]] = []

    async def poll(actor: Actor) -> None:
        lock = actor.lock("door")
        turns = 0
        await stage.takes(actor, f"a door of {actor.name}'s own")
        await connected.wait()
        while turns < 3:
            began = loop.time()
            lease = await stage.tries(actor, lock)
            if lease:
                await actor(lease.release)
            (holds if lease else refusals).append((began, loop.time()))
            if lease:
                turns += 1
                await stage.passes(0.01)

    crowd = stage.cast(*(f"contender {number}" for number in range(8)))
    connected = asyncio.Barrier(len(crowd))
    await asyncio.gather(*map(poll, crowd))
    for began, ended in refusals:
        met = any(taken < ended and began < left for taken, left in holds)
        assert met
