"""The driver for threads: performs each effect by blocking.

Rules:

1. An interruption (Ctrl-C, a closing client) is thrown into the algorithm, which then yields its
   cleanup. After a Ctrl-C, that cleanup runs in a thread of its own, because a second Ctrl-C can
   only strike the main thread. So does closing; but if a signal handler closes in the middle of
   something of ours, whose locks its thread has, it gives back what is held there and then, and
   the rest is done when that is over.
2. Wake-ups are remembered from `Listen` to `unlisten`, so one that comes early is not missed.
3. The renewer is one daemon thread, started with the first lease.
4. A forked child starts anew: no threads, no leases, fresh locks.
"""

import _thread
import threading
import time
from functools import partial
from inspect import GEN_CLOSED, GEN_CREATED, getgeneratorstate
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Any, TypeAlias, TypeVar

from holdfast.core.effects import Ask, NotifyLost, Sleep, Steps, Subscribe, Wait
from holdfast.core.holding import lose, release_all
from holdfast.core.messages import HandedOver
from holdfast.core.ports import Engine, PumpedStore, StoreHost
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
from holdfast.drivers.errand import uninterruptible
from holdfast.events import InternalError

T = TypeVar("T")

Bell: TypeAlias = "SimpleQueue[HandedOver | None]"


class _Current(threading.local):
    """A token for each thread, equal to no other's, past or to come."""

    def __init__(self) -> None:
        self.thread = object()


_current = _Current()


