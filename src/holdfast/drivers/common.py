"""What both drivers give to the core: the right clock, holder ids, a logger, and the fork rule."""

import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol
from weakref import WeakSet

from holdfast.core.ports import Engine
from holdfast.core.runtime import Runtime
from holdfast.core.schedule import Schedule
from holdfast.drivers.log import EventLog
from holdfast.errors import LockError
from holdfast.events import InternalError

CLOSE_PATIENCE = 10.0
"""How long closing waits for what is under way; all of it is bounded by node timeouts anyway."""

RESTART_PAUSE = 0.1
"""How long a renewer that failed rests before it starts again."""


def _boot_clock() -> Callable[[], float]:
    """A clock that nobody sets and that counts while the machine sleeps, where there is one."""
    if sys.platform == "linux":
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return time.monotonic


clock = _boot_clock()


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def _plain(text: str, limit: int) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)[:limit] or "_"


class _Label:
    """`host/pid/program/` of this process; made anew in a forked child."""

    def __init__(self) -> None:
        self.make()

    def make(self) -> None:
        program = _plain(os.path.basename(sys.argv[0] or "python"), 40)
        self.text = f"{_plain(_host(), 64)}/{os.getpid()}/{program}/"


_label = _Label()


def new_holder() -> str:
    """`host/pid/program/secret`: says who it is, and nobody can guess it."""
    return _label.text + os.urandom(16).hex()


log = EventLog(clock)
"""Hands events to the `holdfast` logger, for all clients of the process."""


def make_runtime(
    engine: Engine,
    mutex: AbstractContextManager[object],
    unsubscribe: Callable[[str], None],
    wake_renewer: Callable[[], None],
) -> Runtime:
    """The surroundings of a client in the real world."""
    return Runtime(
        clock=clock,
        uniform=random.uniform,
        new_holder=new_holder,
        emit=log,
        mutex=mutex,
        drift=engine.drift,
        min_ttl=engine.guarantees.min_ttl,
        unsubscribe=unsubscribe,
        wake_renewer=wake_renewer,
        schedule=Schedule(),
    )


def notify_lost(runtime: Runtime, watchers: tuple[Callable[[], None], ...]) -> None:
    """Call each; what one raises is reported and keeps nobody else from being told."""
    for watcher in watchers:
        try:
            watcher()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's callback may raise anything
            runtime.emit(InternalError("an on_lost callback", error))


def closed() -> LockError:
    """The error for whoever still wants something of a closed client."""
    return LockError("this client is closed; nothing is held through it any more")


class Driver(Protocol):
    """What the two drivers have in common."""

    runtime: Runtime
    engine: Engine
    closed: bool
    in_use: bool

    def current(self) -> object:
        """Who is asking: the running thread or task."""
        ...

    def abandon(self) -> None:
        """Stop without waiting for anything: the client was garbage-collected."""
        ...

    def forked(self) -> None:
        """In a forked child: whatever was held or under way is the parent's."""
        ...


_drivers: WeakSet[Driver] = WeakSet()


def survive_forks(driver: Driver) -> None:
    """Have `driver.forked()` called in every forked child."""
    _drivers.add(driver)


def _after_fork_in_child() -> None:
    _label.make()
    for driver in list(_drivers):
        driver.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def mark_all_inherited(runtime: Runtime) -> None:
    """In a forked child: every lease on the schedule is the parent's."""
    for tenure in runtime.schedule.held():
        tenure.mark_inherited()
    runtime.schedule.clear()
