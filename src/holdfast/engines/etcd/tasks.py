"""Two tasks for a client some of whose tasks wait: one listens to the watches, the other one keeps
the session alive. They end when nobody has waited for a while, and with the client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio

from holdfast.engines.etcd.lines import Lines
from holdfast.engines.etcd.protocol import WATCH
from holdfast.engines.etcd.replies import Trouble
from holdfast.engines.etcd.vigil import REOPEN_AFTER, TICK, WATCH_FOR, Vigil

ENDING = 3.0
"""How long gRPC may take to tell that a stream has ended; a Ctrl-C can make it forget to."""


class AsyncAttendant:
    """Listens for those who wait, and keeps their places."""

    def __init__(
        self, lines: Lines, vigil: Vigil, keep_places: Callable[[], Awaitable[bool]]
    ) -> None:
        self._lines, self._vigil, self._keep_places = lines, vigil, keep_places
        self.over = False
        self._dismissed = asyncio.Event()
        self._stream: Any = None
        self._listening = asyncio.create_task(self._listen(), name="holdfast-etcd-watch")
        self._keeping = asyncio.create_task(self._keep(), name="holdfast-etcd-session")

    @property
    def alive(self) -> bool:
        """Whether it is there, if only to take its leave."""
        return not self._keeping.done()

    async def stop(self) -> None:
        """End, and wait until it is done. What is being said is not cut short: gRPC would take a
        moment more to forget it, and its connection would stay open for as long."""
        self._dismissed.set()
        await asyncio.wait([self._keeping])

    def abandon(self) -> None:
        """End, without waiting."""
        loop = self._keeping.get_loop()
        if self.alive and not loop.is_closed():
            loop.call_soon_threadsafe(self._keeping.cancel)

    async def _keep(self) -> None:
        try:
            while not await self._dismissed_within(TICK):
                line = self._lines.current
                if not await self._keep_places():
                    break
                if line is not self._lines.current and self._stream is not None:
                    self._stream.cancel()  # it would be as silent as that endpoint is
        finally:
            self.over = True
            await self._stop_listening()

    async def _dismissed_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._dismissed.wait()
        return self._dismissed.is_set()

    async def _stop_listening(self) -> None:
        self._listening.cancel()
        await asyncio.wait([self._listening])
        del self._listening, self._stream  # no channel can be closed while its streams are kept

    async def _listen(self) -> None:
        while True:
            outbox: asyncio.Queue[Any] = asyncio.Queue()
            self._stream = stream = self._lines.current[WATCH](
                _sent(outbox), timeout=WATCH_FOR, metadata=self._lines.metadata
            )
            say = outbox.put_nowait
            self._vigil.opened(say)
            try:
                async for response in stream:
                    if not self._vigil.hear(response):
                        break
            except grpc.RpcError as error:
                self._note(error)
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
            finally:
                stream.cancel()
                say(None)
                self._vigil.closed(say)
                await _has_ended(stream)
            await asyncio.sleep(REOPEN_AFTER)

    def _note(self, error: grpc.RpcError) -> None:
        try:
            self._lines.judge(error)
        except Trouble:
            return  # whoever asks next finds out what it is, and where to go


async def _has_ended(stream: Any) -> None:
    """Wait until it is over: before that, its connection cannot be closed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDING):
            await stream.code()


def _is_cancelled() -> bool:
    """Whether it is this task that was cancelled; if not, it was the stream."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _sent(outbox: "asyncio.Queue[Any]") -> AsyncIterator[Any]:
    """What is put into the queue, until it is None."""
    while (message := await outbox.get()) is not None:
        yield message
