"""The driver for asyncio: performs each effect by awaiting.

Rules:

1. A cancellation is thrown into the algorithm, which ends with it. What the engine may still have
   of the caller is among the pending releases then. The caller sends these once (`deliver`), and
   waits for the answer unless it is cancelled again; what is not confirmed is sent by the renewer.
2. Notifications are remembered from `subscribe` to `unsubscribe`, so an early one is not missed.
   They may come from any thread.
3. A client has two tasks, started with its first lease, and again if they are cancelled: the
   renewer, which sends, and the watcher, which waits for deadlines.
4. A client belongs to the loop that first used it; once that loop has ended, it can only be closed.
   A forked child starts anew.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from functools import partial
from math import inf
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from holdfast.core.effects import Ask, Effect, Steps, Wait
from holdfast.core.holding import lose
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.messages import Answer, Request
from holdfast.core.ports import AsyncStore, StoreHost
from holdfast.core.release import deliver, lose_all, send_last
from holdfast.drivers.common import (
    CLOSE_TIMEOUT,
    LAST_LINES,
    LOOPS,
    RESTART_PAUSE,
    SLEEPER,
    Driver,
    call_back,
)
from holdfast.errors import ClientClosed, LockError
from holdfast.events import InternalError

NOTICE = 1 / 6
"""A task that is to be cancelled before its lease ends has this part of the lease's time to end in.
Renewals begin when two thirds are left, so several have failed by then."""


@asynccontextmanager
async def cancel_before_end(
    lease: LeaseState, clock: Callable[[], float], looks: dict[Callable[[], None], float]
) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the body before the lease ends, or at once when it is lost: it then leaves as
    `TimeoutError`. `looks`: what to call when the clock is moved, and by when."""
    loop = asyncio.get_running_loop()
    notice = NOTICE * lease.remaining(clock())
    timer: asyncio.TimerHandle | None = None

    def stop_looking() -> None:
        looks.pop(look, None)
        if timer is not None:
            timer.cancel()

    def look() -> None:
        nonlocal timer
        stop_looking()
        now = clock()
        left = lease.remaining(now) - notice
        if left > 0 and lease.is_held(now):
            timer = loop.call_later(left, look)
            looks[look] = now + left
        else:
            end_now(term)

    async with asyncio.timeout(None) as term:
        lease.callbacks += (look,)
        look()
        try:
            yield term
        finally:
            stop_looking()


def end_now(term: asyncio.Timeout) -> None:
    """Cancel the body within it, if it is not over."""
    with suppress(RuntimeError):  # it is
        term.reschedule(asyncio.get_running_loop().time())


def _end_all(terms: list[asyncio.Timeout]) -> None:
    for term in terms:
        end_now(term)


T = TypeVar("T")

HOOKS_EVERY = 0.01
"""How often closing looks whether the hooks have had all events."""


