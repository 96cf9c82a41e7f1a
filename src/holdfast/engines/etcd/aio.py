"""The way to etcd for asyncio.

Whatever is asked for a holder waits until all that was said for the same holder before is over: so
a release can never overtake what it is to undo.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import grpc.aio

from holdfast.core.messages import Acquire, Answer, Failed, Held, Release, Request, Write
from holdfast.core.ports import StoreHost
from holdfast.engines.etcd.books import Books, Stake
from holdfast.engines.etcd.conversation import Conversation
from holdfast.engines.etcd.limits import Limits
from holdfast.engines.etcd.lines import FAREWELL, Cluster, Lines, keep_for_ever
from holdfast.engines.etcd.phrases import holder_of
from holdfast.engines.etcd.speech import Speech, Talk
from holdfast.engines.etcd.tasks import AsyncAttendant
from holdfast.engines.etcd.vigil import TICK, Vigil


class AsyncEtcdStore:
    """One cluster, for all tasks of a client."""

    def __init__(
        self, cluster: Cluster, around: StoreHost, stakes: dict[str, Stake] | None = None
    ) -> None:
        self._clock = around.clock
        self._books = Books(around.notify, around.clock, stakes)
        self._vigil = Vigil(self._books.call, around.notify)
        self._speech = Speech(self._books, self._vigil)
        self._lines = Lines(cluster, grpc.aio, around.emit, grpc.aio.Metadata)
        self._begin()

    def _begin(self) -> None:
        self._attendants: list[AsyncAttendant] = []
        """The last one attends; those before it are taking their leave."""
        self._busy: dict[object, asyncio.Future[Any]] = {}
        self._limits = Limits(self._clock)
        self._alarm: asyncio.TimerHandle | None = None
        """Goes off when a spare is of no use any more."""

    async def ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        """Answer each request; `Failed` for what could not be answered by `until`."""
        first = requests[0]
        once = isinstance(first, Write)  # what may have been done must not be done again
        holder = holder_of(requests) or object()
        under_way = self._busy.get(holder)
        if under_way is not None:
            await asyncio.wait([under_way], timeout=max(0.0, until - self._clock()))
        over = self._busy[holder] = asyncio.get_running_loop().create_future()
        conversation = Conversation(self._lines, self._limits, until)
        try:
            talk = partial(self._speech.talk, requests, {})
            answers = await conversation.talk_over(talk, once=once)
        finally:
            conversation.when_over(partial(self._end, holder, over))
        if isinstance(answers, Failed):
            answers = [answers] * len(requests)
        if type(answers[0]) is Held and isinstance(first, Acquire) and first.queue:
            self._attend()
        if isinstance(first, Release):
            self._mind_spares()
        conversation.obey()
        return answers

    def _end(self, holder: object, over: "asyncio.Future[None]") -> None:
        over.set_result(None)
        if self._busy.get(holder) is over:
            del self._busy[holder]

    async def close(self) -> None:
        """Revoke what is left, and close every connection."""
        for attendant in self._attendants:
            await attendant.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        await self._until_idle()
        await self._revoke(self._books.take_all())
        for line in self._lines.hang_up():
            await line.channel.close()
        await self._until_idle()  # whatever was under way is cut short by that
        if not self._busy:  # or somebody would wait without a limit
            self._limits.stop()

    async def _until_idle(self) -> None:
        if self._busy:
            await asyncio.wait(list(self._busy.values()), timeout=FAREWELL)

    def abandon(self) -> None:
        """Let go without waiting: nobody is there to wait. A channel closes when it is dropped."""
        for attendant in self._attendants:
            attendant.abandon()
        self._books.spares.begin()  # those that there are end by themselves
        self._lines.hang_up()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's."""
        keep_for_ever(*self._attendants, self._busy, self._limits)
        self._lines.forget()
        self._books.begin()
        self._vigil.begin()
        self._begin()

    def _attend(self) -> None:
        """See to it that those who wait are woken, and keep their places."""
        if not self._attendants or self._attendants[-1].over:
            attendant = AsyncAttendant(self._lines, self._vigil, self._keep_places)
            self._attendants = [*(each for each in self._attendants if each.alive), attendant]

    async def _keep_places(self) -> bool:
        """Keep the places of those who wait; False if nobody does any more."""
        if self._books.anybody_waits():
            await self._talk_over(self._speech.keep_session, self._clock() + TICK)
            return True
        await self._talk_over(self._speech.end_sessions, self._clock() + FAREWELL)
        return self._books.anybody_waits()

    def _mind_spares(self) -> None:
        """See to it that spares which nobody wants are revoked."""
        due_in = self._books.spares.due_in()
        if due_in is not None and self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(due_in, self._sweep)

    def _sweep(self) -> None:
        self._alarm = None
        useless = self._books.spares.take_useless()
        if useless:
            sweeping = asyncio.create_task(self._revoke(useless))
            self._busy[sweeping] = sweeping
            sweeping.add_done_callback(self._busy.pop)
        self._mind_spares()

    async def _revoke(self, leases: list[int]) -> None:
        """Revoke leases that nobody needs any more, as far as that can be told."""
        if leases:
            await self._talk_over(partial(self._speech.revoke, leases), self._clock() + FAREWELL)

    async def _talk_over(self, begin: Callable[[], Talk[None]], until: float) -> None:
        """Say something that nobody has asked for."""
        conversation = Conversation(self._lines, self._limits, until)
        await conversation.talk_over(begin)
        conversation.obey()
