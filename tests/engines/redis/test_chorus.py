"""What is said to all nodes alike, and in what order it goes out."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import hiredis
import pytest

from holdfast import AsyncClient
from holdfast.core.fanout import FanOut
from holdfast.core.guard import RestartGuard
from holdfast.core.messages import Acquire, Answer, Failed, Granted, Held, Inspect, Release
from holdfast.core.ports import StoreHost
from holdfast.drivers.common import clock
from holdfast.engines.redis.addresses import Address
from holdfast.engines.redis.aio import AsyncRedisStore
from holdfast.engines.redis.channel import FEW, Channel
from holdfast.engines.redis.chorus import Chorus
from holdfast.engines.redis.nodes import Node
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Phrase, load_scripts
from holdfast.engines.redis.scripts import NAMES, script
from holdfast.engines.redis.speech import Speech
from holdfast.lab.servers.redis import RedisServer
from tests.engines.redis.strikes import Strike
from tests.equipment.servers.masters import RedisMasters

NODES = 3
A_WHILE, LIMIT = 3600.0, 10.0
MANY = 60
SPEECH = Speech(quorum=True, keep=3600.0, channel="channel")


class Ends:
    """Connections to nodes that only listen, unless they are made to say something."""

    def __init__(self, channels: list[Channel], nodes: list[socket.socket]) -> None:
        self.channels, self._nodes = channels, nodes

    def heard(self) -> list[bytes]:
        """What each node has been told since the last time."""
        return [_read(node) for node in self._nodes]

    def answer(self, node: int, reply: bytes) -> None:
        """As if it had come from that node."""
        self.channels[node].data_received(reply)


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 20)
    except BlockingIOError:
        return b""


def nobody_connects(timeout: float) -> Any:
    raise AssertionError("nobody connects")


def with_ends(act: Callable[[Ends], Awaitable[None]]) -> None:
    async def main() -> None:
        around = StoreHost(lambda: 0.0, lambda holder: None, lambda event: None)
        pairs = [socket.socketpair() for _ in range(NODES)]
        channels = []
        for index, (ours, theirs) in enumerate(pairs):
            theirs.setblocking(False)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
            address = Address(f"n{index}", nobody_connects, nobody_connects)
            node = Node(index, address, RestartGuard(0.0, on=False), around)
            channels.append(Channel(node, SimpleNamespace(transport=transport)))
        try:
            await act(Ends(channels, [theirs for _, theirs in pairs]))
        finally:
            for channel, (_, theirs) in zip(channels, pairs, strict=True):
                await channel.close()
                theirs.close()

    asyncio.run(main())


def owed(text: bytes) -> Owed:
    """Something to say, of which all must be heard."""
    bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    poll = FanOut((Acquire("job", text.decode(), 30.0),), range(NODES), 1.0)
    return Owed(Phrase((text,), lambda replies: [Failed.at("node", str(replies))]), poll, bell)


def test_what_is_said_to_all_goes_out_together_with_this_turn_of_the_loop() -> None:
    async def act(ends: Ends) -> None:
        chorus = Chorus(ends.channels)
        chorus.say(owed(b"a"))
        chorus.say(owed(b"b"))
        assert ends.heard() == [b""] * NODES
        await asyncio.sleep(0)
        assert ends.heard() == [b"ab"] * NODES
        await asyncio.sleep(0)
        assert ends.heard() == [b""] * NODES

    with_ends(act)


def test_the_nodes_have_something_to_do_before_all_is_said() -> None:
    async def act(ends: Ends) -> None:
        chorus = Chorus(ends.channels)
        for _ in range(FEW):
            assert ends.heard() == [b""] * NODES
            chorus.say(owed(b"a"))
        assert ends.heard() == [b"a" * FEW] * NODES

    with_ends(act)


def test_what_is_said_to_one_alone_keeps_its_place() -> None:
    """Else a release might overtake its acquire, and replies would go to the wrong ones."""

    async def act(ends: Ends) -> None:
        chorus, alone = Chorus(ends.channels), ends.channels[1]
        said = [owed(text) for text in (b"a", b"b", b"c", b"d")]
        chorus.say(said[0])
        alone.say(said[1])
        chorus.say(said[2])
        alone.say(said[3])
        await asyncio.sleep(0)
        assert ends.heard() == [b"ac", b"abcd", b"ac"]
        assert list(alone.owed) == said

    with_ends(act)


def test_what_a_node_must_be_told_again_keeps_its_place() -> None:
    async def act(ends: Ends) -> None:
        chorus = Chorus(ends.channels)
        first, second = owed(b"a"), owed(b"b")
        chorus.say(first)
        await asyncio.sleep(0)
        ends.heard()
        chorus.say(second)
        ends.answer(0, b"-NOSCRIPT No matching script\r\n")
        await asyncio.sleep(0)
        again = b"".join(load_scripts()) + b"a"
        assert ends.heard() == [b"b" + again, b"b", b"b"]
        assert [each.text for each in ends.channels[0].owed] == [b"b", again]

    with_ends(act)


def test_whose_connection_was_lost_in_this_very_turn_has_failed_and_the_others_are_told() -> None:
    async def act(ends: Ends) -> None:
        chorus, said = Chorus(ends.channels), owed(b"a")
        ends.channels[2].transport.abort()
        await ends.channels[2].lost
        chorus.say(said)
        chorus.disband()
        assert isinstance(said.poll.said(2), Failed)
        assert ends.heard()[:2] == [b"a", b"a"]
        assert said.poll.said(0) is None

    with_ends(act)


def test_nodes_that_are_spoken_to_alone_again_are_not_kept_waiting() -> None:
    async def act(ends: Ends) -> None:
        chorus = Chorus(ends.channels)
        chorus.say(owed(b"a"))
        chorus.disband()
        assert ends.heard() == [b"a"] * NODES
        assert {channel.send_chorus for channel in ends.channels} == {None}

    with_ends(act)


def asked(request: Acquire | Release) -> Owed:
    """A request as the engine puts it, of which all must be heard."""
    bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    return Owed(SPEECH.phrase((request,)), FanOut((request,), range(NODES), 1.0), bell)


async def say_together(ends: Ends, keys: str) -> list[Owed]:
    """Ask all for these locks, in one call."""
    chorus, said = Chorus(ends.channels), [asked(Acquire(key, "me", 30.0)) for key in keys]
    for each in said:
        chorus.say(each)
    await asyncio.sleep(0)
    return said


def commands(text: bytes) -> list[tuple[bytes, int]]:
    """Which scripts were called, each with how many locks."""
    reader = hiredis.Reader()
    reader.feed(text)
    names = {script(name).sha: name.encode() for name in NAMES}
    found = []
    while (words := reader.gets()) is not False:
        found.append((names[words[1]], int(words[2]) // 2))  # nobody waits: two keys each
    return found


def test_calls_of_one_kind_that_follow_one_another_are_made_in_one() -> None:
    """But nothing changes places: a release must not overtake its acquire, nor come behind the next
    one's."""

    async def act(ends: Ends) -> None:
        chorus = Chorus(ends.channels)
        for request in (
            *(Acquire("a", "me", 30.0), Acquire("b", "me", 30.0), Acquire("c", "me", 20.0)),
            *(Release("a", "me"), Release("b", "me"), Release("c", "me", wake=False)),
            *(Acquire("a", "you", 30.0), Release("a", "you"), Acquire("a", "me", 30.0)),
        ):
            chorus.say(asked(request))
        await asyncio.sleep(0)
        heard = ends.heard()
        assert len(set(heard)) == 1
        assert commands(heard[0]) == [
            *((b"votes", 2), (b"vote", 1), (b"unvotes", 2), (b"unvote", 1)),
            *((b"vote", 1), (b"unvote", 1), (b"vote", 1)),
        ]

    with_ends(act)