class ThreadDriver:
    """Runs the core for one `Client`."""

    def __init__(self, engine: Engine) -> None:
        self._mutex = threading.RLock()
        self.runtime = make_runtime(engine, self._mutex, self._unsubscribe, self._wake_renewer)
        self.engine = engine
        self._begin()
        common.survive_forks(self)

    def _begin(self) -> None:
        self.in_use = False
        around = StoreHost(clock, self._notify, log, partial(lose, self.runtime), self._notify)
        self._store = self.engine.connect(around)
        self._hearing = self._store if isinstance(self._store, PumpedStore) else None
        self._tickets: dict[str, Bell] = {}
        self._renewing = threading.Lock()
        """Taken by the renewer, for as long as there is one; in the end, by whoever closes."""
        self._renewer = 0
        """Its number."""
        self.closed = self._abandoned = False
        self._running: dict[Steps[Any], int] = {}
        self._one_less: Bell = SimpleQueue()
        self._closes_after = 0
        """The thread that closes when what it has under way is over."""

    def current(self) -> object:
        """Who is asking: the running thread (not its number, which is used again)."""
        return _current.thread

    def run(self, steps: Steps[T]) -> T:
        """Perform an algorithm to its end, and give its result."""
        try:
            # First in, then the look, as `close` first closes and then looks: no lock is needed.
            self._running[steps] = get_ident()
            if self.closed:
                raise closed()
            self.in_use = True
            return self._drive(steps)
        except BaseException as error:
            if getgeneratorstate(steps) in (GEN_CREATED, GEN_CLOSED):
                raise
            return self._drive_out_of_reach(steps, error)  # struck before the cleanup was safe
        finally:
            self._running.pop(steps, None)
            if self.closed:
                self._one_less.put(None)
                self._close_after_that()

    def close(self) -> None:
        """End the waits, give every lease back, stop the renewer, close the store."""
        with self.runtime.mutex:
            if self.closed:
                return
            self._end_waits()
            amid = get_ident() in self._busy()
            if amid:
                self._closes_after = get_ident()
        if not amid and not _is_mine(self._mutex):
            uninterruptible(partial(self._close, get_ident()))
            return
        self._drive(release_all(self.runtime))
        if not amid:  # others may wait for the mutex, so nobody can wait for them here
            _thread.start_new_thread(self._close, (get_ident(),))

    def _close_after_that(self) -> None:
        me = get_ident()
        if self._closes_after == me and me not in self._busy():
            self._closes_after = 0
            uninterruptible(partial(self._close, me))

    def _busy(self) -> set[int]:
        """The threads that have something under way. One that was struck as it ended may not have
        got to say so, but it has ended."""
        running = list(self._running.items())
        return {thread for steps, thread in running if getgeneratorstate(steps) != GEN_CLOSED}

    def _close(self, caller: int) -> None:
        give_up_at = clock() + CLOSE_PATIENCE
        # What the caller itself has under way (it may be a signal handler) cannot end meanwhile.
        while self._busy() - {caller}:
            if not _wait(self._one_less, give_up_at):
                break
        self._drive(release_all(self.runtime))
        if self._renewer != caller:
            self._renewing.acquire(timeout=CLOSE_PATIENCE)
        self._store.close()

    def abandon(self) -> None:
        """Stop without waiting for anything: the client was garbage-collected."""
        self._abandoned = True
        self._end_waits()
        if self._renewing.acquire(blocking=False):  # else the renewer will
            self._store.close()

    def forked(self) -> None:
        """In a forked child: whatever was held or under way is the parent's."""
        self._mutex = self.runtime.mutex = threading.RLock()
        common.mark_all_inherited(self.runtime)
        self._store.forget()
        was_closed = self.closed
        self._begin()
        self.closed = was_closed

    def _end_waits(self) -> None:
        self.closed = True
        for waiter_id in list(self._tickets.values()):
            waiter_id.put(None)
        if self._hearing is not None:
            self._hearing.stop_pumping()

    def _drive(self, steps: Steps[T], thrown: BaseException | None = None) -> T:
        result: object = None
        while True:
            try:
                effect = steps.send(result) if thrown is None else steps.throw(thrown)
                thrown = None
                if type(effect) is Ask:
                    result = self._store.ask(effect.requests, effect.until)
                else:
                    result = self._perform(effect)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # typed by Steps[T]
            except BaseException as error:
                if getgeneratorstate(steps) == GEN_CLOSED:
                    raise  # the algorithm itself has ended with this
                thrown = _unmasked(error)
                if not isinstance(thrown, Exception):
                    return self._drive_out_of_reach(steps, thrown)

    def _drive_out_of_reach(self, steps: Steps[T], error: BaseException) -> T:
        """Throw the error in and go on where a second Ctrl-C cannot strike."""
        return uninterruptible(partial(self._drive, steps, error))

    def _perform(self, effect: Wait | Sleep | Subscribe | NotifyLost) -> object:
        if isinstance(effect, Wait):
            return self._wait(effect.waiter_id, effect.until)
        if isinstance(effect, Sleep):
            waiter_id = f"sleep of {get_ident()}"
            self._tickets[waiter_id] = SimpleQueue()
            try:
                return self._wait(waiter_id, effect.until)
            finally:
                self._unsubscribe(waiter_id)
        if isinstance(effect, Subscribe):
            self._tickets[effect.waiter_id] = SimpleQueue()
        else:
            notify_lost(self.runtime, effect.watchers)
        return None

    def _wait(self, waiter_id: str, until: float) -> HandedOver | bool:
        bell = self._tickets[waiter_id]
        if self._hearing is not None and not self.closed:
            self._hearing.pump(waiter_id, bell.empty, until)
        woken = not self.closed and _wait(bell, until)
        if self.closed:
            raise closed()
        return woken

    def _notify(self, waiter_id: str, word: HandedOver | None = None) -> None:
        bell = self._tickets.get(waiter_id)
        if bell is not None:
            bell.put(word)

    def _unsubscribe(self, waiter_id: str) -> None:
        self._tickets.pop(waiter_id, None)

    def _wake_renewer(self) -> None:
        if not self._renewing.locked() and not self.closed:
            _thread.start_new_thread(self._start_renewer, ())
        self._notify(RENEWER)

    def _start_renewer(self) -> None:
        """In a thread of its own, for which nobody waits. One that is struck by a Ctrl-C while it
        starts a `Thread` may raise anything, or, as a signal handler, wait for itself."""
        if self._renewing.acquire(blocking=False):
            try:
                threading.Thread(target=self._renew, name="holdfast-renewer", daemon=True).start()
            except RuntimeError:  # no more threads can be had: then this one
                self._renew()

    def _renew(self) -> None:
        """Run the renewer until the client is closed; should it ever fail, start it again."""
        renewing = self._renewing  # of this process, should a callback fork
        self._renewer = get_ident()
        try:
            while not self.closed:
                try:
                    self._drive(renew_for_ever(self.runtime))
                except Exception as error:  # noqa: BLE001 - a defect must not end all renewals
                    if not self.closed:
                        self.runtime.emit(InternalError("the renewer", error))
                        time.sleep(RESTART_PAUSE)
            if self._abandoned:
                self._store.close()
        finally:
            self._renewer = 0
            renewing.release()


def _is_mine(mutex: threading.RLock) -> bool:
    """Whether this thread has it: a signal handler may have struck while it had."""
    return mutex._is_owned()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001 - as Condition asks


def _unmasked(error: BaseException) -> BaseException:
    """What was raised. If a Ctrl-C strikes a Condition (such as there is in an Event, or a Future)
    that takes its lock again, this comes out as a RuntimeError: that it has no lock to let go of.
    """
    struck = error.__context__
    masked = isinstance(error, RuntimeError) and str(error) == "release unlocked lock"
    return struck if masked and isinstance(struck, KeyboardInterrupt) else error


def _wait(bell: Bell, until: float) -> HandedOver | bool:
    """Wait until it rings; False if `until` passed first, else what was said with it, if anything.

    A queue, and not an Event: a signal handler or the garbage collector may ring it in the middle
    of this very wait, and an Event's lock is not made for that.
    """
    try:
        word = bell.get(timeout=max(0.0, min(until - clock(), threading.TIMEOUT_MAX)))
    except Empty:
        return False
    while not bell.empty():  # several rings are one
        word = bell.get() or word
    return word or True
