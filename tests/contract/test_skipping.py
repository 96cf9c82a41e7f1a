"""Work that is left out where another client does it, or has done it in the same period."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from holdfast import LockLost
from holdfast.skip import next_period

from .stage import A_WHILE, AT_ONCE, Stage

pytestmark = pytest.mark.core

A_DAY = 86400.0


class TestOrSkip:
    async def test_it_runs_where_the_lock_is_free(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def body(lease: Any) -> str:
            assert lease.held
            assert not await stage.takes(ben, "nightly")
            return "done"

        assert await ann.inside(ann.lock("nightly").or_skip, body) == "done"
        assert await stage.takes(ben, "nightly")

    async def test_it_skips_where_it_is_held(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        held = await ben(ben.lock("nightly").acquire)
        ran: list[Any] = []

        async def body(*args: Any) -> None:
            ran.append(args)

        for lock in (ann.lock("nightly"), ann.lock("nightly", timeout=A_WHILE)):
            assert await ann(lock.or_skip(ann.function(body)), 1) is None
            await ann.inside(lock.or_skip, body)
        assert ran == [(None,), (None,)], "only the `with`, without a lease"
        await ben(held.release)
        await ann(ann.lock("nightly").or_skip(ann.function(body)), 2)
        assert ran[-1] == (2,)

    async def test_it_waits_for_the_timeout_of_the_lock(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        held = await ben(ben.lock("nightly").acquire)

        async def body(lease: Any) -> int:
            return int(lease.fence)

        waiting = asyncio.ensure_future(
            ann.inside(ann.lock("nightly", timeout=3 * AT_ONCE).or_skip, body)
        )
        await stage.settles(ben, "nightly")
        await ben(held.release)
        assert await waiting > held.fence

    async def test_each_block_has_its_own_lease(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben", client=stage.client())
        skipping = ann.lock("nightly").or_skip

        async def bens(lease: Any) -> None:
            assert lease is None

        async def anns(lease: Any) -> None:
            await ben.inside(skipping, bens)
            assert lease.held

        await ann.inside(skipping, anns)
        assert await stage.takes(ben, "nightly")

    async def test_a_loss_is_told_at_the_end(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def body(lease: Any) -> None:
            await ben(ben.client.break_lock, "nightly")
            await stage.until(lambda: lease.lost)

        with pytest.raises(LockLost):
            await ann.inside(ann.lock("nightly", ttl=stage.ttl).or_skip, body)


class TestWithLease:
    async def test_the_function_gets_the_lease(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def body(lease: Any, number: int, *, word: str) -> tuple[bool, int, str]:
            return lease.held, number, word

        for lock in (ann.lock("door"), ann.lock("door").or_skip):
            locked = lock.with_lease(ann.function(body))
            assert await ann(locked, 1, word="a") == (True, 1, "a")
        held = await ben(ben.lock("door").acquire)
        skipped = ann.lock("door").or_skip.with_lease(ann.function(body))
        assert await ann(skipped, 1, word="a") is None
        await ben(held.release)

    async def test_frameworks_do_not_see_the_lease(self, stage: Stage) -> None:
        (ann,) = stage.cast("ann")

        async def body(lease: Any, number: int, *, word: str) -> None: ...

        async def any_number(*args: Any) -> None: ...

        decorate = ann.lock("door").with_lease
        functions = [body, any_number]
        if stage.mode == "sync":
            functions = [_plain(each) for each in functions]
        seen = [str(inspect.signature(decorate(each))) for each in functions]
        assert seen == ["(number: 'int', *, word: 'str') -> 'None'", "(*args: 'Any') -> 'None'"]

    async def test_a_function_without_arguments_is_refused(self, stage: Stage) -> None:
        (ann,) = stage.cast("ann")

        async def nothing() -> None: ...

        async def named(*, lease: Any) -> None: ...

        for body in (nothing, named):
            with pytest.raises(TypeError, match="first argument"):
                ann.lock("door").with_lease(body if stage.mode == "async" else _plain(body))


@pytest.mark.needs("cells")
class TestOnce:
    async def test_one_run_in_a_period_over_all_clients(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        ran: list[str] = []

        async def job(name: str) -> str:
            ran.append(name)
            assert not await stage.takes(ann if name == "ben" else ben, "report")
            return name

        for _ in range(2):
            for actor in (ann, ben):
                once = actor.client.once("report", every=A_DAY)
                result = await actor(once(actor.function(job)), actor.name)
                assert result in (actor.name, None)
        assert len(ran) == 1 or _midnight_came_in_between(ran)

    async def test_a_run_that_fails_is_made_up_for(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def fails(lease: Any) -> None:
            raise KeyError("its own")

        async def works(lease: Any) -> int:
            return int(lease.fence)

        with pytest.raises(KeyError):
            await ann.inside(ann.client.once("report", every=A_DAY), fails)
        assert await ben.inside(ben.client.once("report", every=A_DAY), works)

    @pytest.mark.needs("processes")
    async def test_a_run_that_is_lost_is_not_noted(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def loses(lease: Any) -> None:
            await ben(ben.client.break_lock, "report")
            await stage.until(lambda: lease.lost)

        async def works(lease: Any) -> bool:
            return lease is not None

        with pytest.raises(LockLost):
            await ann.inside(ann.client.once("report", every=A_DAY, ttl=stage.ttl), loses)
        assert await ben.inside(ben.client.once("report", every=A_DAY), works)

    async def test_a_running_one_is_not_waited_for(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")

        async def bens(lease: Any) -> bool:
            return lease is None

        async def anns(lease: Any) -> None:
            assert await ben.inside(ben.client.once("report", every=A_DAY), bens)

        await ann.inside(ann.client.once("report", every=A_DAY), anns)

    @pytest.mark.parametrize("timeout", [3 * AT_ONCE, None], ids=["timeout", "forever"])
    async def test_one_that_waits_makes_up_for_a_failure(
        self, stage: Stage, timeout: float | None
    ) -> None:
        ann, ben, eve = stage.cast("ann", "ben", "eve")
        entered, fail = asyncio.Event(), asyncio.Event()

        async def anns(lease: Any) -> None:
            entered.set()
            await fail.wait()
            raise KeyError("its own")

        async def bens(lease: Any) -> bool:
            return lease is not None

        failing = asyncio.ensure_future(ann.inside(ann.client.once("job", every=A_DAY), anns))
        await entered.wait()
        once = ben.client.once("job", every=A_DAY, timeout=timeout)
        waiting = asyncio.ensure_future(ben.inside(once, bens))
        await stage.settles(eve, "job")
        fail.set()
        with pytest.raises(KeyError):
            await failing
        assert await waiting

    async def test_a_cell_that_holds_something_else(self, stage: Stage) -> None:
        ann, ben = stage.cast("ann", "ben")
        await ann(ann.client.cell("once:report").set, "hello", expect=0)
        with pytest.raises(ValueError, match="'hello'"):
            await ann.inside(ann.client.once("report", every=A_DAY), _unreached)
        assert await stage.takes(ben, "report")

    async def test_bad_arguments_are_refused(self, stage: Stage) -> None:
        client = stage.client()
        for every in (0, -1.0, "hourly", float("nan")):
            with pytest.raises((ValueError, TypeError), match="every"):
                client.once("report", every=every)
        with pytest.raises(ValueError, match="name"):
            client.once("x" * 510, every=60)


def test_periods_are_those_of_the_calendar() -> None:
    hour = 3600.0
    assert next_period(None, hour, 7300.0) == 7200.0
    assert next_period("7200.0", hour, 10799.9) is None
    assert next_period("7200.0", hour, 10800.0) == 10800.0
    assert next_period("7200.0", hour, 7100.0) is None, "a clock that lags"
    assert next_period("7200.0", 60.0, 7260.0) == 7260.0, "a shorter period"
    assert next_period("7140.0", hour, 7300.0) == 7200.0, "a longer one"


def _plain(function: Any) -> Any:
    """The same, as a plain function."""

    def plain() -> None: ...

    plain.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return plain


def _midnight_came_in_between(ran: list[str]) -> bool:
    return len(ran) == 2


async def _unreached(lease: Any) -> None:
    raise AssertionError("entered")
