"""The driver for threads: performs each effect by blocking.

Rules:

1. An interruption (Ctrl-C, a closing client) is thrown into the algorithm, which ends with it. What
   the engine may still have of the caller is among the pending releases then. The caller sends
   these once (`deliver`), and waits for the answer unless it is interrupted again; what is not
   confirmed is sent by the renewer.
2. Notifications are remembered from `subscribe` to `unsubscribe`, so an early one is not missed.
3. A client has two daemon threads, started with its first lease: the renewer, which sends, and the
   watcher, which waits for deadlines. Users' callbacks have other threads.
4. The renewer closes the client, too: `close()` sets a flag and waits for it. It does not wait if
   it is called by a signal handler in the middle of an operation of the same thread.
5. A forked child starts anew: no threads, no leases, fresh locks.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Any, TypeVar

from holdfast.core.effects import Ask, Effect, Steps, Wait
from holdfast.core.holding import lose
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.messages import Answer, Request
from holdfast.core.ports import PumpedStore, Store, StoreHost
from holdfast.core.release import deliver, lose_all, send_last
from holdfast.core.runtime import RENEWER
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

T = TypeVar("T")

LOOK_EVERY = 0.2
"""How often closing looks for a renewer, and for operations that are still under way."""

MOST_CALLBACKS = 32
"""How many leases' callbacks are called at once. One that blocks holds no other up, unless so many
do; and a thousand leases that are lost together need no thousand threads."""

SIGNALS_EVERY = 1.0
"""How often a caller that waits looks for signals. Python sees one that came an instant before the
thread blocked, or in another thread, only when the thread wakes: a Ctrl-C could wait for a ttl."""


class _Current(threading.local):
    """A token for each thread, equal to no other's, past or to come."""

    def __init__(self) -> None:
        self.thread = _Token()


class _Token:
    """A thread, as its leases know it; can be referred to weakly."""

    __slots__ = ("__weakref__",)


_current = _Current()


