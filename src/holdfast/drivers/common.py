"""What both drivers give to the core: the right clock, holder ids, a logger, and the fork rule."""

import atexit
import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import inf
from typing import Any
from weakref import WeakSet

from holdfast.core.effects import Steps
from holdfast.core.lease_state import LeaseState
from holdfast.core.messages import Answer, Failed
from holdfast.core.ports import Engine
from holdfast.core.records import secret_at
from holdfast.core.renewal import renew_forever, watch_deadlines
from holdfast.core.runtime import RENEWER, WATCHER, Runtime
from holdfast.drivers.hooks import EventLog, Hook, Hooks, HookThread, print_failure
from holdfast.events import Answered, InternalError, Lost

CLOSE_TIMEOUT = 10.0
"""How long closing waits for operations that are under way; node timeouts bound them anyway."""

SLEEPER = "sleep "
"""How the id begins under which a `Sleep` is waited for."""

RESTART_PAUSE = 0.1
"""How long a loop that failed pauses before it starts again."""

LOOPS: dict[str, Callable[[Runtime], Steps[None]]] = {
    RENEWER: renew_forever,
    WATCHER: watch_deadlines,
}
"""What runs beside the callers, for as long as the client has leases."""


def _boot_clock() -> Callable[[], float]:
    """A clock that is never set and that counts while the machine sleeps, where there is one."""
    if sys.platform == "linux":
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return time.monotonic


clock = _boot_clock()


def _plain(text: str, limit: int) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)[:limit] or "_"


@cache
def _process(pid: int) -> str:
    """`host/pid/program` of this process."""
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    program = os.path.basename(sys.argv[0] or "python")
    return f"{_plain(host, 64)}/{pid}/{_plain(program, 40)}"


def new_holder(label: str = "") -> str:
    """`host/pid/program/secret`: names its owner, and cannot be guessed. The label follows the
    program. The secret tells when it was made, since engines do not keep since when a lock is
    held."""
    return f"{_process(os.getpid())}{label}/{secret_at(time.time(), os.urandom(8))}"


event_log = EventLog(clock)
log = HookThread(event_log, print_failure)
"""Hands events to the `holdfast` logger, for all clients of the process."""

LAST_LINES = 1.0
"""How long the end of a client or of the process waits for hooks and log."""

atexit.register(log.wait, LAST_LINES)


def call_back(runtime: Runtime, lease: LeaseState, facade: object = None) -> None:
    """Call the callbacks of a lease that is lost. Until then this call keeps the facade alive, also
    if its user dropped it."""
    for callback in lease.callbacks:
        isolated(runtime, callback)


def isolated(runtime: Runtime, callback: Callable[[], object]) -> None:
    """Call a user's function; what it raises is logged, and nothing else."""
    try:
        callback()
    except BaseException as error:  # noqa: BLE001 - a user's callback may raise anything
        runtime.emit(InternalError("an on_lost callback", error))


class Driver(ABC):
    """What the two drivers have in common."""

    in_use = False
    _store: Any
    _notifications: dict[str, Any]
    """For each waiter."""

    def __init__(self, engine: Engine, hooks: Sequence[Hook] = ()) -> None:
        self.engine = engine
        self.hooks = Hooks(hooks, log)
        self.runtime = Runtime(
            clock=clock,
            uniform=random.uniform,
            new_holder=new_holder,
            emit=self.hooks,
            mutex=threading.RLock(),  # asyncio could do without, but `nullcontext` costs more
            drift=engine.drift,
            min_ttl=engine.guarantees.min_ttl,
            ttl_step=engine.guarantees.ttl_step,
            subscribe=self._subscribe,
            unsubscribe=self._unsubscribe,
            wake=self._wake,
            notify_lost=self._notify_lost,
            joins_at_once=engine.joins_at_once,
            engine=engine.guarantees.engine.partition(";")[0],
            has_hooks=bool(self.hooks),
        )
        self._begin()
        _drivers.add(self)

    def _report_answers(self, answers: Sequence[Answer], began: float) -> None:
        failed = sum(type(answer) is Failed for answer in answers)
        seconds = time.perf_counter() - began
        self.runtime.emit(Answered(seconds, len(answers), failed))

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _subscribe(self, waiter_id: str) -> None: ...

    def _unsubscribe(self, waiter_id: str) -> None:
        self._notifications.pop(waiter_id, None)

    @abstractmethod
    def _notify(self, waiter_id: str) -> None: ...

    def _notify_all(self) -> None:
        """Notify every waiter; what only sleeps goes on."""
        for waiter_id in list(self._notifications):
            if not waiter_id.startswith(SLEEPER):
                self._notify(waiter_id)

    @abstractmethod
    def _wake(self, loop: str) -> None: ...

    def _notify_lost(self, lease: LeaseState) -> None:
        held = self.runtime.clock() - lease.acquired_at if lease.acquired_at else 0.0
        self.runtime.emit(Lost(lease.spec.name, lease.holder, lease.fence, lease.why, held))
        if lease.callbacks:
            self._call_back(lease)

    @abstractmethod
    def _call_back(self, lease: LeaseState) -> None: ...

    @abstractmethod
    def clock_moved(self) -> None:
        """Have all waits look at the clock again: a test has moved it."""

    def looks_at(self) -> float:
        """When it has something to do besides renewals and losses."""
        return inf

    @abstractmethod
    def wait_for_callbacks(self, timeout: float) -> None:
        """Wait until the callbacks of all losses so far have returned, and the hooks, in another
        thread than theirs."""

    @abstractmethod
    def current(self) -> object:
        """The caller: the running thread or task."""

    @abstractmethod
    def abandon(self) -> None:
        """Stop without waiting for anything: the client was garbage-collected."""

    def forked(self) -> None:
        """In a forked child: all that was held or under way belongs to the parent."""
        self.hooks.begin()
        self.runtime.forked(threading.RLock())
        self._store.forget()
        self._begin()


_drivers: WeakSet[Driver] = WeakSet()


def drivers() -> list[Driver]:
    """Those of all clients of this process."""
    return list(_drivers)


def _after_fork_in_child() -> None:
    log.begin()
    for driver in drivers():
        driver.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
