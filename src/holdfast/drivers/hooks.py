"""Events on their way to the log and to a client's hooks.

1. Each hook has a thread of its own, and gets its events in order. One that is slow, blocks or
   raises delays neither a lock nor another hook.
2. A hook runs in a copy of the context of the caller that caused the event, so that a trace finds
   its parent.
3. What waits for a hook is bounded: beyond that, events are dropped, and the hook is told how many.
4. A hook that raises is logged, and called again with the next event.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import TypeAlias

from holdfast.drivers.callbacks import CallbackThreads
from holdfast.drivers.log import EventLog, logger
from holdfast.events import Event, EventsDropped, HookFailed

Hook: TypeAlias = Callable[[Event], object]

MOST_WAITING = 10_000
"""Events that wait for one hook."""

GATHER = 0.01
"""For how long a hook's thread gathers events before it hands them over. To wake a thread for each
of them would make a pair on Redis half as slow again."""


class HookThread:
    """One hook, and what it is to be called with."""

    def __init__(self, hook: Hook, report: Hook) -> None:
        self._hook = hook
        self._report = report
        """Where it goes if the hook raises."""
        self._dropped = 0
        self.begin()

    def begin(self) -> None:
        """With a fresh thread, as in a forked child. A hook is called by this thread alone: an
        event may happen under the mutex of the renewals, which a hook must not keep."""
        self._calls = CallbackThreads(1, "holdfast-events", must=False, gather=GATHER)

    def __call__(self, event: Event) -> None:
        """Have the hook called with it, soon. It does not wait."""
        if self._calls.waiting() >= MOST_WAITING:
            self._dropped += 1
            return
        self._calls.submit(partial(self._deliver, event, copy_context()))

    def _deliver(self, event: Event, context: Context) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._call(EventsDropped(dropped), context)
        self._call(event, context)

    def _call(self, event: Event, context: Context) -> None:
        try:
            context.run(self._hook, event)
        except BaseException as error:  # noqa: BLE001 - a user's hook may raise anything
            self._report(HookFailed(f"the hook {self._hook!r}", error))

    def is_busy(self) -> bool:
        """Whether the hook has not had all events yet."""
        return self._calls.is_busy()

    def wait(self, timeout: float) -> None:
        """Wait until the hook has had all events so far."""
        self._calls.wait(timeout)


class Log(HookThread):
    """The log is a hook, too: for all clients of the process, and only for what it shows."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._log = EventLog(clock)
        super().__init__(self._log, self._fail)

    def __call__(self, event: Event) -> None:
        """Have it logged, unless nothing would come of it."""
        if logger.isEnabledFor(event.level):
            super().__call__(event)

    @staticmethod
    def _fail(event: Event) -> None:
        """A filter of the logger raised, which cannot be logged."""
        error = event.error if isinstance(event, HookFailed) else None
        threading.excepthook(
            threading.ExceptHookArgs(
                (type(error), error, getattr(error, "__traceback__", None), None)
            )
        )

    def reset(self) -> None:
        """Log every cause anew."""
        self._log.reset()


class Hooks:
    """The hooks of one client, and the log."""

    def __init__(self, hooks: Sequence[Hook], log: Log) -> None:
        self._hooks = hooks
        self._log = log
        self.begin()

    def begin(self) -> None:
        """With fresh threads, as in a forked child."""
        self._threads = [HookThread(hook, self._log) for hook in self._hooks]

    def __call__(self, event: Event) -> None:
        """Hand an event to each."""
        self._log(event)
        for thread in self._threads:
            thread(event)

    def __bool__(self) -> bool:
        """Whether anything but trouble is worth an event."""
        return bool(self._hooks) or logger.isEnabledFor(logging.DEBUG)

    def is_busy(self) -> bool:
        """Whether any of them has not had all yet."""
        return any(thread.is_busy() for thread in (self._log, *self._threads))

    def wait(self, timeout: float) -> None:
        """Wait until all have had what has happened so far."""
        for thread in (self._log, *self._threads):
            thread.wait(timeout)
