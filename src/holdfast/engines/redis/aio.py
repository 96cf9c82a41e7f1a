"""The way to Redis for asyncio: one connection to each node, shared by all tasks.

1. What was sent first is carried out first, so a release can never overtake its acquire.
2. A node whose oldest answer is overdue is *stuck*: it is skipped, not waited for, until it has
   caught up. Only releases still go out to it. Its connection is not closed, because what its
   kernel has taken in would be carried out all the same.
3. A node that is being connected to is not waited for either, once there is a quorum without it.
"""

import asyncio
from collections.abc import Sequence

from holdfast.core.messages import (
    Acquire,
    Answer,
    Extend,
    Failed,
    Held,
    Inspect,
    Release,
    Request,
    Write,
)
from holdfast.core.poll import Pause, Poll
from holdfast.core.quorum import Quorum
from holdfast.engines.redis.channel import Channel, Connection, Question, Subscription
from holdfast.engines.redis.conversation import Conversations
from holdfast.engines.redis.deadlines import Bell, Deadlines
from holdfast.engines.redis.link import BROKEN, explain
from holdfast.engines.redis.nodes import (
    AT_WORK,
    CONNECT_TIMEOUT,
    REDIAL_AFTER,
    SILENT,
    Fleet,
    Node,
    accept,
    first_contact_until,
)
from holdfast.engines.redis.owed import Owed
from holdfast.engines.redis.phrases import Reply, failed
from holdfast.engines.redis.speech import Speech

_NOBODY: set[int] = set()


