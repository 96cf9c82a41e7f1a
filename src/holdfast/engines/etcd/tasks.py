"""Two tasks for a client some of whose tasks wait: one listens to the watches, the other one keeps
the session alive. They end when nobody has waited for a while, and with the client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio

from holdfast.engines.etcd.lines import FAREWELL, Lines
from holdfast.engines.etcd.protocol import WATCH
from holdfast.engines.etcd.replies import Trouble
from holdfast.engines.etcd.vigil import REOPEN_AFTER, TICK, WATCH_FOR, Vigil


class AsyncAttendant:
    """Listens for those who wait, and keeps their places."""

    def __init__(
        self, lines: Lines, vigil: Vigil, keep_places: Callable[[], Awaitable[bool]]
    ) -> None:
        self._lines, self._vigil, self._keep_places = lines, vigil, keep_places
        self._stream: Any = None
        self._listening = asyncio.create_task(self._listen(), name="holdfast-etcd-watch")
        self._keeping = asyncio.create_task(self._keep(), name="holdfast-etcd-session")

    async def stop(self) -> None:
        """End, and wait until it is done."""
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        await self._stop_listening()

    def abandon(self) -> None:
        """End, without waiting."""
        loop = self._keeping.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._keeping.cancel)
            loop.call_soon_threadsafe(self._listening.cancel)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            line = self._lines.current
            if not await self._keep_places():
                await self._stop_listening()
                return
            if line is not self._lines.current and self._stream is not None:
                self._stream.cancel()  # it would be as silent as that endpoint is

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
                    self._vigil.hear(response)
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
    with suppress(TimeoutError):  # a Ctrl-C can make gRPC forget to tell
        async with asyncio.timeout(FAREWELL):
            await stream.code()


def _is_cancelled() -> bool:
    """Whether it is this task that was cancelled; if not, it was the stream."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _sent(outbox: "asyncio.Queue[Any]") -> AsyncIterator[Any]:
    """What is put into the queue, until it is None."""
    while (message := await outbox.get()) is not None:
        yield message
