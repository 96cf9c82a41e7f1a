"""What is said to the cluster for one question of a task, and what comes back.

1. Every call has a limit: see `limits`.
2. Whoever is cancelled says nothing more. But a call that is under way is not cut short, and its
   reply, if it comes within `GRACE`, is still noted in the books. A call that takes longer goes on
   without us, to its limit at the most: `when_over` tells, so that nothing overtakes it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import grpc

from holdfast.core.messages import Failed
from holdfast.engines.etcd.failover import Failover
from holdfast.engines.etcd.limits import Limits
from holdfast.engines.etcd.lines import Line, Lines
from holdfast.engines.etcd.phrases import Call, KeepAlives
from holdfast.engines.etcd.protocol import LEASE_KEEP_ALIVE, LeaseKeepAliveRequest
from holdfast.engines.etcd.replies import Refused, Rejected, Trouble, accepted, judge
from holdfast.engines.etcd.speech import Talk

T = TypeVar("T")

GRACE = 0.2
"""How long a cancellation may take: in that time, an answer that is on its way comes in."""


class Conversation:
    """One question's, until an instant."""

    def __init__(self, lines: Lines, limits: Limits, until: float) -> None:
        self._lines, self._limits, self._until = lines, limits, until
        self._clock = limits.clock
        self._cancelled: tuple[Any, ...] | None = None
        """What the cancellation says, once there is one."""
        self._left_behind: list[Any] = []
        """Calls that go on without us."""

    async def talk_over(self, begin: Callable[[], Talk[T]], *, once: bool = False) -> T | Failed:
        """Have a talk with one endpoint after the other, until one of them answers."""
        endpoints = Failover(self._lines, self._clock, self._until, once=once)
        for line, give_up_at in endpoints:
            talk = begin()
            try:
                result = await self._converse(talk, line, give_up_at)
            except Trouble as trouble:
                pause = endpoints.gave_trouble(line, trouble)
                await asyncio.sleep(min(pause, max(0.0, self._until - self._clock())))
            except Rejected as refusal:
                return Failed.at(line.name, str(refusal), refusal.heals_in)
            else:
                self._lines.prefer(line)
                return result
            finally:
                talk.close()
        return endpoints.failure

    def obey(self) -> None:
        """Go no further, if we were cancelled."""
        if self._cancelled is not None:
            raise asyncio.CancelledError(*self._cancelled)

    def when_over(self, tell: Callable[[], None]) -> None:
        """Call that when nothing is under way any more: now, unless something was left behind."""
        if not self._left_behind:
            tell()
            return
        under_way = set(self._left_behind)

        def look(sent: Any) -> None:
            self._limits.lift(sent)
            under_way.discard(sent)
            if not under_way:
                tell()

        for sent in self._left_behind:
            sent.add_done_callback(look)

    async def _converse(self, talk: Talk[T], line: Line, until: float) -> T:
        try:
            step = next(talk)
            while True:
                step = talk.send(await self._perform(step, line, until))
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _perform(self, step: Call | list[Call] | KeepAlives, line: Line, until: float) -> Any:
        self.obey()
        if self._lines.needs_login:
            await self._log_in(line, until)
        if isinstance(step, Call):
            return await self._call(step, line, until)
        if isinstance(step, KeepAlives):
            return await self._hear(_begin_keep_alive(self._lines, step, line), until)
        if len(step) == 1:
            return [await self._call(step[0], line, until)]
        replies = await asyncio.gather(
            *(self._call(each, line, until) for each in step), return_exceptions=True
        )
        for reply in replies:
            # Another one: this frame, which keeps the first, would be kept by it.
            if isinstance(reply, Trouble):
                raise Trouble(str(reply), passing=reply.passing)
            if isinstance(reply, Rejected):
                raise Rejected(str(reply), reply.heals_in)
            if isinstance(reply, BaseException):  # the client was closed meanwhile
                raise reply
        return replies

    async def _call(self, call: Call, line: Line, until: float) -> Any:
        reply = await self._try(call, line, until)
        if isinstance(reply, Refused) and reply.wants_login and self._lines.cluster.user:
            await self._log_in(line, until)
            reply = await self._try(call, line, until)
        return reply

    async def _try(self, call: Call, line: Line, until: float) -> Any:
        sent = line[call.method](call.request, metadata=self._lines.metadata)
        try:
            return await self._hear(sent, until)
        except grpc.RpcError as error:
            return judge(error)

    async def _log_in(self, line: Line, until: float) -> None:
        self.obey()
        self._lines.logged_in("")
        reply = accepted(await self._try(self._lines.introduction, line, until))
        self._lines.logged_in(reply.token)
        self.obey()

    async def _hear(self, sent: Any, until: float) -> Any:
        """The reply to a call, or what a task has to tell."""
        self._limits.set(sent, until)
        try:
            await _is_over(sent)
        except asyncio.CancelledError as error:
            self._cancelled = error.args
            await self._let_finish(sent)
            if not sent.done():
                self._left_behind.append(sent)
                raise
        self._limits.lift(sent)
        if sent.cancelled() and self._clock() >= until:
            raise Trouble("did not answer in time")
        try:
            return await sent  # which is cancelled if the client was closed meanwhile
        finally:
            del sent  # an error of a task, which it keeps, would keep this frame, and so the task

    async def _let_finish(self, sent: Any) -> None:
        """Wait for a reply that nobody wants any more, but not for long."""
        give_up_at = self._clock() + GRACE
        while not sent.done() and self._clock() < give_up_at:
            with suppress(asyncio.CancelledError, TimeoutError):  # it is being cancelled already
                async with asyncio.timeout(GRACE):
                    await _is_over(sent)


def _begin_keep_alive(lines: Lines, batch: KeepAlives, line: Line) -> "asyncio.Task[list[int]]":
    keeping = asyncio.create_task(_keep_alive(lines, batch, line))
    keeping.add_done_callback(_note_error)
    return keeping


async def _keep_alive(lines: Lines, batch: KeepAlives, line: Line) -> list[int]:
    """Not a method: its error would keep the conversation, and that the task which has the error,
    and so the stream; and no connection can be closed while its streams are kept."""
    requests = [LeaseKeepAliveRequest(ID=lease) for lease in batch.leases]
    stream = line[LEASE_KEEP_ALIVE](iter(requests), metadata=lines.metadata)
    try:
        ttls = [reply.TTL async for reply in stream]
    except grpc.RpcError as error:
        raise lines.judge(error).error from None
    if len(ttls) < len(requests):
        raise Trouble("did not answer for every lease")
    return ttls


async def _is_over(sent: Any) -> None:
    """Wait for the end of a call or a task, which goes on if we are cancelled. `asyncio.wait` would
    need a task for a call, and take longer for a task."""
    bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    sent.add_done_callback(partial(_notify, bell))
    await bell


def _notify(bell: "asyncio.Future[None]", sent: object) -> None:
    if not bell.done():
        bell.set_result(None)


def _note_error(task: "asyncio.Task[Any]") -> None:
    """Nobody may be there any more to hear of it, which asyncio would complain of."""
    if not task.cancelled():
        task.exception()