class ThreadDriver(Driver):
    """Runs the core for one `Client`."""

    def _begin(self) -> None:
        self.in_use = False
        lose_leases = partial(lose, self.runtime)
        host = StoreHost(
            self.runtime.clock, self._notify, self.hooks, lose_leases, self._notify_all
        )
        self._store: Store = self.engine.connect(host)
        self._ask = self._timed_ask if self.runtime.has_hooks else self._store.ask
        self._pumped = self._store if isinstance(self._store, PumpedStore) else None
        self._notifications: dict[str, SimpleQueue[None]] = {}
        """For each waiter."""
        self._loops: dict[str, threading.Thread] = {}
        self._running: dict[Steps[Any], int] = {}
        """The operations under way, and their threads."""
        self._closed = threading.Event()
        if self.runtime.closed:  # before the fork
            self._closed.set()
        self._losses: deque[Callable[[], None]] = deque()
        """Calls the callbacks of a lost lease; for each that has not begun."""
        self._callbacks: set[threading.Thread] = set()
        """What calls them."""

    def current(self) -> object:
        """The caller: the running thread (not its number, which is used again)."""
        return _current.thread

    def run(self, steps: Steps[T]) -> T:
        """Perform an algorithm to its end, and give its result."""
        try:
            # Entered before the look at `closed`, because `close` sets it before it looks at what
            # is running: one of the two sees the other.
            self._running[steps] = get_ident()
            if self.runtime.closed:
                raise ClientClosed
            self.in_use = True
            return self._drive(steps)
        finally:
            self._running.pop(steps, None)
            if self.runtime.closed:
                self._notify(RENEWER)

    def finish(self, steps: Steps[None]) -> None:
        """Perform the second part of a release. If the client is closed meanwhile, its renewer
        does that."""
        try:
            self.run(steps)
        except ClientClosed:
            return

    def deliver(self, spec: LockSpec, *holders: str) -> None:
        """After an interruption: try once to deliver the releases of these holders."""
        with suppress(LockError):
            self.run(deliver(self.runtime, spec, *holders))

    def _drive(self, steps: Steps[T]) -> T:
        try:
            effect = steps.send(None)
            while True:
                try:
                    if type(effect) is Ask:
                        result: object = self._ask(effect.requests, effect.until)
                    else:
                        result = self._pause(effect)
                except BaseException as error:
                    steps.throw(error)
                    raise
                effect = steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # typed by Steps[T]

    def _timed_ask(self, requests: Sequence[Request], until: float) -> Sequence[Answer]:
        began = time.perf_counter()
        answers = self._store.ask(requests, until)
        self._report_answers(answers, began)
        return answers

    def _pause(self, effect: Effect) -> bool:
        if isinstance(effect, Wait):
            return self._wait(effect.waiter_id, effect.until)
        waiter_id = f"{SLEEPER}{id(effect)}"  # not the thread's: its signal handler may sleep, too
        self._subscribe(waiter_id)
        try:
            return self._wait(waiter_id, effect.until)
        finally:
            self._unsubscribe(waiter_id)

    def _wait(self, waiter_id: str, until: float) -> bool:
        notifications = self._notifications[waiter_id]
        clock = self.runtime.clock
        while True:
            if self.runtime.closed:  # `close` sets it before it ends the waits
                raise ClientClosed
            look_at = until
            if waiter_id not in LOOPS:
                look_at = min(until, clock() + SIGNALS_EVERY)
                if self._pumped is not None and not waiter_id.startswith(SLEEPER):
                    self._pumped.pump(waiter_id, notifications.empty, look_at)
            woken = self._get(notifications, look_at)
            if woken or clock() >= until:
                break
        if self.runtime.closed:
            raise ClientClosed
        return woken

    def _get(self, notifications: "SimpleQueue[None]", until: float) -> bool:
        """Wait for a notification; False if `until` passed first.

        A queue, and not an Event: a signal handler or the garbage collector may notify in the
        middle of this very wait, and an Event's lock is not made for that.
        """
        left = until - self.runtime.clock()
        try:
            notifications.get(timeout=max(0.0, min(left, threading.TIMEOUT_MAX)))
        except Empty:
            return False
        while not notifications.empty():  # several notifications are one
            notifications.get()
        return True

    def _subscribe(self, waiter_id: str) -> None:
        self._notifications[waiter_id] = SimpleQueue()

    def _notify(self, waiter_id: str) -> None:
        notifications = self._notifications.get(waiter_id)
        if notifications is not None:
            notifications.put(None)
            if self._pumped is not None:
                self._pumped.wake(waiter_id)

    def clock_moved(self) -> None:
        """Have all waits look at the clock again."""
        for waiter_id in list(self._notifications):
            self._notify(waiter_id)

    def wait_for_callbacks(self, timeout: float) -> None:
        """Wait until the callbacks of all losses so far have returned, and the hooks."""
        self._wait_for_callbacks(timeout)
        self.hooks.wait(timeout)

    def _call_back(self, lease: LeaseState) -> None:
        """Needs the mutex."""
        facade = None if lease.facade is None else lease.facade()
        self._losses.append(partial(call_back, self.runtime, lease, facade))
        if len(self._callbacks) < MOST_CALLBACKS:
            thread = threading.Thread(
                target=self._call_all_back, name="holdfast-callbacks", daemon=True
            )
            self._callbacks.add(thread)
            with suppress(RuntimeError):  # no more threads can be started
                try:
                    thread.start()
                finally:
                    if not thread.is_alive():
                        self._callbacks.discard(thread)
            if not self._callbacks:
                self._losses.popleft()()

    def _call_all_back(self) -> None:
        """Call the callbacks of one lost lease after the other, until all have begun."""
        while True:
            with self.runtime.mutex:
                if not self._losses:
                    self._callbacks.discard(threading.current_thread())
                    return
                call = self._losses.popleft()
            call()
            del call  # or it would keep the lease until the next one is lost

    def _wait_for_callbacks(self, timeout: float) -> None:
        """Wait until the callbacks of all losses so far have returned, unless this is one."""
        give_up_at = time.monotonic() + timeout
        for thread in list(self._callbacks):
            if thread is not threading.current_thread():
                thread.join(max(0.0, give_up_at - time.monotonic()))

    def _wake(self, loop: str) -> None:
        """Notify a loop; start it if it does not run. Needs the mutex."""
        if self._closed.is_set():
            return
        if not self._is_running(loop):
            self._subscribe(loop)
            self._loops[loop] = thread = threading.Thread(
                target=self._run_loop, args=(loop,), name=f"holdfast-{loop}", daemon=True
            )
            thread.start()
        self._notify(loop)

    def _is_running(self, loop: str) -> bool:
        return loop in self._loops and self._loops[loop].is_alive()

    def _run_loop(self, loop: str) -> None:
        """Run a loop until there is nothing left to do, or the client is closed; should it ever
        fail, start it again."""
        runtime = self.runtime
        with runtime.mutex:
            if self._loops.get(loop) is not threading.current_thread():
                return  # an interruption came before it ran, and another was started
        while not runtime.closed:
            with runtime.mutex:
                if runtime.is_idle(loop) and not runtime.closed:  # else it must close
                    del self._loops[loop]
                    return
            try:
                self._drive(LOOPS[loop](runtime))
            except ClientClosed:
                break
            except BaseException as error:  # noqa: BLE001 - a defect must not end all renewals
                runtime.emit(InternalError(f"the {loop}", error))
                time.sleep(RESTART_PAUSE)
        if loop == RENEWER:
            self._finish()

    def close(self) -> None:
        """End the waits, and have the renewer do the rest: it marks every lease as lost, sends the
        releases and closes the store. A second `close()` waits for the first."""
        self.runtime.closed = True
        self._end_waits()
        with self.runtime.mutex, suppress(RuntimeError):  # no more threads can be started
            self._wake(RENEWER)
        if get_ident() in self._busy() or threading.current_thread() in self._loops.values():
            return
        if _is_held_here(self.runtime.mutex):
            return  # this is a signal handler, and its thread has the mutex
        while not self._closed.wait(LOOK_EVERY):
            if not self._is_running(RENEWER):  # none can be started, or an interrupt ended it
                self._finish()
        self._wait_for_callbacks(CLOSE_TIMEOUT)
        self.hooks.wait(LAST_LINES)

    def _finish(self) -> None:
        """The client is closed: wait for what is under way, send the last releases, and close."""
        runtime, clock = self.runtime, self.runtime.clock
        try:
            lose_all(runtime)
            give_up_at = clock() + CLOSE_TIMEOUT
            while self._busy() and clock() < give_up_at:
                self._end_waits()
                self._get(self._notifications[RENEWER], clock() + LOOK_EVERY)
            self._drive(send_last(runtime, clock() + CLOSE_TIMEOUT))
        except BaseException as error:  # noqa: BLE001 - the store is to be closed all the same
            runtime.emit(InternalError("closing", error))
        finally:
            self._store.close()
            self._closed.set()

    def _busy(self) -> set[int]:
        """The threads that have an operation under way."""
        running = list(self._running.items())
        return {thread for steps, thread in running if getgeneratorstate(steps) != GEN_CLOSED}

    def _end_waits(self) -> None:
        """End all waits but the renewer's, which may be the one that ends them."""
        for waiter_id in list(self._notifications):
            if waiter_id != RENEWER:
                self._notify(waiter_id)

    def abandon(self) -> None:
        """Close without waiting for anything: the client was garbage-collected."""
        self.runtime.closed = True
        self._end_waits()
        self._notify(RENEWER)
        if not self._is_running(RENEWER):
            self._store.close()
            self._closed.set()


def _is_held_here(mutex: Any) -> bool:
    """Whether the running thread has this lock."""
    try:
        threading.Condition(mutex).notify(0)
    except RuntimeError:  # it refuses a thread that has not
        return False
    return True
