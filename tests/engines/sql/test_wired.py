"""A connection of asyncio's, whatever became of those who asked."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.engines.sql.links import BrokenError, Row
from holdfast.engines.sql.wired import SILENT, AsyncWiredLink, dial_in_thread
from tests.engines.sql.lines import Line, Loop, perform, turns

PATIENCE = 60.0


class Stage:
    """A link, and those who ask."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.line = Line()
        self.link = AsyncWiredLink(self.line, loop.time)
        self.settled = 0

    async def asks(self, request_timeout: float = PATIENCE) -> "asyncio.Task[list[Row]]":
        """Somebody has asked."""
        until = self.loop.time() + request_timeout
        asking = self.loop.create_task(self.link.exchange(b"?", until))
        await turns()
        assert self.line.heard() == b"?"
        assert self.link.owes
        return asking

    async def asks_and_goes(self) -> None:
        """Somebody has asked, and was cancelled."""
        asking = await self.asks()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        self.link.when_answered(self._settle)

    def _settle(self) -> None:
        self.settled += 1


def on_stage(play: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def begin(loop: Loop) -> None:
        stage = Stage(loop)
        try:
            await play(stage)
        finally:
            stage.link.close()
            await stage.line.hangs_up()

    perform(begin)


def test_an_answer_comes_in_though_whoever_asked_is_gone() -> None:
    async def play(stage: Stage) -> None:
        await stage.asks_and_goes()
        assert stage.link.owes
        assert stage.settled == 0, "nobody else may have it yet"
        await stage.line.answers(b"1")
        assert stage.settled == 1
        assert not stage.link.owes
        assert stage.link.is_well()
        asking = await stage.asks()
        await stage.line.answers(b"2")
        assert await asking == [(b"2",)], "and not what was meant for another"
        assert stage.settled == 1

    on_stage(play)


@pytest.mark.parametrize(
    ("word", "is_well"), [(b"!", True), (b"", False)], ids=["it failed", "the connection is gone"]
)
def test_a_failure_comes_in_though_whoever_asked_is_gone(word: bytes, is_well: bool) -> None:
    async def play(stage: Stage) -> None:
        await stage.asks_and_goes()
        if word:
            await stage.line.answers(word)
        else:
            await stage.line.hangs_up()
        assert stage.settled == 1
        assert not stage.link.owes
        assert stage.link.is_well() == is_well

    on_stage(play)


def test_whoever_is_cancelled_just_after_the_answer_came() -> None:
    async def play(stage: Stage) -> None:
        asking = await stage.asks()

        def cancel() -> None:
            """Before they are told."""
            assert not asking.done()
            asking.cancel()

        stage.link.when_answered(cancel)
        await stage.line.answers()
        assert asking.cancelled()
        assert stage.link.is_well()
        assert not stage.link.owes

    on_stage(play)


def test_an_answer_that_does_not_come_in_time() -> None:
    async def play(stage: Stage) -> None:
        asking = await stage.asks()
        await stage.loop.passes(PATIENCE + 1)
        assert asking.done()
        with pytest.raises(BrokenError, match=SILENT):
            await asking
        assert not stage.link.is_well()

    on_stage(play)


def test_an_answer_that_does_not_come_in_time_to_one_who_is_gone() -> None:
    async def play(stage: Stage) -> None:
        await stage.asks_and_goes()
        await stage.loop.passes(PATIENCE + 1)
        assert stage.settled == 1
        assert not stage.link.is_well()

    on_stage(play)


def test_each_answer_has_its_own_time() -> None:
    """The timer that was set for the first one is used again."""

    async def play(stage: Stage) -> None:
        first = await stage.asks(60)
        await stage.line.answers(b"1")
        assert await first == [(b"1",)]
        await stage.loop.passes(30)
        longer = await stage.asks(60)
        await stage.loop.passes(31)
        assert not longer.done(), "the first one's time is over, and not this one's"
        await stage.line.answers(b"2")
        assert await longer == [(b"2",)]
        shorter = await stage.asks(5)
        await stage.loop.passes(6)
        assert shorter.done()
        with pytest.raises(BrokenError, match=SILENT):
            await shorter

    on_stage(play)


def test_a_time_that_was_put_off_is_over_at_last() -> None:
    async def play(stage: Stage) -> None:
        first = await stage.asks(60)
        await stage.line.answers(b"1")
        assert await first == [(b"1",)]
        await stage.loop.passes(30)
        asking = await stage.asks(60)
        await stage.loop.passes(31)
        await stage.loop.passes(30)
        assert asking.done()
        with pytest.raises(BrokenError, match=SILENT):
            await asking

    on_stage(play)


def test_nothing_happens_when_the_time_of_an_answer_that_came_is_over() -> None:
    async def play(stage: Stage) -> None:
        asking = await stage.asks()
        await stage.line.answers()
        await asking
        await stage.loop.passes(PATIENCE + 1)
        assert stage.link.is_well()

    on_stage(play)


@pytest.mark.parametrize("is_gone", [False, True], ids=["they wait", "they are gone"])
def test_a_link_that_is_closed_owes_nothing(is_gone: bool) -> None:
    async def play(stage: Stage) -> None:
        if is_gone:
            await stage.asks_and_goes()
            stage.link.close()
            assert stage.settled == 1
        else:
            asking = await stage.asks()
            stage.link.close()
            with pytest.raises(BrokenError, match="closed"):
                await asking
        assert not stage.link.owes
        assert not stage.link.is_well()

    on_stage(play)


def test_an_end_that_comes_unasked_is_noticed() -> None:
    async def play(stage: Stage) -> None:
        await stage.line.hangs_up()
        assert not stage.link.is_well()

    on_stage(play)


def test_a_connection_that_comes_too_late_is_closed_and_the_reason_is_told() -> None:
    mark_released, line = threading.Event(), Line()

    def dial(until: float) -> Line:
        mark_released.wait()
        return line

    async def play(loop: Loop) -> None:
        try:
            with pytest.raises(BrokenError, match="the pool is empty"):
                await dial_in_thread(dial, loop.time(), loop.time, "the pool is empty")
        finally:
            mark_released.set()
        await loop.shutdown_default_executor()
        assert line.closed
        await line.hangs_up()

    perform(play)


def test_a_connection_that_comes_as_its_caller_is_cancelled_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(loop: Loop) -> None:
        line, coming = Line(), loop.create_future()
        monkeypatch.setattr(loop, "run_in_executor", lambda *_: coming)
        task = loop.create_task(dial_in_thread(lambda until: line, loop.time() + 60, loop.time))
        await turns()
        coming.set_result(line)
        task.cancel()
        await asyncio.wait([task])
        await turns()
        assert line.closed
        await line.hangs_up()

    perform(play)
