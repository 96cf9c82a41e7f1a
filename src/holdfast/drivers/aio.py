"""The driver for asyncio: performs each effect by awaiting.

Rules:

1. A cancellation is thrown into the algorithm, which then yields its cleanup. The cleanup runs in a
   task of its own, shielded; further cancellations of the caller are noted, not obeyed, until it is
   done, and one that reaches the cleanup's own task makes it perform the same effect again.
2. Wake-ups are remembered from `Listen` to `unlisten`, so one that comes early is not missed. They
   may come from any thread.
3. The renewer is one task, started with the first lease, and again if somebody cancels it.
4. A client belongs to the loop that first used it. A forked child starts anew.
"""

import asyncio
import threading
from collections.abc import Collection, Coroutine
from contextlib import nullcontext
from inspect import GEN_CLOSED, getgeneratorstate
from math import inf
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from holdfast.core.effects import Ask, Effect, Sleep, Steps, Subscribe, Wait
from holdfast.core.holding import lose, release_all
from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import HandedOver
from holdfast.core.ports import Engine, StoreHost
from holdfast.core.renewal import RENEWER, renew_for_ever
from holdfast.drivers import common
from holdfast.drivers.common import (
    CLOSE_PATIENCE,
    RESTART_PAUSE,
    clock,
    closed,
    log,
    make_runtime,
    notify_lost,
)
from holdfast.drivers.loss import LossWatch
from holdfast.errors import LockError
from holdfast.events import InternalError

T = TypeVar("T")


