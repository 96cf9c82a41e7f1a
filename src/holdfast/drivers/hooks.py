"""Events on their way to the log and to a client's hooks, and the threads that call them.

1. Each hook has a thread of its own, and gets its events in order. One that is slow, blocks or
   raises delays neither a lock nor another hook.
2. A hook runs in a copy of the context of the caller that caused the event, so that a trace finds
   its parent.
3. What waits for a hook is bounded: beyond that, events are dropped, and the hook is told how many.
4. A hook that raises is logged, and called again with the next event.
5. The log is a hook as well. A failure that repeats is logged once in a while: a lost majority
   fails every renewal of every lease, many times a second, and one line for each cause (and node),
   with the number of lines left out since, is enough.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TypeAlias

from holdfast.events import (
    AcquireFailed,
    Event,
    EventsDropped,
    HookFailed,
    InternalError,
    NodeFailed,
    NodeQuarantined,
    NodeRecovered,
    RenewalFailed,
)

logger = logging.getLogger("holdfast")

REPEAT_AFTER = 30.0
"""Seconds between two lines with the same cause."""

MOST_CAUSES = 1000
"""How many causes are remembered."""


class EventLog:
    """Logs events. There is one for all clients of a process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}
        """By cause: when it was logged last, and how many lines were left out since."""

    def __call__(self, event: Event) -> None:
        """Log an event, unless the same was logged a moment ago."""
        left_out = self._left_out(event)
        if left_out is None:
            return
        more = f" ({left_out} more like this since the last line)" if left_out else ""
        error = event.error if isinstance(event, InternalError) else None
        logger.log(event.level, "%s%s", event, more, exc_info=error, extra=dict(event.facts))

    def reset(self) -> None:
        """Log every cause anew."""
        self._seen.clear()

    def _left_out(self, event: Event) -> int | None:
        """How many lines like this were left out; None: leave this one out, too."""
        cause = _cause(event)
        if cause is None:
            return 0
        now = self._clock()
        logged_at, left_out = self._seen.get(cause, (now - REPEAT_AFTER, 0))
        if now < logged_at + REPEAT_AFTER:
            self._seen[cause] = logged_at, left_out + 1
            return None
        if len(self._seen) >= MOST_CAUSES:
            self._seen.clear()
        self._seen[cause] = now, 0
        return left_out


REPEATED = (AcquireFailed, HookFailed, NodeFailed, NodeQuarantined, NodeRecovered, RenewalFailed)
"""Events that may come again and again for one cause: see `EventLog`."""


def _cause(event: Event) -> tuple[object, ...] | None:
    """What makes two events alike: the node or hook that they are about, and the reason, without
    its times and ports, which vary; of an error its kind. None: each is logged."""
    if not isinstance(event, REPEATED):
        return None
    about = getattr(event, "node", ""), getattr(event, "where", "")
    why = re.sub(r"\d+", "", getattr(event, "why", ""))
    return type(event), about, why, type(getattr(event, "error", None))


Hook: TypeAlias = Callable[[Event], object]

MOST_WAITING = 10_000
"""Events that wait for one hook."""

GATHER = 0.01
"""For how long a hook's thread gathers events before it hands them over. To wake a thread for each
of them would make a pair on Redis half as slow again."""

LINGER = 0.1
"""How long a thread waits for the next event before it ends."""


class HookThread:
    """One hook, and the daemon thread that calls it, which is there while there are events. No
    other thread calls it: an event may happen under the mutex of the renewals."""

    def __init__(self, hook: Hook, report: Hook) -> None:
        self._hook = hook
        self._report = report
        """Where it goes if the hook raises."""
        self._dropped = 0
        self.begin()

    def begin(self) -> None:
        """Without a thread, as in a forked child."""
        self._events: deque[tuple[Event, Context]] = deque()
        """The first is the one that the hook is being called with."""
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._ending = False
        """Whether the thread is to end without waiting for more."""

    def __call__(self, event: Event) -> None:
        """Have the hook called with it, soon. It does not wait."""
        if len(self._events) >= MOST_WAITING:
            self._dropped += 1
            return
        with self._changed:
            self._events.append((event, copy_context()))
            self._changed.notify_all()
            if self._thread is None:
                thread = threading.Thread(
                    target=self._run, args=(LINGER,), name="holdfast-events", daemon=True
                )
                with suppress(RuntimeError):  # none can be started: it waits for a later one
                    thread.start()
                    self._thread = thread

    def _run(self, linger: float) -> None:
        while True:
            if not self._events:
                time.sleep(GATHER)
            with self._changed:
                if self._thread is not threading.current_thread():
                    return  # its start was interrupted: the next event starts another one
                self._changed.wait_for(lambda: self._events or self._ending, linger)
                if not self._events:
                    self._thread = None
                    self._changed.notify_all()
                    return
            self._deliver(*self._events[0])
            self._events.popleft()

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
        return bool(self._events)

    def wait(self, timeout: float) -> None:
        """Wait until the hook has had all events so far. If no thread could be started for them, as
        at the end of a program, it is called here."""
        with self._changed:
            if self._thread is threading.current_thread():
                return
            self._ending = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._thread is None, timeout)
            self._ending = False
            if self._thread is not None or not self._events:
                return
            self._thread = threading.current_thread()
        self._run(0.0)


def print_failure(event: Event) -> None:
    """What the log itself has raised, as a filter of the logger may, cannot be logged."""
    error = event.error if isinstance(event, HookFailed) else None
    trace = getattr(error, "__traceback__", None)
    threading.excepthook(threading.ExceptHookArgs((type(error), error, trace, None)))


class Hooks:
    """The hooks of one client, and the log."""

    def __init__(self, hooks: Sequence[Hook], log: HookThread) -> None:
        self._hooks = hooks
        self._log = log
        self.begin()

    def begin(self) -> None:
        """With fresh threads, as in a forked child."""
        self._threads = [HookThread(hook, self._log) for hook in self._hooks]

    def __call__(self, event: Event) -> None:
        """Hand an event to each."""
        if logger.isEnabledFor(event.level):
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