def test_each_has_its_own_part_of_the_reply() -> None:
    async def act(ends: Ends) -> None:
        said = await say_together(ends, "abcd")
        held = b"*2\r\n:1000\r\n$3\r\nyou\r\n"
        ends.answer(1, b"*4\r\n:5\r\n" + held + b"-OOM no room\r\n:7\r\n")
        answers = [each.poll.said(1) for each in said]
        refused = Failed.at("redis", "OOM no room")
        assert answers == [Granted(5), Held(1.0, False, "you"), refused, Granted(7)]
        assert not ends.channels[1].owed
        assert len(ends.channels[0].owed) == len(said)

    with_ends(act)


def test_an_error_is_that_of_each_and_whoever_lacks_the_script_says_it_again_alone() -> None:
    async def act(ends: Ends) -> None:
        said = await say_together(ends, "ab")
        ends.heard()
        ends.answer(0, b"-BUSY with something else\r\n")
        assert [each.poll.said(0) for each in said] == (
            [Failed.at("redis", "BUSY with something else")] * 2
        )
        ends.answer(1, b"-NOSCRIPT No matching script\r\n")
        await asyncio.sleep(0)
        again = b"".join(load_scripts())
        assert ends.heard()[1] == again + said[0].text + again + said[1].text
        assert [each.poll.said(1) for each in said] == [None, None]

    with_ends(act)