class AsyncDriver:
    """Runs the core for one `AsyncClient`."""

    def __init__(self, engine: Engine) -> None:
        self.runtime = make_runtime(engine, nullcontext(), self._unsubscribe, self._wake_renewer)
        self.engine = engine
        self._begin()
        common.survive_forks(self)

    def _begin(self) -> None:
        self.in_use = False
        around = StoreHost(clock, self._notify, log, self._lose, self._notify)
        self._store = self.engine.connect_async(around)
        self._tickets: dict[str, asyncio.Event] = {}
        self._handed_over: dict[str, HandedOver] = {}
        self._watches: WeakKeyDictionary[LeaseState, list[LossWatch]] = WeakKeyDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._renewer: asyncio.Task[None] | None = None
        self.closed = False
        self._closing = asyncio.Event()
        self._running = 0
        self._idle = asyncio.Event()
        self._end: asyncio.Task[None] | None = None

    def current(self) -> "ref[asyncio.Task[Any]] | None":
        """Who is asking: the running task."""
        task = asyncio.current_task()
        return None if task is None else ref(task)

    def run(self, steps: Steps[T]) -> Coroutine[Any, Any, T]:
        """Perform an algorithm to its end, and give its result."""
        if self.closed:
            raise closed()
        self._belong_to_this_loop()
        self.in_use = True
        return self._drive(steps, counts=True)

    async def close(self) -> None:
        """End the waits, give every lease back, stop the renewer, close the store."""
        if not self.closed:
            self._belong_to_this_loop()
            self._end_waits()
            self._end = asyncio.ensure_future(self._close())
        if self._end is None or self._loop is not asyncio.get_running_loop():
            return
        if self._end.cancelled():  # by somebody who cancels all tasks
            self._end = asyncio.ensure_future(self._close())
        await _unstoppable(self._end)  # also for whoever comes second

    async def _close(self) -> None:
        if self._running:
            try:
                await asyncio.wait_for(self._idle.wait(), CLOSE_PATIENCE)
            except TimeoutError:
                self.runtime.emit(
                    InternalError("closing", TimeoutError("an operation is still under way"))
                )
        await self._drive(release_all(self.runtime))
        if self._renewer is not None:
            self._renewer.cancel()
            await asyncio.wait([self._renewer])
        await self._store.close()

    def abandon(self) -> None:
        """Stop without waiting for anything: the client was garbage-collected."""
        self.closed = True
        if self._renewer is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._renewer.cancel)
        self._store.abandon()

    def forked(self) -> None:
        """In a forked child: whatever was held or under way is the parent's."""
        common.mark_all_inherited(self.runtime)
        self._store.forget()
        was_closed = self.closed
        self._begin()
        self.closed = was_closed

    def cancel_on_loss(self, tenure: LeaseState) -> None:
        """Cancel the running task at the moment when the tenure is lost."""
        watch = LossWatch(cast("asyncio.Task[Any]", asyncio.current_task()))
        self._watches.setdefault(tenure, []).append(watch)
        if tenure.is_lost(clock()):
            watch.fire()
        else:
            tenure.watchers += (watch.fire,)

    async def was_cancelled_by_loss(self, tenure: LeaseState, error: BaseException | None) -> bool:
        """Call off `cancel_on_loss`; True if `error` is the cancellation that it made."""
        watches = self._watches.get(tenure, [])
        return bool(watches) and await watches.pop().call_off(error)

    def _belong_to_this_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._thread = threading.get_ident()
        elif self._loop is not loop:
            raise LockError(
                "this AsyncClient belongs to another event loop; make one client for each loop"
            )

    def _end_waits(self) -> None:
        self.closed = True
        self._closing.set()
        for event in self._tickets.values():
            event.set()

    async def _drive(
        self,
        steps: Steps[T],
        thrown: BaseException | None = None,
        *,
        shielded: bool = False,
        counts: bool = False,
    ) -> T:
        """Perform an algorithm; closing waits for those that count."""
        result: object = None
        self._running += counts
        try:
            while True:
                try:
                    effect = steps.send(result) if thrown is None else steps.throw(thrown)
                    thrown = None
                    if type(effect) is Ask and not shielded:
                        result = await self._store.ask(effect.requests, effect.until)
                    else:
                        result = await self._perform(effect)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]  # typed by Steps[T]
                except GeneratorExit:
                    steps.close()  # the event loop is gone: nothing can be performed any more
                    raise
                except BaseException as error:
                    if getgeneratorstate(steps) == GEN_CLOSED:
                        raise  # the algorithm itself has ended with this
                    if not isinstance(error, Exception) and not shielded:
                        return await _unstoppable(self._drive(steps, error, shielded=True))
                    thrown = error
        finally:
            self._running -= counts
            if self.closed and not self._running:
                self._idle.set()

    async def _perform(self, effect: Effect) -> object:
        if isinstance(effect, Ask):
            return await self._ask_again(effect)
        if isinstance(effect, Wait):
            woken = await self._wait(self._tickets[effect.waiter_id], effect.until)
            return self._handed_over.pop(effect.waiter_id, woken)
        if isinstance(effect, Sleep):
            return await self._wait(self._closing, effect.until)
        if isinstance(effect, Subscribe):
            self._tickets[effect.waiter_id] = asyncio.Event()
        else:
            notify_lost(self.runtime, effect.watchers)
        return None

    async def _ask_again(self, effect: Ask) -> object:
        """Ask, as part of a cleanup: whoever cancels that has it asked again."""
        while True:
            try:
                return await self._store.ask(effect.requests, effect.until)
            except asyncio.CancelledError:
                if clock() >= effect.until:
                    raise

    async def _wait(self, event: asyncio.Event, until: float) -> bool:
        if self.closed:
            raise closed()
        woken = True
        try:
            async with asyncio.timeout(None if until == inf else until - clock()):
                await event.wait()
        except TimeoutError:
            woken = False
        if self.closed:
            raise closed()
        event.clear()
        return woken

    def _notify(self, waiter_id: str, word: HandedOver | None = None) -> None:
        if threading.get_ident() == self._thread:
            self._ring_here(waiter_id, word)
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring_here, waiter_id, word)

    def _lose(self, holders: Collection[str]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lose, self.runtime, holders)

    def _ring_here(self, waiter_id: str, word: HandedOver | None = None) -> None:
        event = self._tickets.get(waiter_id)
        if event is not None:
            if word is not None:
                self._handed_over[waiter_id] = word
            event.set()

    def _unsubscribe(self, waiter_id: str) -> None:
        self._tickets.pop(waiter_id, None)
        self._handed_over.pop(waiter_id, None)

    def _wake_renewer(self) -> None:
        if self.closed or self._loop is None:
            return
        if self._renewer is None or self._renewer.done():
            self._renewer = self._loop.create_task(self._renew(), name="holdfast-renewer")
            self._renewer.add_done_callback(self._renewer_ended)
        self._ring_here(RENEWER)

    def _renewer_ended(self, renewer: "asyncio.Task[None]") -> None:
        """Somebody cancelled it; while there is something to be done, it is still needed.

        Not at once: a loop that is being shut down must not get a new task.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_later(RESTART_PAUSE, self._restart_renewer)

    def _restart_renewer(self) -> None:
        schedule = self.runtime.schedule
        if schedule.pending_releases or any(schedule.held()):
            self._wake_renewer()

    async def _renew(self) -> None:
        """Run the renewer until the client is closed; should it ever fail, start it again."""
        while not self.closed:
            try:
                await self._drive(renew_for_ever(self.runtime))
            except Exception as error:  # noqa: BLE001 - a defect must not end all renewals
                if not self.closed:
                    self.runtime.emit(InternalError("the renewer", error))
                    await asyncio.sleep(RESTART_PAUSE)


async def _unstoppable(work: "Coroutine[Any, Any, T] | asyncio.Task[T]") -> T:
    """Do the work in a task of its own; a cancellation waits until it is done, then goes on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
