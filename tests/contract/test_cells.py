"""Cells: values that are set only with their latest version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import holdfast
from holdfast import EngineUnavailable, LockError, UpdateTimeout, Versioned

from .actors import Actor
from .stage import AT_ONCE, Stage
from .steps import Cut, cut_everywhere, cut_short
from .test_cancellation import nothing_left, warm
from .test_names import NAMES

pytestmark = pytest.mark.needs("cells")


@contextmanager
def rival(stage: Stage, value: str) -> Iterator[holdfast.Cell]:
    """The same cell, for another client that comes between in the middle of an update."""
    with holdfast.Client(stage.backend.url) as client:
        cell = client.cell("stock")
        cell.set(value, expect=0)
        yield cell


def one_less(value: Any) -> str:
    return str(int(value) - 1)


@pytest.mark.turns
async def test_a_cell_that_was_never_set(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    cell = ann.client.cell("stock")
    assert stage.backend.untouched()
    assert cell.name == "stock"
    assert await ann(cell.get) == Versioned(None, 0)


@pytest.mark.turns
async def test_expecting_nothing_creates_once(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    assert await ann(ann.client.cell("stock").set, "1", expect=0)
    assert not await ben(ben.client.cell("stock").set, "2", expect=0)
    value, version = await ben(ben.client.cell("stock").get)
    assert (value, version > 0) == ("1", True)


async def test_only_who_knows_the_latest_version_sets_it(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    cell, bens = ann.client.cell("stock"), ben.client.cell("stock")
    await ann(cell.set, "1", expect=0)
    seen = await ben(bens.get)
    assert await ann(cell.set, "2", expect=seen.version)
    assert not await ben(bens.set, "3", expect=seen.version)
    assert not await ben(bens.set, "3", expect=seen.version + 100)
    later = await ben(bens.get)
    assert later.value == "2"
    assert later.version > seen.version


@pytest.mark.turns
async def test_a_value_that_returns_has_another_version(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    cell = ann.client.cell("stock")
    versions = [0]
    for value in ("a", "b", "a", "a"):
        assert await ann(cell.set, value, expect=versions[-1])
        versions.append((await ann(cell.get)).version)
    assert versions == sorted(set(versions)), "each greater than the one before"
    assert not await ann(cell.set, "c", expect=versions[1]), "it only looks as it did then"


VALUES = ["text", "", "0", "a\0b", "grüße 🔒", "x" * 100_000, b"bytes", b"", b"\xff\0\r\n", b"1"]


@pytest.mark.turns
async def test_what_was_set_comes_back_as_what_it_was(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    cell = ann.client.cell("stock")
    for value in VALUES:
        await ann(cell.set, value, expect=(await ann(cell.get)).version)
        found = (await ann(cell.get)).value
        assert (type(found), found) == (type(value), value)
        assert await ann(cell.update, lambda value: value) == value


@pytest.mark.turns
async def test_a_cell_and_a_lock_of_the_same_name_do_not_meet(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    await ann(ann.client.cell("door").set, "open", expect=0)
    assert await ben(ben.client.inspect, "door") is None
    lease = await stage.tries(ben, ben.lock("door"))
    await ann(ann.client.cell("door").update, lambda value: "closed")
    await ben(lease.extend)
    assert [info.name for info in await ann(ann.client.leases)] == ["door"]
    await ben(lease.release)
    assert (await ann(ann.client.cell("door").get)).value == "closed"


@pytest.mark.turns
async def test_distinct_names_are_distinct_cells(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    for name in NAMES:
        assert await ann(ann.client.cell(name).set, name, expect=0), f"{name!r} met another name"
    for name in NAMES:
        assert (await ann(ann.client.cell(name).get)).value == name
    ben = stage.actor("ben", stage.client(prefix="other:"))
    assert await ben(ben.client.cell("a").get) == Versioned(None, 0)


async def test_nothing_is_sold_twice_and_nothing_is_lost(stage: Stage) -> None:
    await sell(stage, units=40, sellers=stage.cast("ann", "ben", "cleo", "dan"))


@pytest.mark.turns
async def test_sellers_who_share_a_client(stage: Stage) -> None:
    await sell(stage, units=40, sellers=stage.cast("ann", "ben", "cleo", client=stage.client()))


async def sell(stage: Stage, units: int, sellers: list[Actor]) -> None:
    """All sell until nothing is left. Who got the stock down to n has sold the unit n."""
    first = sellers[0]
    await first(first.client.cell("stock").set, str(units), expect=0)

    async def sells(seller: Actor) -> list[int]:
        sold = []
        while True:
            try:
                sold.append(int(await seller(seller.client.cell("stock").update, take_one)))
            except LookupError:
                return sold

    sold = await asyncio.gather(*map(sells, sellers))
    assert sorted(unit for each in sold for unit in each) == list(range(units))
    assert (await first(first.client.cell("stock").get)).value == "0"


def take_one(value: Any) -> str:
    if value == "0":
        raise LookupError("sold out")
    return one_less(value)


@pytest.mark.turns
@pytest.mark.needs("processes")
async def test_processes_sell_nothing_twice(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await ann(ann.client.cell("stock").set, "60", expect=0)
    workers = [await stage.worker("sync"), await stage.worker("async"), await stage.worker()]
    sold = await asyncio.gather(*(worker("sell", name="stock") for worker in workers))
    assert sorted(unit for each in sold for unit in each["sold"]) == list(range(60))


@pytest.mark.turns
async def test_an_update_that_somebody_came_between_is_tried_again(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    seen: list[Any] = []
    with rival(stage, "10") as other:

        def spoilt_twice(value: Any) -> str:
            seen.append(value)
            if len(seen) <= 2:
                other.update(one_less)
            return one_less(value)

        assert await ann(ann.client.cell("stock").update, spoilt_twice) == "7"
        assert seen == ["10", "9", "8"], "called for each try, with what is there by then"
        assert other.get().value == "7"


@pytest.mark.turns
@pytest.mark.parametrize("timeout", [0, 0.1])
async def test_an_update_that_never_gets_through(stage: Stage, timeout: float) -> None:
    (ann,) = stage.cast("ann")
    tries = 0
    with rival(stage, "0") as other:

        def spoilt(value: Any) -> str:
            nonlocal tries
            tries += 1
            other.update(lambda value: str(int(value) + 1))
            return "never"

        cell = ann.client.cell("stock")
        with pytest.raises(
            UpdateTimeout, match=r"'stock' was not updated.*nothing was set"
        ) as error:
            await asyncio.wait_for(ann(cell.update, spoilt, timeout), AT_ONCE)
        assert isinstance(error.value, TimeoutError)
        assert error.value.tries == tries
        assert tries == 1 or timeout > 0
        assert other.get().value == str(tries)


@pytest.mark.turns
async def test_what_the_function_raises_sets_nothing(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    cell = ann.client.cell("stock")
    await ann(cell.set, "1", expect=0)
    before = await ann(cell.get)
    with pytest.raises(ZeroDivisionError):
        await ann(cell.update, lambda value: 1 / 0)
    for wrong in (None, 7, ["1"], bytearray(b"1")):
        with pytest.raises(TypeError, match="fn: must give bytes or text"):
            await ann(cell.update, lambda value, wrong=wrong: wrong)
    assert await ann(cell.get) == before


BAD: dict[str, list[tuple[str, tuple[Any, ...], dict[str, Any]]]] = {
    "value": [("set", (bad,), {"expect": 0}) for bad in (None, 7, ["a"], "\ud800")],
    "expect": [("set", ("a",), {"expect": bad}) for bad in (None, True, -1, "1", 1.0, 2**63)],
    "expect|positional": [("set", ("a",), {}), ("set", ("a", 0), {})],
    "fn": [("update", (bad,), {}) for bad in (None, "text")],
    "timeout": [("update", (one_less, bad), {}) for bad in (-2, "1", float("nan"))],
}


@pytest.mark.core
@pytest.mark.parametrize("argument", BAD)
async def test_bad_arguments_are_refused_by_name(stage: Stage, argument: str) -> None:
    (ann,) = stage.cast("ann")
    for method, args, options in BAD[argument]:
        with pytest.raises((TypeError, ValueError), match=argument):
            await ann(getattr(ann.client.cell("stock"), method), *args, **options)
    for bad in (None, "", "a\0", "x" * 513):
        with pytest.raises((TypeError, ValueError), match="name: "):
            ann.client.cell(bad)

    async def awaits(value: Any) -> str:
        return "a"

    with pytest.raises(TypeError, match=r"fn: .* is async"):
        await ann(ann.client.cell("stock").update, awaits)
    assert stage.backend.untouched()


@pytest.mark.core
async def test_a_cell_of_a_closed_client(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    cell = ann.client.cell("stock")
    await ann(cell.set, "1", expect=0)
    await stage.close(ann.client)
    for call in (cell.get, lambda: cell.set("1", expect=0), lambda: cell.update(one_less)):
        with pytest.raises(LockError, match="closed"):
            await ann(call)


@pytest.mark.turns
@pytest.mark.needs("restart")
async def test_a_cell_outlives_a_restart(stage: Stage) -> None:
    (ann,) = stage.cast("ann")
    await ann(ann.client.cell("stock").set, "1", expect=0)
    before = await ann(ann.client.cell("stock").get)
    await stage.close(ann.client)
    stage.backend.restart()
    (ben,) = stage.cast("ben")
    assert await ben(ben.client.cell("stock").get) == before


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.needs("outage")
async def test_an_engine_that_does_not_answer(stage: Stage) -> None:
    ann, ben = stage.cast("ann", "ben")
    cell = ann.client.cell("stock")
    await ann(cell.set, "1", expect=0)
    before = await ann(cell.get)
    tries: list[Any] = []

    def two(value: Any) -> str:
        tries.append(value)
        return "2"

    with stage.backend.outage():
        calls = [
            ann.begins(cell.set, "2", expect=before.version),
            ben.begins(ben.client.cell("stock").update, two),
        ]
        for call, says in zip(calls, ("outcome unknown", "was not read|outcome"), strict=True):
            with pytest.raises(EngineUnavailable, match=says) as error:
                await asyncio.wait_for(call, AT_ONCE)
            assert error.value.nodes
    after = await ann(cell.get)
    assert (after == before) == (after.value == "1")
    assert len(tries) <= 1, "the outcome is unknown, so it must not be done again"
    assert await ann(cell.update, lambda value: "3") == "3"


@pytest.mark.turns
@pytest.mark.mode("async")
@pytest.mark.parametrize("again", [None, 1], ids=["once", "twice"])
async def test_cancelled_anywhere(stage: Stage, again: int | None) -> None:
    """Done or not done, but never half; and no connection is left, nor a watch on a shared one."""
    ann, ben = stage.cast("ann", "ben")
    await warm(stage, ann, ben)
    cell, bens = ann.client.cell("stock"), ben.client.cell("stock")
    await cell.set("0", expect=0)
    await bens.get()
    work: list[Callable[[], Awaitable[Any]]] = [
        lambda: cell.update(lambda value: str(int(value) + 1)),
        lambda: set_one_more(cell),
        cell.get,
    ]

    connected = stage.backend.residue()

    async def attempt(doing: Callable[[], Awaitable[Any]], cut: Cut) -> bool:
        before = await bens.get()
        async with nothing_left(cut):
            reached = await cut_short(doing(), cut)
        # What was sent may still be on its way: it has arrived, or never will, when these are done.
        await stage.until(lambda: stage.backend.residue() == connected)
        await cell.get()
        after = await bens.get()
        assert int(after.value) - int(before.value) in (0, 1)
        assert after.version - before.version == int(after.value) - int(before.value)
        return reached

    for doing in work:
        await cut_everywhere(partial(attempt, doing), again)
    assert await stage.takes(ann, "door")


async def set_one_more(cell: Any) -> None:
    value, version = await cell.get()
    await cell.set(str(int(value) + 1), expect=version)