@pytest.mark.parametrize("why", [b"NOPERM not this key", b"CROSSSLOT not together"])
def test_what_one_lock_may_be_refused_for_is_said_again_of_each_alone(why: bytes) -> None:
    """But not an acquire whose release has gone out already."""

    async def act(ends: Ends) -> None:
        chorus = Chorus(ends.channels)
        said = [asked(Acquire(key, f"by-{key}", 30.0)) for key in "ab"]
        for each in said:
            chorus.say(each)
        await asyncio.sleep(0)
        chorus.say(asked(Release("a", "by-a")))
        await asyncio.sleep(0)
        ends.heard()
        ends.answer(1, b"-" + why + b"\r\n")
        await asyncio.sleep(0)
        assert ends.heard()[1] == said[1].text
        assert isinstance(said[0].poll.said(1), Failed)
        ends.answer(1, b":-1\r\n-" + why + b"\r\n")
        assert isinstance(said[1].poll.said(1), Failed)
        assert not ends.channels[1].owed

    with_ends(act)


@pytest.mark.parametrize(
    "reply", [b"*1\r\n:5\r\n", b"*3\r\n:5\r\n:6\r\n:7\r\n", b":5\r\n", b"$2\r\nOK\r\n"]
)
def test_a_reply_to_more_than_was_asked_or_to_less_is_believed_by_nobody(reply: bytes) -> None:
    async def act(ends: Ends) -> None:
        said = await say_together(ends, "ab")
        ends.answer(0, reply)
        assert all(isinstance(each.poll.said(0), Failed) for each in said)
        assert ends.channels[0].lost.done()

    with_ends(act)


def test_a_ctrl_c_among_replies_leaves_nobody_to_hear_that_of_another() -> None:
    async def act(ends: Ends) -> None:
        said = await say_together(ends, "abc")

        def struck(number: int) -> Answer:
            raise KeyboardInterrupt

        said[1].number = struck
        with pytest.raises(KeyboardInterrupt):
            ends.answer(0, b"*3\r\n:5\r\n:6\r\n:7\r\n")
        assert ends.channels[0].lost.done()
        assert not ends.channels[0].owed

    with_ends(act)


def test_a_ctrl_c_between_two_nodes_leaves_none_out_of_step() -> None:
    """Else a reply would go to the request before its own, and might be taken for a vote."""

    async def act(ends: Ends) -> None:
        chorus, first = Chorus(ends.channels), ends.channels[0]
        write = first.write

        def struck(text: bytes) -> None:
            write(text)
            raise KeyboardInterrupt

        first.write = struck  # type: ignore[method-assign]
        chorus.say(owed(b"a"))
        with pytest.raises(KeyboardInterrupt):
            chorus._send()
        first.write = write  # type: ignore[method-assign]
        await asyncio.gather(*(channel.lost for channel in ends.channels))

    with_ends(act)


FILES = tuple(
    f"/{name}.py"
    for name in ("redis/channel", "redis/chorus", "redis/owed", "redis/phrases", "core/fanout")
)
"""Those that speak to the nodes."""


