"""What the port of every engine keeps (`Store.ask`): the core refuses some of it before the engine
is asked, so it is asked directly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.messages import (
    Acquire,
    Answer,
    Break,
    Done,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    Listing,
    NotYours,
    Release,
    Request,
)
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines import open_engine
from holdfast.options import read_options

from .stage import AT_ONCE, Stage

KEY = "holdfast:door"


class Port:
    """The store of an engine, asked by awaiting it."""

    def __init__(self, stage: Stage) -> None:
        self._awaits = stage.mode == "async"
        url = stage.backend.url
        options = read_options(url, prefix=None, ttl=None, retry=None, engine={})
        engine = open_engine(options.url, options.engine)
        host = StoreHost(clock, lambda holder: None, lambda event: None)
        make: Any = engine.connect_async if self._awaits else engine.connect
        self._store = make(host)

    async def ask(self, request: Request) -> Answer:
        """One answer."""
        [answer] = await self.ask_together(request)
        return answer

    async def ask_together(self, *requests: Request) -> Sequence[Answer]:
        """Answers to a batch. An engine that is busy, or still connecting, is asked again."""
        give_up_at = clock() + AT_ONCE
        while True:
            until = clock() + AT_ONCE / 2
            answers: Sequence[Answer]
            if self._awaits:
                answers = await self._store.ask(requests, until)
            else:
                answers = await asyncio.to_thread(self._store.ask, requests, until)
            if not any(isinstance(each, Failed) for each in answers) or clock() > give_up_at:
                return answers

    async def close(self) -> None:
        if self._awaits:
            await self._store.close()
        else:
            await asyncio.to_thread(self._store.close)


@asynccontextmanager
async def port(stage: Stage) -> AsyncIterator[Port]:
    opened = Port(stage)
    try:
        yield opened
    finally:
        await opened.close()


async def take(ask: Port, holder: str, ttl: float) -> Granted:
    answer = await ask.ask(Acquire(KEY, holder, ttl))
    assert isinstance(answer, Granted)
    return Granted(answer.fence, answer.holder or holder)


async def seen(ask: Port) -> Any:
    answer = await ask.ask(Inspect(KEY))
    assert isinstance(answer, Listing)
    return answer.leases[0] if answer.leases else None


async def test_an_expired_lease_is_not_extended(stage: Stage) -> None:
    async with port(stage) as ask:
        mine = await take(ask, "ann", stage.short)

        async def is_over() -> bool:
            return await seen(ask) is None

        await stage.until(is_over, stage.short + AT_ONCE)
        answer = await ask.ask(Extend(KEY, mine.holder, stage.long, mine.fence))
        assert not isinstance(answer, Done), "an expired lease came back"
        assert await seen(ask) is None
        theirs = await ask.ask(Acquire(KEY, "ben", stage.long))
        assert isinstance(theirs, Granted)
        assert theirs.fence > mine.fence


async def test_of_two_leases_on_one_name_in_a_batch_only_the_valid_one_is_extended(
    stage: Stage,
) -> None:
    """After a loss that its holder does not know of yet, a client may have two."""
    async with port(stage) as ask:
        lost = await take(ask, "ann", stage.long)
        assert isinstance(await ask.ask(Break(KEY)), Done)
        valid = await take(ask, "ben", stage.long)
        batch = [Extend(KEY, each.holder, stage.long, each.fence) for each in (lost, valid)]
        refused, extended = await ask.ask_together(*batch)
        assert isinstance(refused, NotYours)
        assert isinstance(extended, Done)
        await ask.ask(Release(KEY, valid.holder))


async def test_an_extension_never_shortens(stage: Stage) -> None:
    async with port(stage) as ask:
        mine = await take(ask, "ann", stage.long)
        assert isinstance(await ask.ask(Extend(KEY, mine.holder, stage.short, mine.fence)), Done)
        assert (await seen(ask)).remaining > stage.short
        await ask.ask(Release(KEY, mine.holder))


async def test_a_refusal_names_the_rest_of_the_lease_and_little_more(stage: Stage) -> None:
    """A waiter sleeps for that long unless it is woken, and a holder that died wakes none."""
    async with port(stage) as ask:
        mine = await take(ask, "ann", stage.long)
        for holder, queue in (("ben", False), ("cleo", True)):
            held = await ask.ask(Acquire(KEY, holder, stage.long, queue=queue))
            assert isinstance(held, Held)
            assert 0 < held.remaining < 2 * stage.long
            await ask.ask(Release(KEY, holder))
        await ask.ask(Release(KEY, mine.holder))


async def test_a_release_touches_nothing_of_others(stage: Stage) -> None:
    async with port(stage) as ask:
        mine = await take(ask, "ann", stage.long)
        assert isinstance(await ask.ask(Acquire(KEY, "cleo", stage.long, queue=True)), Held)
        assert not isinstance(await ask.ask(Release(KEY, "ben")), Failed)
        assert (await seen(ask)).fence == mine.fence
        assert isinstance(await ask.ask(Acquire(KEY, "cleo", stage.long, queue=True)), Held)
        assert isinstance(await ask.ask(Release(KEY, mine.holder)), Done)

        async def gets_it() -> bool:
            answer = await ask.ask(Acquire(KEY, "cleo", stage.long, queue=True))
            return isinstance(answer, Granted) and answer.fence > mine.fence

        await stage.until(gets_it)
        assert isinstance(await ask.ask(Release(KEY, mine.holder)), NotYours)
        assert await seen(ask) is not None


async def test_asking_again_gives_the_same_fence(stage: Stage) -> None:
    async with port(stage) as ask:
        first = await take(ask, "ann", stage.long)
        assert (await take(ask, "ann", stage.long)).fence == first.fence
        again = await ask.ask(Acquire(KEY, "ann", stage.long, queue=True))
        assert isinstance(again, Granted)
        assert again.fence == first.fence
        await ask.ask(Release(KEY, "ann"))
