"""The way to Redis for asyncio: one connection to each node, shared by all tasks.

1. What was sent first is carried out first, so a release can never overtake its acquire.
2. A node whose oldest answer is overdue is *stuck*: it is skipped, not waited for, until it has
   caught up. Only releases still go out to it. Its connection is not closed, because what its
   kernel has taken in would be carried out all the same.
3. A node that is being connected to is not waited for either, once there is a quorum without it.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from itertools import chain
from typing import Any

from holdfast.core.fanout import FanOut, Pause
from holdfast.core.messages import Acquire, Answer, Extend, Failed, Held, Release, Request, Write
from holdfast.core.quorum import Quorum
from holdfast.engines.redis.channel import Channel, Connection, Question
from holdfast.engines.redis.chorus import Chorus
from holdfast.engines.redis.conversation import Conversations
from holdfast.engines.redis.deadlines import Bell, Deadlines
from holdfast.engines.redis.ears import Ears
from holdfast.engines.redis.nodes import (
    AT_WORK,
    CONNECT_TIMEOUT,
    REDIAL_AFTER,
    SILENT,
    Fleet,
    Node,
    first_contact_until,
)
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Reply, failed
from holdfast.engines.redis.sockets import BROKEN, explain
from holdfast.engines.redis.speech import Speech

_NOBODY: set[int] = set()


class AsyncRedisStore:
    """One server, or a quorum of several."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._nodes, self._clock = fleet.nodes, fleet.around.clock
        self._quorum, self._enough = fleet.quorum, len(fleet.nodes) // 2 + 1
        self._direct = fleet.direct
        self._begin()

    def _begin(self) -> None:
        self._channels: list[Channel | None] = [None] * len(self._nodes)
        self._chorus: Chorus | None = None
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._redial_at = [0.0] * len(self._nodes)
        self._ears = Ears(self._fleet)
        self._conversations = Conversations(self._fleet)
        self._deadlines = Deadlines(self._clock, self._owed)
        self._look_after = 0.0
        self._skipped = _NOBODY
        self._fresh = True
        self._met = False
        self._closed = False

    def ask(
        self, requests: Sequence[Request], until: float
    ) -> "Coroutine[Any, Any, Sequence[Answer]]":
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request = requests[0]
        if type(request) is Release or (
            type(request) is Acquire and (not request.queue or self._fleet.speech.listening)
        ):
            if self._quorum is not None:
                return self._ask_all(self._quorum, requests, until)
            speech, channel = self._direct, self._channels[0]
            if speech is not None and channel is not None and len(requests) == 1:
                return self._ask_directly(speech, channel, request, requests, until)
        return self._ask_in_full(requests, until)

    async def _ask_in_full(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        request = requests[0]
        if type(request) is Acquire and request.queue and not self._fleet.speech.listening:
            if self._fleet.wakes:
                await self._ears.open(until)
            else:
                until = self._fleet.time_to_answer(until)
        if type(request) is Write:
            return await self._conversations.ask(requests, until)
        if self._quorum is not None:
            return await self._ask_all(self._quorum, requests, until)
        poll = FanOut(requests, (0,), until)
        await self._perform(poll)
        answers = self._fleet.answers(poll)
        self._fleet.note(request, answers[0])
        return answers

    async def _ask_directly(
        self,
        speech: Speech,
        channel: Channel,
        request: Acquire | Release,
        requests: Sequence[Request],
        until: float,
    ) -> Sequence[Answer]:
        """Ask a single server, in the usual case: N = 1 must not pay for the rest. `requests` are
        this one, in the tuple that it came in: a thousand tasks need not have another each."""
        if channel.is_full(self._clock):
            return await self._ask_in_full(requests, until)
        bell: Bell = channel.loop.create_future()
        channel.say(Question(speech.command(request), requests, bell, until))
        if until < self._deadlines.next:
            self._deadlines.expect(until)
        reply = await bell
        answer = speech.read(request, reply)
        if answer is None:
            return await self._unread(channel, request, until, reply)
        if channel.node.trouble:
            channel.node.is_well()
        if self._fleet.waiting or type(answer) is Held:
            self._fleet.note(request, answer)
        return (answer,)

    async def _unread(
        self, channel: Channel, request: Acquire | Release, until: float, reply: Reply
    ) -> Sequence[Answer]:
        """There is no answer in the reply."""
        self._fleet.waiting.discard(request.holder)
        if reply is None:
            channel.note_silence()
            channel.node.is_in_trouble(SILENT)
            return (Failed.at(channel.node.name, SILENT),)
        if isinstance(reply, ConnectionError):
            return (Failed.at(channel.node.name, str(reply)),)
        return await self._ask_in_full((request,), until)

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        self._deadlines.stop()
        connections = self._connections()
        tasks = [*self._dials.values(), *self._ears.tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for connection in {*connections, *self._connections()}:
            await connection.close()

    def abandon(self) -> None:
        """Close every connection without waiting: nobody is there to wait."""
        self._closed = True
        for task in [*self._dials.values(), *self._ears.tasks]:
            loop = task.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        for connection in self._connections():
            connection.abandon()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        for connection in self._connections():
            connection.forget()
        self._fleet.forked()
        self._begin()

    def _connections(self) -> list[Connection]:
        return [
            *filter(None, self._channels),
            *self._ears.subscriptions.values(),
            *self._conversations.channels,
        ]

    async def _ask_all(
        self, quorum: Quorum, requests: Sequence[Request], until: float
    ) -> Sequence[Answer]:
        steps = quorum.ask(requests, until)
        try:
            while True:
                effect = next(steps)
                if isinstance(effect, Pause):
                    await asyncio.sleep(effect.until - self._clock())
                else:
                    await self._perform(effect)
        except StopIteration as stop:
            answers: Sequence[Answer] = stop.value
        self._fleet.note(requests[0], answers[0])
        return answers

    async def _perform(self, poll: FanOut) -> None:
        """Say it to all, then listen until it is over or its time is."""
        if None in self._channels:
            await self._connect(poll)
        bell: Bell = asyncio.get_running_loop().create_future()
        owed = Owed(self._fleet.speech.phrase(poll.requests), poll, bell)
        now = self._clock()
        if now > self._look_after or self._skipped:
            self._look(now)
        if self._chorus and not self._skipped and len(poll.nodes) == len(self._nodes):
            self._chorus.say(owed)
        else:
            for index in poll.nodes:
                self._say(index, owed)
        try:
            if not poll.over:
                if poll.until < self._deadlines.next:
                    self._deadlines.expect(poll.until)
                await bell
                if not poll.over:
                    self._note_silence(poll)
        finally:
            poll.over = True  # nobody listens any more

    def _owed(self) -> Iterator[Owed | Question]:
        return chain.from_iterable(channel.owed for channel in self._channels if channel)

    def _voters(self) -> int:
        """How many nodes there is a connection to that have a vote."""
        now = self._clock()
        guards = [channel.node.guard for channel in self._channels if channel is not None]
        return sum(guard.quarantined_until <= now for guard in guards)

    def _note_silence(self, poll: FanOut) -> None:
        for index in poll.nodes:
            channel = self._channels[index]
            if index not in poll.answers and channel is not None:
                channel.note_silence()
                self._nodes[index].is_in_trouble(SILENT)

    def _look(self, now: float) -> None:
        """See who is stuck: a node whose oldest answer is overdue is skipped if there are enough
        others, or if it owes too many."""
        self._look_after = now + AT_WORK
        channels = [channel for channel in self._channels if channel is not None]
        stuck = [channel for channel in channels if channel.is_stuck(now)]
        enough = len(channels) - len(stuck) >= self._enough
        self._skipped = {
            channel.node.index
            for channel in channels
            if (enough and channel in stuck) or channel.is_full(self._clock)
        }

    def _say(self, index: int, owed: Owed) -> None:
        """Say it to a node; to one that is skipped only if it must be heard there all the same."""
        channel = self._channels[index]
        if channel is None or index in self._skipped:
            why = self._nodes[index].trouble or ("still connecting" if channel is None else SILENT)
            owed.poll.take(index, [failed(why)] * len(owed.requests))
            if channel is None or type(owed.requests[0]) is not Release:
                return
        channel.say(owed)

    async def _connect(self, poll: FanOut) -> None:
        """Connect to the nodes that there is no connection to."""
        if self._direct is not None and not self._met and type(poll.requests[0]) is Release:
            return  # nothing was ever said to anybody
        began = self._clock()
        alone = len(self._nodes) == 1
        request_timeout = max(poll.until - began, CONNECT_TIMEOUT) if alone else CONNECT_TIMEOUT
        for node in self._nodes:
            missing = self._channels[node.index] is None and node.index not in self._dials
            if missing and began >= self._redial_at[node.index]:
                self._dials[node.index] = asyncio.ensure_future(self._dial(node, request_timeout))
        while self._dials:
            if self._voters() < self._enough:
                give_up_at = poll.until if alone else first_contact_until(poll, began)
            else:
                give_up_at = poll.until if self._fresh else began
            left = give_up_at - self._clock()
            if left <= 0:
                break
            await asyncio.wait(
                list(self._dials.values()), timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
        self._fresh = False
        if not alone and type(poll.requests[0]) is not Extend:
            poll.until += self._clock() - began  # connecting has a time of its own

    async def _dial(self, node: Node, request_timeout: float) -> None:
        channel = None
        try:
            async with asyncio.timeout(request_timeout):
                channel = Channel(node, await node.address.open_async(request_timeout))
                await channel.greet()
            self._channels[node.index] = channel
            self._met = True
            channels = [each for each in self._channels if each is not None]
            if 1 < len(channels) == len(self._nodes):
                self._chorus = Chorus(channels)
            channel.lost.add_done_callback(lambda lost: self._gone(node, lost.result()))
        except BROKEN as error:
            node.is_in_trouble(explain(error))
            if self._voters() >= self._enough:
                self._redial_at[node.index] = self._clock() + REDIAL_AFTER
        finally:
            self._dials.pop(node.index, None)
            if channel is not None and self._channels[node.index] is not channel:
                channel.transport.abort()

    def _gone(self, node: Node, why: str) -> None:
        self._channels[node.index] = None
        if self._chorus is not None:
            self._chorus.disband()
            self._chorus = None
        if not self._closed:
            node.is_in_trouble(why)
