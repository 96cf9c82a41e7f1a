"""One `holdfast run`: acquire the lock, run the command, release the lock."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, TypeAlias

import click

import holdfast
from holdfast.cli import console
from holdfast.cli.child import Child
from holdfast.cli.console import Output
from holdfast.cli.options import (
    OnLost,
    bad_arguments_are_usage_errors,
    describe_holders,
    open_client,
)
from holdfast.cli.signals import Signals, Terminal, all_signals_blocked
from holdfast.cli.supervise import LossRule, Supervisor
from holdfast.cli.waiting import WaitingLine, first_held

_LONGEST_DEFAULT_KILL_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `holdfast run`, or of `holdfast elect`."""

    name: str
    argv: tuple[str, ...]
    url: str | None
    ttl: float | None
    max_hold: float | None
    label: str
    on_lost: OnLost
    kill_after: float | None
    timeout: float | None = None
    conflict_exit_code: int = console.CONFLICT
    min_hold: float = 0.0
    value: str | None = None
    """What a leader publishes; None: this is no election."""
    also: tuple[str, ...] = ()
    """Further names, which are held with it."""
    shared: bool = False
    slots: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)

    @property
    def shares(self) -> int:
        """How many may hold it at once; 0: no limit."""
        return 0 if self.shared else self.slots


Held: TypeAlias = "holdfast.Lease | holdfast.LeaseAll"
"""What is held: one lock, or several as one."""