class AsyncRedisStore:
    """One server, or a quorum of several."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._nodes, self._clock = fleet.nodes, fleet.around.clock
        self._quorum = len(fleet.nodes) // 2 + 1
        self._direct = fleet.direct
        self._begin()

    def _begin(self) -> None:
        self._channels: list[Channel | None] = [None] * len(self._nodes)
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._redial_at = [0.0] * len(self._nodes)
        self._ears: list[asyncio.Task[None]] = []
        self._subscriptions: dict[int, Subscription] = {}
        self._conversations = Conversations(self._fleet)
        self._ready = asyncio.Event()
        self._deadlines = Deadlines(self._clock)
        self._look_after = 0.0
        self._skipped = _NOBODY
        self._fresh = True
        self._closed = False

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        request = requests[0]
        if type(request) is Acquire and request.queue and not self._fleet.speech.listening:
            if self._fleet.wakes:
                await self._listen(until)
            else:
                until = self._fleet.time_to_answer(until)
        if self._direct is not None and len(requests) == 1:
            channel = self._channels[0]
            if channel is not None and (type(request) is Acquire or type(request) is Release):
                answer = await self._ask_directly(self._direct, channel, request, until)
                if answer is not None:
                    return (answer,)
        if type(request) is Write:
            return await self._conversations.ask(requests, until)
        quorum = self._fleet.quorum
        if quorum is None:
            poll = Poll(requests, (0,), until)
            await self._perform(poll)
            answers = self._fleet.answers(poll)
        else:
            answers = await self._ask_all(quorum, requests, until)
        self._fleet.note(request, answers[0])
        return answers

    async def _ask_directly(
        self, speech: Speech, channel: Channel, request: Acquire | Release, until: float
    ) -> Answer | None:
        """Ask a single server, in the usual case; None if it is not that."""
        if channel.is_full(self._clock):
            return None
        bell: Bell = asyncio.get_running_loop().create_future()
        question = Question(bell, (request,), until)
        channel.ask(speech.command(request), question)
        self._deadlines.add(bell, question)
        try:
            reply = await bell
        finally:
            self._deadlines.remove(bell)
        answer = speech.read(request, reply)
        if answer is None:
            return self._unread(channel, reply)
        if channel.node.trouble:
            channel.node.is_well()
        if self._fleet.waiting or type(answer) is Held:
            self._fleet.note(request, answer)
        return answer

    def _unread(self, channel: Channel, reply: Reply) -> Answer | None:
        """What it means that there is no answer in a reply; None: it is to be asked in full."""
        if reply is None:
            channel.note_silence()
            channel.node.is_in_trouble(SILENT)
            return Failed.at(channel.node.name, SILENT)
        if isinstance(reply, ConnectionError):
            return Failed.at(channel.node.name, str(reply))
        return None

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        self._deadlines.stop()
        tasks = [*self._dials.values(), *self._ears]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for connection in self._connections():
            await connection.close()

    def abandon(self) -> None:
        """Close every connection without waiting: nobody is there to wait."""
        for task in [*self._dials.values(), *self._ears]:
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
            *self._subscriptions.values(),
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
            return answers

    async def _perform(self, poll: Poll) -> None:
        """Say it to all, then listen until it is over or its time is."""
        if None in self._channels:
            await self._connect(poll)
        bell: Bell = asyncio.get_running_loop().create_future()
        owed = Owed(self._fleet.speech.phrase(poll.requests), poll, bell)
        now = self._clock()
        if now > self._look_after or self._skipped:
            self._look(now)
        skipped = self._skipped
        for index in poll.nodes:
            channel = self._channels[index]
            if channel is None or index in skipped:
                self._hesitate(channel, index, owed)
            else:
                channel.say(owed)
        try:
            if not poll.over:
                self._deadlines.add(bell, poll)
                await bell
                if not poll.over:
                    self._note_silence(poll)
        finally:
            poll.over = True  # nobody listens any more
            self._deadlines.remove(bell)

    def _voters(self) -> int:
        """How many nodes there is a connection to that have a vote."""
        now = self._clock()
        guards = [channel.node.guard for channel in self._channels if channel is not None]
        return sum(guard.quarantined_until <= now for guard in guards)

    def _note_silence(self, poll: Poll) -> None:
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
        enough = len(channels) - len(stuck) >= self._quorum
        self._skipped = {
            channel.node.index
            for channel in channels
            if (enough and channel in stuck) or channel.is_full(self._clock)
        }

    def _hesitate(self, channel: Channel | None, index: int, owed: Owed) -> None:
        """Say it to a node only if it must be heard there all the same."""
        why = self._nodes[index].trouble or ("still connecting" if channel is None else SILENT)
        owed.poll.take(index, [failed(why)] * len(owed.requests))
        if channel is not None and type(owed.requests[0]) is Release:
            channel.say(owed)

    async def _connect(self, poll: Poll) -> None:
        """Connect to the nodes that there is no connection to."""
        began = self._clock()
        alone = len(self._nodes) == 1
        for node in self._nodes:
            missing = self._channels[node.index] is None and node.index not in self._dials
            if missing and began >= self._redial_at[node.index]:
                self._dials[node.index] = asyncio.ensure_future(self._dial(node))
        while self._dials:
            if self._voters() < self._quorum:
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

    async def _dial(self, node: Node) -> None:
        channel = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                channel = Channel(node, await node.address.open_async(CONNECT_TIMEOUT))
                await self._greet(channel)
            self._channels[node.index] = channel
            channel.lost.add_done_callback(lambda lost: self._gone(node, lost.result()))
        except BROKEN as error:
            node.is_in_trouble(explain(error))
            if self._voters() >= self._quorum:
                self._redial_at[node.index] = self._clock() + REDIAL_AFTER
        finally:
            self._dials.pop(node.index, None)
            if channel is not None and self._channels[node.index] is not channel:
                channel.transport.abort()

    async def _greet(self, channel: Channel) -> None:
        """Ask what must be known before anything else is said."""
        greeting = channel.node.greeting()
        if greeting is not None:
            bell: Bell = asyncio.get_running_loop().create_future()
            poll = Poll((Inspect(""),), (channel.node.index,), self._clock() + CONNECT_TIMEOUT)
            channel.say(Owed(greeting, poll, bell))
            await bell
            accept(poll.answers[channel.node.index])

    def _gone(self, node: Node, why: str) -> None:
        self._channels[node.index] = None
        if not self._closed:
            node.is_in_trouble(why)

    async def _listen(self, until: float) -> None:
        """See to it that we can be woken."""
        if not self._ears:
            self._ears = [asyncio.ensure_future(self._hear(node)) for node in self._nodes]
        try:
            async with asyncio.timeout((until - self._clock()) / 2):
                await self._ready.wait()
        except TimeoutError:
            return  # then we ask again from time to time

    async def _hear(self, node: Node) -> None:
        """Listen to one server, for as long as there is this client."""
        while True:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    writer = await node.address.open_async(CONNECT_TIMEOUT)
                subscription = Subscription(node, self._fleet, self._ready, writer)
                self._subscriptions[node.index] = subscription
                await asyncio.wait((subscription.lost,))
            except BROKEN as error:
                node.is_in_trouble(explain(error))
            self._fleet.deaf(node)
            if not self._fleet.speech.listening:
                self._ready.clear()
            await asyncio.sleep(REDIAL_AFTER)