class AsyncDriver(Driver):
    """Runs the core for one `AsyncClient`."""

    def _begin(self) -> None:
        self.in_use = False
        host = StoreHost(self.runtime.clock, self._notify, self.hooks, self._lose, self._notify_all)
        self._store: AsyncStore = self.engine.connect_async(host)
        self._ask = self._timed_ask if self.runtime.has_hooks else self._store.ask
        self._notifications: dict[str, asyncio.Event] = {}
        self._looks: dict[Callable[[], None], float] = {}
        """What looks whether to cancel a body before its lease ends, and when it does."""
        self._terms: WeakKeyDictionary[LeaseState, list[asyncio.Timeout]] = WeakKeyDictionary()
        """What cancels the bodies of the blocks of a lease, the innermost last."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._running = 0
        self._idle = asyncio.Event()
        self._end: asyncio.Task[None] | None = None
        self._finished = False

    def current(self) -> "asyncio.Task[Any] | None":
        """The caller: the running task."""
        return asyncio.current_task()

    async def run(
        self, steps: Steps[T], spec: LockSpec | None = None, holders: Sequence[str] = ()
    ) -> T:
        """Perform an algorithm to its end, and give its result. Closing waits for that.

        `spec` and `holders`: whose releases it leaves behind if it is cancelled. One try is made to
        deliver them then.
        """
        if self.runtime.closed:
            raise ClientClosed
        self._belong_to_this_loop()
        self.in_use = True
        self._running += 1
        try:
            return await self._drive(steps)
        except asyncio.CancelledError:
            if spec is not None:
                with suppress(ClientClosed):
                    await self._drive(deliver(self.runtime, spec, *holders))
            raise
        finally:
            self._running -= 1
            if self.runtime.closed and not self._running:
                self._idle.set()

    async def finish(
        self, steps: Steps[None], spec: LockSpec | None = None, holders: Sequence[str] = ()
    ) -> None:
        """Perform the second part of a release. If the client is closed meanwhile, its renewer
        does that."""
        try:
            await self.run(steps, spec, holders)
        except ClientClosed:
            return

    async def _drive(self, steps: Steps[T]) -> T:
        try:
            effect = steps.send(None)
            while True:
                try:
                    if type(effect) is Ask:
                        result: object = await self._ask(effect.requests, effect.until)
                    else:
                        result = await self._pause(effect)
                except BaseException as error:
                    steps.throw(error)
                    raise
                effect = steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # typed by Steps[T]

    async def _timed_ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        began = time.perf_counter()
        answers = await self._store.ask(requests, until)
        self._report_answers(answers, began)
        return answers

    async def _pause(self, effect: Effect) -> bool:
        if isinstance(effect, Wait):
            return await self._wait(effect.waiter_id, effect.until)
        waiter_id = f"{SLEEPER}{id(effect)}"
        self._subscribe(waiter_id)
        try:
            return await self._wait(waiter_id, effect.until)
        finally:
            self._unsubscribe(waiter_id)

    async def _wait(self, waiter_id: str, until: float) -> bool:
        if self.runtime.closed:
            raise ClientClosed
        event = self._notifications[waiter_id]
        woken = True
        try:
            async with asyncio.timeout(None if until == inf else until - self.runtime.clock()):
                await event.wait()
        except TimeoutError:
            woken = False
        if self.runtime.closed:
            raise ClientClosed
        event.clear()
        return woken

    def clock_moved(self) -> None:
        """Have all waits look at the clock again."""
        self._call_in_loop(self._look_at_clock)

    def _look_at_clock(self) -> None:
        for event in self._notifications.values():
            event.set()
        for look in list(self._looks):
            look()

    def looks_at(self) -> float:
        """When the next body is to be cancelled before its lease ends."""
        return min(list(self._looks.values()), default=inf)

    def wait_for_callbacks(self, timeout: float) -> None:
        """Wait until the callbacks of all losses so far have returned, and the hooks."""
        for _ in range(3):  # turns of the loop, until a task sees that it was cancelled
            returned = threading.Event()
            self._call_in_loop(returned.set)
            if self._loop is not None and not self._loop.is_closed():
                returned.wait(timeout)
        self.hooks.wait(timeout)

    async def close(self) -> None:
        """End the waits, mark every lease as lost, send the releases, close the store. A second
        call waits for the first; a cancelled one lets it go on."""
        if self._finished:
            return
        if self._loop is not None and self._loop.is_closed():
            # Its connections ended with it: the releases go out on new ones.
            self._store.abandon()
            self._begin()
        self._belong_to_this_loop()
        if self._end is None:
            self.runtime.closed = True
            lose_all(self.runtime)
            for event in self._notifications.values():
                event.set()
        if self._end is None or self._end.cancelled():  # by a loop that cancels all its tasks
            self._end = self._start(self._finish(), "holdfast-close")
        await asyncio.shield(self._end)

    async def _finish(self) -> None:
        if self._running:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), CLOSE_TIMEOUT)
        loops = list(self._loops.values())
        for task in loops:
            task.cancel()
        if loops:
            await asyncio.wait(loops)
        try:
            await self._drive(send_last(self.runtime, self.runtime.clock() + CLOSE_TIMEOUT))
        except Exception as error:  # noqa: BLE001 - the store is to be closed all the same
            self.runtime.emit(InternalError("closing", error))
        finally:
            await self._store.close()
            give_up_at = asyncio.get_running_loop().time() + LAST_LINES
            # Not in a thread of the executor: a loop that ends would wait for that one.
            while self.hooks.is_busy() and asyncio.get_running_loop().time() < give_up_at:  # noqa: ASYNC110 - hooks are in threads
                await asyncio.sleep(HOOKS_EVERY)
            self._finished = True

    def abandon(self) -> None:
        """Stop without waiting for anything: the client was garbage-collected."""
        self.runtime.closed = True
        for task in self._loops.values():
            self._call_in_loop(task.cancel)
        self._store.abandon()

    async def cancel_on_loss(self, lease: LeaseState) -> None:
        """Cancel the running task when the lease is lost, until `was_cancelled_by_loss`."""
        term = await asyncio.timeout(None).__aenter__()
        terms = self._terms.get(lease)
        if terms is None:
            terms = self._terms[lease] = []
            lease.callbacks += (partial(_end_all, terms),)
        terms.append(term)
        if lease.is_lost(self.runtime.clock()):
            end_now(term)

    async def was_cancelled_by_loss(self, lease: LeaseState, error: BaseException | None) -> bool:
        """The block that `cancel_on_loss` was called for is over; True if `error` is the
        cancellation that it made, and no other caller has cancelled the task, too."""
        terms = self._terms.get(lease)
        try:
            if terms:
                await terms.pop().__aexit__(None if error is None else type(error), error, None)
        except TimeoutError:
            return True
        return False

    def cancel_before_end(self, lease: LeaseState) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Cancel the body before the lease ends: it then leaves as `TimeoutError`."""
        return cancel_before_end(lease, self.runtime.clock, self._looks)

    def _belong_to_this_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._thread = threading.get_ident()
        elif self._loop is not loop:
            raise LockError(
                "this AsyncClient belongs to another event loop; make one client for each loop"
            )

    def _subscribe(self, waiter_id: str) -> None:
        self._notifications[waiter_id] = asyncio.Event()

    def _notify(self, waiter_id: str) -> None:
        if threading.get_ident() == self._thread:
            self._notify_here(waiter_id)
        else:
            self._call_in_loop(self._notify_here, waiter_id)

    def _notify_here(self, waiter_id: str) -> None:
        event = self._notifications.get(waiter_id)
        if event is not None and self._loop is not None and not self._loop.is_closed():
            event.set()

    def _lose(self, holders: Collection[str]) -> None:
        self._call_in_loop(lose, self.runtime, holders)

    def _call_in_loop(self, function: Callable[..., object], *args: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed, perhaps an instant ago
                self._loop.call_soon_threadsafe(function, *args)

    def _call_back(self, lease: LeaseState) -> None:
        call_back(self.runtime, lease)

    def _wake(self, loop: str) -> None:
        """Notify a loop of the client; start it if it does not run."""
        if self.runtime.closed or self._loop is None or self._loop.is_closed():
            return
        if loop not in self._loops:
            task = asyncio.current_task(self._loop)
            if task is not None and task.cancelling():
                # Perhaps the event loop is being shut down, and must not get a new task.
                self._loop.call_later(RESTART_PAUSE, self._restart_loop, loop)
                return
            self._subscribe(loop)
            task = self._loops[loop] = self._start(self._run_loop(loop), f"holdfast-{loop}")
            task.add_done_callback(partial(self._loop_ended, loop))
        self._notify_here(loop)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """A task of the client's own, with nothing of the context of the caller. It does not begin
        here, under the mutex, as the eager tasks of the loop's own factory may."""
        return asyncio.Task(work, loop=self._loop, name=name, context=Context())

    def _loop_ended(self, loop: str, task: "asyncio.Task[None]") -> None:
        """It had nothing to do, unless there was a new lease before this call; or it was cancelled
        from outside: then it is started again, but not at once, since an event loop that is being
        shut down must not get a new task."""
        self._loops.pop(loop, None)
        pause = RESTART_PAUSE if task.cancelled() else 0.0
        task.get_loop().call_later(pause, self._restart_loop, loop)

    def _restart_loop(self, loop: str) -> None:
        if not self.runtime.closed and not self.runtime.is_idle(loop):
            self._wake(loop)

    async def _run_loop(self, loop: str) -> None:
        """Run a loop until there is nothing left to do, or the client is closed; should it ever
        fail, start it again."""
        while not self.runtime.closed and not self.runtime.is_idle(loop):
            try:
                await self._drive(LOOPS[loop](self.runtime))
            except ClientClosed:
                return
            except Exception as error:  # noqa: BLE001 - a defect must not end all renewals
                self.runtime.emit(InternalError(f"the {loop}", error))
                await asyncio.sleep(RESTART_PAUSE)