class Interrupted(Exception):
    """A signal ended the wait for the lock."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def run_locked(request: Request, output: Output) -> int:
    """Acquire, run, release. Returns the exit code; -n: holdfast is to end by signal n.

    Raises `Exit` if the engine is unreachable, or the command cannot be executed.
    """
    with Child(request.argv) as child, Signals() as signals:
        terminal = Terminal()
        try:
            with open_client(request.url, output) as client:
                return _Run(request, output, child, signals, terminal).with_client(client)
        except Interrupted as interruption:
            output.detail(f"stopped waiting for {request.name!r}; nothing is held")
            return -interruption.signum


@dataclass(frozen=True, slots=True)
class _Run:
    request: Request
    output: Output
    child: Child
    signals: Signals
    terminal: Terminal

    def with_client(self, client: holdfast.Client) -> int:
        acquire, rule = self._prepare(client)
        self.output.detail(f"waiting for {self._shown} on {client.url}")
        with WaitingLine(client, self.request.names, self.request.shares, self.output):
            lease = self._acquire(acquire)
        if lease is None:
            self._explain_conflict(client)
            return self.request.conflict_exit_code
        fence = self._leases(lease)[self.request.name].fence
        self.output.detail(f"acquired {self._shown}: fence {fence}, ttl {lease.ttl:g} s")
        release_at = time.monotonic() + self.request.min_hold
        code = self._run_command(lease, rule)
        if self.child.executed:  # else another host may run it
            self._keep(lease, release_at)
        self._release(lease)
        if code in (console.NOT_EXECUTABLE, console.NOT_FOUND) and not self.child.executed:
            raise click.exceptions.Exit(code)
        return code

    @property
    def _shown(self) -> str:
        return ", ".join(map(repr, self.request.names))

    def _leases(self, held: Held) -> dict[str, holdfast.Lease]:
        several = [held] if isinstance(held, holdfast.Lease) else held._leases  # noqa: SLF001
        return {lease.name: lease for lease in several}

    def _prepare(self, client: holdfast.Client) -> tuple[Callable[[], Held | None], LossRule]:
        """How to acquire, and what to do after a loss."""
        request = self.request
        options: Any = {
            "ttl": request.ttl,
            "max_hold": request.max_hold,
            "label": request.label,
        }
        with bad_arguments_are_usage_errors():
            lock = client.lock(request.name, **options)
            if request.shared:
                lock = client.rwlock(request.name, **options).read
            elif request.slots != 1:
                lock = client.semaphore(request.name, request.slots, **options)
            acquire: Callable[[], Held | None] = partial(lock.acquire, timeout=request.timeout)
            if request.value is not None:
                acquire = client.election(request.name, value=request.value, **options).campaign
            elif request.also:
                several = client.lock_all(request.names, **options)
                acquire = partial(several.acquire, timeout=request.timeout)
        return acquire, self._rule(lock.ttl)

    def _rule(self, ttl: float) -> LossRule:
        kill_after = self.request.kill_after
        if kill_after is None:
            kill_after = min(_LONGEST_DEFAULT_KILL_AFTER, ttl / 3)
        elif kill_after >= ttl * 2 / 3:
            raise click.UsageError(
                f"--kill-after {kill_after:g} must be less than 2/3 of the ttl of {ttl:g} s,"
                " which is when a lease is renewed: give a longer --ttl or a shorter --kill-after."
            )
        return LossRule(self.request.on_lost, kill_after, self.request.max_hold or inf)

    def _acquire(self, acquire: Callable[[], Held | None]) -> Held | None:
        """Wait in a thread, so that this one can handle signals.

        Closing the client then ends the wait, and releases what was acquired.
        """
        answer: Future[Held | None] = Future()

        def ask() -> None:
            try:
                answer.set_result(acquire())
            except Exception as error:  # noqa: BLE001 - raised again below
                answer.set_exception(error)
            self.signals.wake()

        with all_signals_blocked():  # in that thread and the client's: signals are handled here
            threading.Thread(target=ask, name="holdfast-acquire", daemon=True).start()
        while True:
            # Signals first: `ending` takes the thread's `wake` out of the pipe too, so the look at
            # what it brought must come after.
            if signum := self.signals.ending():
                raise Interrupted(signum)
            if answer.done():
                return answer.result()
            self.signals.wait(inf)

    def _run_command(self, lease: Held, rule: LossRule) -> int:
        fence = self._leases(lease)[self.request.name].fence
        supervisor = Supervisor(
            self.child,
            lease,
            f"{self._shown} (fence {fence})",
            rule,
            self.signals,
            self.terminal,
            self.output.without_waiting(),
        )
        if not supervisor.may_start():
            return console.LOST
        try:
            self.terminal.lend(self.child.pid)
            self.child.start(self._environment(lease))
            return supervisor.watch()
        finally:
            self.child.close()  # also after an error: the command must not outlive the lease
            self.terminal.take_back(self.child.pid)

    def _environment(self, lease: Held) -> dict[str, str]:
        leases = self._leases(lease)
        named = leases[self.request.name]
        return {
            "HOLDFAST_NAME": named.name,
            "HOLDFAST_HOLDER": named.holder,
            "HOLDFAST_FENCE": str(named.fence),
            "HOLDFAST_FENCES": json.dumps({name: each.fence for name, each in leases.items()}),
        }

    def _keep(self, lease: Held, release_at: float) -> None:
        """Keep the lock until --min-hold is over, unless the lease is lost or a signal arrives."""
        while (left := release_at - time.monotonic()) > 0:
            if self.signals.ending():
                self.output.note(f"interrupted: released {self._shown} before --min-hold was over")
                return
            if lease.lost:
                self.output.note(
                    f"the lease on {self._shown} was lost before --min-hold was over; another"
                    " client may hold the lock"
                )
                return
            self.signals.wait(left)

    def _release(self, lease: Held) -> None:
        try:
            lease.release()
        except holdfast.LockLost as loss:
            self.output.detail(str(loss))
        except holdfast.EngineUnavailable as error:
            self.output.note(str(error))
        else:
            self.output.detail(f"released {self._shown}")

    def _explain_conflict(self, client: holdfast.Client) -> None:
        name, by = self.request.name, ""
        with suppress(holdfast.EngineUnavailable):
            if info := first_held(client, self.request.names):
                name, by = info.name, f" by {describe_holders(info)}"
        waited = f" after {self.request.timeout:g} s" if self.request.timeout else ""
        self.output.note(f"{name!r} is still held{by}; gave up{waited}, nothing was run")
