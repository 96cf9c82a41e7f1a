"""The direct way of a task to one server: what becomes of a question that is not answered."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic

from holdfast import AsyncClient
from holdfast.core.fanout import FanOut
from holdfast.core.messages import Acquire, Failed, Granted, Inspect, Listing, Release
from holdfast.engines.redis.aio import AsyncRedisStore
from holdfast.engines.redis.channel import FEW, Channel, Question
from holdfast.engines.redis.deadlines import Deadlines
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Answers, Phrase, Reply, command
from holdfast.lab.servers.redis import RedisServer

A_WHILE = 3600.0


def on_a_channel(
    server: RedisServer, act: Callable[[AsyncRedisStore, Channel], Awaitable[None]]
) -> None:
    """Do something with a store that is connected already."""

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            async with client.lock("first"):
                pass
            store = client._driver._store
            assert isinstance(store, AsyncRedisStore)
            [channel] = store._channels
            assert channel is not None
            await act(store, channel)

    asyncio.run(main())


def test_a_connection_that_was_lost_in_this_very_turn_keeps_nobody_waiting(
    server: RedisServer,
) -> None:
    async def act(store: AsyncRedisStore, channel: Channel) -> None:
        channel.transport.abort()
        await channel.lost
        store._channels[0] = channel  # as if nobody had been told yet
        [answer] = await store.ask((Acquire("job", "me", 30),), monotonic() + A_WHILE)
        assert isinstance(answer, Failed)
        assert "the connection was closed" in str(answer)
        store._channels[0] = None
        [answer] = await store.ask((Acquire("job", "me", 30),), monotonic() + A_WHILE)
        assert isinstance(answer, Granted)

    on_a_channel(server, act)


def test_a_silent_server_is_asked_once_and_what_it_owes_stays_in_order(server: RedisServer) -> None:
    async def act(store: AsyncRedisStore, channel: Channel) -> None:
        server.freeze()
        taking, giving = Acquire("job", "me", 30), Release("job", "me")
        for request in (taking, giving):
            [answer] = await store.ask((request,), monotonic() + 0.05)
            assert isinstance(answer, Failed)
            assert "did not answer in time" in str(answer)
        assert [owed.requests[0] for owed in channel.owed] == [taking, giving]
        server.thaw()
        [answer] = await store.ask((Inspect("job"),), monotonic() + A_WHILE)
        assert answer == Listing(())
        assert not channel.owed

    on_a_channel(server, act)


def test_a_cancelled_question_does_not_shift_the_answers(server: RedisServer) -> None:
    async def act(store: AsyncRedisStore, channel: Channel) -> None:
        server.freeze()
        until = monotonic() + A_WHILE
        asking = asyncio.ensure_future(store.ask((Acquire("job", "me", 30),), until))
        await asyncio.sleep(0)
        assert channel.owed
        asking.cancel()
        server.thaw()
        [answer] = await store.ask((Release("job", "somebody else"),), until)
        assert not isinstance(answer, (Granted, Failed))
        [answer] = await store.ask((Acquire("job", "me", 30),), until)
        assert isinstance(answer, Granted)

    on_a_channel(server, act)


def test_a_defect_in_the_middle_of_a_reply_keeps_nobody_waiting(server: RedisServer) -> None:
    async def act(store: AsyncRedisStore, channel: Channel) -> None:
        def fail(replies: list[Reply]) -> Answers:
            raise LookupError("a defect")

        bell: asyncio.Future[None] = channel.loop.create_future()
        poll = FanOut((Inspect("job"),), (0,), inf)
        channel.say(Owed(Phrase((command(b"PING"),), fail), poll, bell))
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        await bell
        assert "a defect" in str(poll.said(0))

    on_a_channel(server, act)


def test_a_cancelled_first_try_does_not_wait_for_its_connection(server: RedisServer) -> None:
    async def main() -> None:
        server.freeze()
        async with AsyncClient(server.url) as client:
            taking = asyncio.ensure_future(client.lock("job", ttl=3600).acquire())
            store = client._driver._store
            assert isinstance(store, AsyncRedisStore)
            for _ in range(9):
                await asyncio.sleep(0)  # it has begun to connect
            taking.cancel()
            await asyncio.wait((taking,))
            assert store._dials  # which is still under way
            server.thaw()

    asyncio.run(main())


def test_the_server_has_something_to_do_before_all_is_said(server: RedisServer) -> None:
    async def act(store: AsyncRedisStore, channel: Channel) -> None:
        bells: list[asyncio.Future[object]] = [channel.loop.create_future() for _ in range(FEW + 1)]
        for bell in bells:
            channel.say(Question(command(b"PING"), (Inspect("job"),), bell, inf))
            assert len(channel._unsent) < FEW
        assert channel._unsent == [command(b"PING")]  # it goes out with this turn of the loop
        assert await asyncio.gather(*bells) == [b"PONG"] * len(bells)

    on_a_channel(server, act)


def test_a_loop_that_is_always_late_has_one_more_look_and_no_more() -> None:
    async def main() -> None:
        now = 10.0
        bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        owed = [Question(b"", (Release("job", "me"),), bell, until=9.0)]
        deadlines = Deadlines(lambda: now, lambda: owed)
        deadlines._notify()
        assert not bell.done()
        assert deadlines.next > now
        now = 10.001
        deadlines._notify()  # for something else
        assert not bell.done()
        now = 20.0
        deadlines._notify()
        assert bell.done()
        assert deadlines.next == inf
        deadlines.stop()

    asyncio.run(main())


def test_one_timer_serves_all_questions_and_none_is_forgotten() -> None:
    async def main() -> None:
        now = 1.0
        loop = asyncio.get_running_loop()
        bells: list[asyncio.Future[None]] = [loop.create_future() for _ in range(3)]
        owed = [
            Question(b"", (Release("job", "me"),), bell, until)
            for bell, until in zip(bells, (7.0, 5.0, 9.0), strict=True)
        ]
        deadlines = Deadlines(lambda: now, lambda: owed)
        for each in owed:
            deadlines.expect(each.until)
        assert deadlines.next == 5.0
        for at, rung, following in ((5.0, 1, 7.0), (7.0, 0, 9.0), (9.0, 2, inf)):
            now = at
            deadlines._notify()
            assert bells[rung].done()
            assert deadlines.next == following
        deadlines.stop()

    asyncio.run(main())