@pytest.mark.parametrize("all_together", [True, False])
def test_a_ctrl_c_at_any_line_leaves_no_connection_out_of_step(all_together: bool) -> None:
    """It is lost, or as many commands have gone out as there are replies owed."""

    async def act(ends: Ends, line: int) -> bool:
        chorus = Chorus(ends.channels) if all_together else ends.channels[0]
        strike, said = Strike(line, FILES), [asked(Acquire(key, "me", 30.0)) for key in "ab"]
        try:
            with strike:
                for each in said:
                    chorus.say(each)
                chorus._send()
        except KeyboardInterrupt:
            assert strike.struck
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for channel, heard in zip(ends.channels, ends.heard(), strict=True):
            locks = sum(count for _, count in commands(heard))
            assert channel.lost.done() or locks == len(channel.owed)
        return strike.struck

    assert lines_struck(act) > 10


@pytest.mark.parametrize(
    "reply",
    [b"*2\r\n:5\r\n:6\r\n", b"*2\r\n-OOM no room\r\n:5\r\n", b"-NOSCRIPT No such script\r\n"],
)
def test_a_ctrl_c_at_any_line_while_it_hears_forgets_nobody(reply: bytes) -> None:
    """Whoever asked has an answer, or is still owed one."""

    async def act(ends: Ends, line: int) -> bool:
        strike, said = Strike(line, FILES), await say_together(ends, "ab")
        try:
            with strike:
                ends.answer(0, reply)
        except KeyboardInterrupt:
            assert strike.struck
        still_owed = [each.poll for each in ends.channels[0].owed if isinstance(each, Owed)]
        assert all(each.poll.said(0) or each.poll in still_owed for each in said)
        return strike.struck

    assert lines_struck(act) > 10


def lines_struck(act: Callable[[Ends, int], Awaitable[bool]]) -> int:
    """Do it again and again, struck at one line after the other; gives how many there were."""
    lines, struck = 0, True
    while struck:

        async def once(ends: Ends, line: int = lines) -> None:
            nonlocal struck
            struck = await act(ends, line)

        with_ends(once)
        lines += struck
    return lines


def test_the_store_speaks_to_all_together_while_all_are_there(three: RedisMasters) -> None:
    """To one alone if no other is meant, and to those that are left while one is gone."""

    async def main() -> None:
        async with AsyncClient(three.url + "?restart_guard=off") as client:
            store = client._driver._store
            assert isinstance(store, AsyncRedisStore)
            look = (Inspect("job"),), clock() + A_WHILE
            async with asyncio.timeout(LIMIT):
                while store._chorus is None:
                    await store.ask(*look)
            asking = asyncio.ensure_future(store._perform(FanOut(look[0], (1,), look[1])))
            await asyncio.sleep(0)
            assert [len(each.owed) for each in store._channels if each] == [0, 1, 0]
            await asking
            channel = store._channels[1]
            assert channel is not None
            channel.transport.abort()
            await channel.lost
            await asyncio.sleep(0)
            assert store._chorus is None
            async with asyncio.timeout(LIMIT):
                while store._chorus is None:
                    await store.ask(*look)

    asyncio.run(main())


def test_many_tasks_cost_the_servers_few_calls(three: RedisMasters) -> None:
    """And each gets what it asked for, also if the servers have forgotten the scripts meanwhile."""

    async def pairs(client: AsyncClient, name: str) -> None:
        for _ in range(3):
            async with client.lock(name) as lease:
                assert lease.held

    async def main() -> None:
        async with AsyncClient(three.url + "?restart_guard=off") as client:
            async with client.lock("warm-up"):
                pass
            made = [MANY * 3 * 2] * NODES
            give_up_at = clock() + LIMIT
            while max(made) >= MANY * 3 * 2 / 4:  # nodes that were late are asked again, one by one
                assert clock() < give_up_at, made
                before = [calls(server) for server in three.servers]
                await asyncio.gather(*(pairs(client, f"job-{n}") for n in range(MANY)))
                made = [calls(server) - n for server, n in zip(three.servers, before, strict=True)]
            for server in three.servers:
                server.command("SCRIPT", "FLUSH")
            await asyncio.gather(*(pairs(client, f"job-{n}") for n in range(MANY)))
            assert [info async for info in client.leases()] == []

    asyncio.run(main())


def calls(server: RedisServer) -> int:
    """How many calls of scripts it has counted."""
    return int(server.info("commandstats")["cmdstat_evalsha"].split(",")[0].removeprefix("calls="))
