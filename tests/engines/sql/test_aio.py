"""Who gets which connection under asyncio, and who waits for what."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

import pytest

from holdfast.core.messages import (
    DONE,
    Acquire,
    Answer,
    Extend,
    Failed,
    Granted,
    Inspect,
    Release,
    Request,
)
from holdfast.engines.sql import conversation
from holdfast.engines.sql.aio import AsyncServerStore
from holdfast.engines.sql.conversation import Speech
from holdfast.engines.sql.links import Row
from holdfast.engines.sql.mysql.server import Silence
from holdfast.engines.sql.waiting import Waiting
from holdfast.engines.sql.wired import AsyncWiredLink
from tests.engines.sql.lines import Line, Loop, perform, turns

TAKE, GIVE, LOOK = Acquire("job", "ann", 60.0), Release("job", "ann"), Inspect("job")

PATIENCE = 60.0


class Words:
    """A dialect in which each request is one word."""

    node = "db"
    ddl = ""

    def answer(self, request: Request, until: float) -> Generator[Any, list[Row], Answer]:
        yield type(request).__name__.encode()
        return Granted(1) if isinstance(request, Acquire) else DONE

    def extend_all(self, requests: Sequence[Extend]) -> Generator[Any, list[Row], list[Answer]]:
        yield b"Extend"
        return [DONE for _ in requests]

    def create(self) -> Generator[Any, list[Row], None]:
        yield b"create"


class Server:
    """One that is always there."""

    def __init__(self, loop: Loop) -> None:
        self.clock = loop.time
        self.speech: Speech = Words()
        self.waiting = Waiting(lambda holder: None)
        self.lines: list[Line] = []
        self.is_open = asyncio.Event()
        """Whether anybody gets through to it."""
        self.is_open.set()

    async def open_async(self, until: float) -> AsyncWiredLink:
        await self.is_open.wait()
        self.lines.append(Line())
        return AsyncWiredLink(self.lines[-1], self.clock)

    def listen(self) -> Silence:
        return Silence()

    async def leave_async(self) -> None:
        pass

    def forget(self) -> None:
        pass


class Stage:
    """A store, and those who ask."""

    def __init__(self, loop: Loop, connections: int) -> None:
        self.loop = loop
        self.server = Server(loop)
        self.store = AsyncServerStore(self.server, connections)

    @property
    def lines(self) -> list[Line]:
        return self.server.lines

    async def asks(
        self, request: Request, request_timeout: float = PATIENCE
    ) -> "asyncio.Task[Sequence[Answer]]":
        """Somebody has begun to ask."""
        asking = self.loop.create_task(
            self.store.ask([request], self.loop.time() + request_timeout)
        )
        await turns()
        return asking

    async def asks_and_goes(self, request: Request) -> None:
        """Somebody has asked, and was cancelled."""
        asking = await self.asks(request)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()

    async def connects(self, count: int) -> None:
        """So many connections are made, and free."""
        looking = [await self.asks(LOOK) for _ in range(count)]
        assert len(self.lines) == count
        for line in self.lines:
            await line.answers()
        assert [await each for each in looking] == [[DONE]] * count
        self.heard()

    def heard(self) -> dict[bytes, Line]:
        """What has arrived since we looked last, and on which line."""
        return {word: line for line in self.lines if (word := line.heard())}


def on_stage(play: Callable[[Stage], Coroutine[Any, Any, None]], *, connections: int = 4) -> None:
    async def begin(loop: Loop) -> None:
        stage = Stage(loop, connections)
        try:
            await play(stage)
        finally:
            await stage.store.close()
            for line in stage.lines:
                await line.hangs_up()

    perform(begin)


def test_a_release_waits_for_its_acquire_though_a_connection_is_free() -> None:
    async def play(stage: Stage) -> None:
        await stage.connects(2)
        await stage.asks_and_goes(TAKE)
        taking = stage.heard()[b"Acquire"]
        giving = await stage.asks(GIVE)
        assert not stage.heard(), "it would overtake it"
        await taking.answers()
        await stage.heard()[b"Release"].answers()
        assert await giving == [DONE]

    on_stage(play)


def test_nobody_else_waits_for_that() -> None:
    async def play(stage: Stage) -> None:
        await stage.connects(2)
        await stage.asks_and_goes(TAKE)
        taking = stage.heard()[b"Acquire"]
        giving = await stage.asks(Release("job", "ben"))
        line = stage.heard()[b"Release"]
        assert line is not taking
        await line.answers()
        assert await giving == [DONE]

    on_stage(play)


def test_a_connection_that_owes_an_answer_is_waited_for_and_not_used() -> None:
    async def play(stage: Stage) -> None:
        await stage.connects(1)
        await stage.asks_and_goes(TAKE)
        taking = stage.heard()[b"Acquire"]
        looking = await stage.asks(LOOK)
        assert not stage.heard()
        assert stage.lines == [taking], "to make another takes longer, mostly"
        await taking.answers()
        assert stage.heard() == {b"Inspect": taking}
        await taking.answers()
        assert await looking == [DONE]

    on_stage(play)


def test_half_of_the_time_is_kept_for_another_connection() -> None:
    async def play(stage: Stage) -> None:
        await stage.connects(1)
        await stage.asks_and_goes(TAKE)
        taking = stage.heard()[b"Acquire"]
        looking = await stage.asks(LOOK)
        await stage.loop.passes(PATIENCE / 2 + 1)
        line = stage.heard()[b"Inspect"]
        assert line is not taking
        await line.answers()
        assert await looking == [DONE]

    on_stage(play)


def test_a_connection_whose_answer_did_not_come_is_not_used_again() -> None:
    async def play(stage: Stage) -> None:
        await stage.connects(1)
        await stage.asks_and_goes(TAKE)
        silent = stage.heard()[b"Acquire"]
        giving = await stage.asks(GIVE, 2 * PATIENCE)
        await stage.loop.passes(PATIENCE + 1)
        line = stage.heard()[b"Release"]
        assert line is not silent
        await line.answers()
        assert await giving == [DONE]

    on_stage(play, connections=1)


def test_whoever_finds_all_connections_busy_is_told_so_in_time() -> None:
    async def play(stage: Stage) -> None:
        taking = await stage.asks(TAKE)
        line = stage.heard()[b"Acquire"]
        looking = await stage.asks(LOOK, 5)
        await stage.loop.passes(6)
        assert looking.done()
        [failed] = await looking
        assert isinstance(failed, Failed)
        assert "the one connection of this client was busy" in str(failed)
        looking = await stage.asks(LOOK)
        await line.answers()
        assert await taking == [Granted(1)]
        assert stage.heard() == {b"Inspect": line}, "its turn has come"
        await line.answers()
        assert await looking == [DONE]

    on_stage(play, connections=1)


def test_whoever_still_asks_when_the_store_is_closed_is_told_so() -> None:
    async def play(stage: Stage) -> None:
        taking = await stage.asks(TAKE)
        await stage.store.close()
        [failed] = await taking
        assert isinstance(failed, Failed)
        assert "the client was closed" in str(failed)
        assert len(stage.lines) == 1, "no connection is made that nobody would close"

    on_stage(play)


def test_nothing_is_said_on_a_connection_that_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one of a user's pool, who has it back, and somebody else uses it."""
    monkeypatch.setattr(conversation, "FIRST_PAUSE", PATIENCE / 2)
    monkeypatch.setattr(conversation, "LONGEST_PAUSE", PATIENCE / 2)

    async def play(stage: Stage) -> None:
        taking = await stage.asks(TAKE)
        [line] = stage.lines
        assert line.heard() == b"Acquire"
        await line.answers(b"!")  # so it stands back for a while
        line.close = lambda: None  # type: ignore[method-assign]
        await stage.store.close()
        await stage.loop.passes(PATIENCE / 2)
        [failed] = await taking
        assert "the client was closed" in str(failed)
        assert line.heard() == b""
        Line.close(line)

    on_stage(play)


def test_no_connection_is_begun_while_the_store_is_closing() -> None:
    async def play(stage: Stage) -> None:
        stage.server.is_open.clear()
        asking = [await stage.asks(TAKE)]
        closing = asyncio.create_task(stage.store.close())
        await turns()
        asking.append(await stage.asks(LOOK))
        stage.server.is_open.set()
        await closing
        for each in asking:
            [failed] = await each
            assert "the client was closed" in str(failed)
        assert [line.closed for line in stage.lines] == [True]

    on_stage(play)


def test_a_connection_that_comes_after_the_store_was_abandoned_is_closed() -> None:
    async def play(stage: Stage) -> None:
        stage.server.is_open.clear()
        await stage.asks_and_goes(LOOK)
        stage.store.abandon()
        await turns()
        stage.server.is_open.set()
        await turns()
        assert [line.closed for line in stage.lines] == [True]

    on_stage(play)
