"""One `holdfast run`: acquire the lock, run the command, release the lock."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from holdfast.cli import exits
from holdfast.cli.child import Child
from holdfast.cli.options import (
    OnLost,
    bad_arguments_are_usage_errors,
    describe_holder,
    open_client,
)
from holdfast.cli.output import Output
from holdfast.cli.signals import Signals, all_signals_blocked
from holdfast.cli.supervise import LossRule, Supervisor
from holdfast.cli.terminal import Terminal
from holdfast.cli.waiting import WaitingLine, waits_for_its_parent

if TYPE_CHECKING:
    from holdfast import Client, Lease, Lock

_LONGEST_DEFAULT_KILL_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `holdfast run`."""

    name: str
    argv: tuple[str, ...]
    url: str | None
    ttl: float | None
    timeout: float | None
    conflict_exit_code: int
    min_hold: float
    max_hold: float | None
    label: str
    on_lost: OnLost
    kill_after: float | None


class Interrupted(Exception):
    """A signal ended the wait for the lock."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def run_locked(request: Request, output: Output) -> int:
    """Acquire, run, release. Returns the exit code; -n: holdfast is to end by signal n."""
    with Child(request.argv) as child, Signals() as signals, Terminal() as terminal:
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

    def with_client(self, client: Client) -> int:
        lock, rule = self._prepare(client)
        self.output.detail(f"waiting for {self.request.name!r} on {client.url}")
        if self.request.timeout != 0 and waits_for_its_parent(client, self.request.name):
            self.output.note(
                f"{self.request.name!r} is held by the holdfast run that this one runs inside of:"
                " it will not be released before this one ends"
            )
        with WaitingLine(client, self.request.name, quiet=self.output.quiet):
            lease = self._acquire(lock)
        if lease is None:
            self._explain_conflict(client)
            return self.request.conflict_exit_code
        self.output.detail(f"acquired {lease.name!r}: fence {lease.fence}, ttl {lease.ttl:g} s")
        release_at = time.monotonic() + self.request.min_hold
        code = self._run_command(lease, rule)
        self._keep(lease, release_at)
        self._release(lease)
        return code

    def _prepare(self, client: Client) -> tuple[Lock, LossRule]:
        with bad_arguments_are_usage_errors():
            lock = client.lock(
                self.request.name,
                ttl=self.request.ttl,
                max_hold=self.request.max_hold,
                label=self.request.label,
            )
        kill_after = self.request.kill_after
        if kill_after is None:
            kill_after = min(_LONGEST_DEFAULT_KILL_AFTER, lock.ttl / 3)
        elif kill_after >= lock.ttl * 2 / 3:
            raise click.UsageError(
                f"--kill-after {kill_after:g} must be less than 2/3 of the ttl of {lock.ttl:g} s:"
                " a healthy lease is renewed when that much is left, so the command would be"
                " stopped for nothing. Give a longer --ttl or a shorter --kill-after."
            )
        return lock, LossRule(self.request.on_lost, kill_after, self.request.max_hold or math.inf)

    def _acquire(self, lock: Lock) -> Lease | None:
        """Wait in a thread, so that this one can handle signals.

        Closing the client then ends the wait, and releases what was acquired.
        """
        leases: list[Lease | None] = []
        errors: list[Exception] = []

        def ask() -> None:
            try:
                leases.append(lock.acquire(timeout=self.request.timeout))
            except Exception as error:  # noqa: BLE001 - raised again below
                errors.append(error)
            self.signals.wake()

        with all_signals_blocked():  # in that thread and the client's: signals are handled here
            threading.Thread(target=ask, name="holdfast-acquire", daemon=True).start()
        while True:
            # Signals first: `ending` takes the thread's `wake` out of the pipe too, so the look at
            # what it brought must come after.
            if signum := self.signals.ending():
                raise Interrupted(signum)
            if errors:
                raise errors[0]
            if leases:
                return leases[0]
            self.signals.wait(math.inf)

    def _run_command(self, lease: Lease, rule: LossRule) -> int:
        supervisor = Supervisor(self.child, lease, rule, self.signals, self.terminal, self.output)
        if not supervisor.may_start():
            return exits.LOST
        try:
            self.terminal.lend(self.child.pid)
            self.child.start(
                {
                    "HOLDFAST_NAME": lease.name,
                    "HOLDFAST_HOLDER": lease.holder,
                    "HOLDFAST_FENCE": str(lease.fence),
                }
            )
            return supervisor.watch()
        finally:
            self.child.close()  # also after an error: the command must not outlive the lease
            self.terminal.take_back(self.child.pid)

    def _keep(self, lease: Lease, release_at: float) -> None:
        """Keep the lock until --min-hold is over, unless the lease is lost or a signal arrives."""
        while (left := release_at - time.monotonic()) > 0:
            if self.signals.ending():
                self.output.note(f"interrupted: released {lease.name!r} before --min-hold was over")
                return
            if lease.lost:
                break
            self.signals.wait(left)
        if self.request.min_hold and lease.lost:
            self.output.note(f"the lease on {lease.name!r} was lost after the command had ended")

    def _release(self, lease: Lease) -> None:
        from holdfast import EngineUnavailable, LockLost

        try:
            lease.release()
        except LockLost as loss:
            self.output.detail(str(loss))
        except EngineUnavailable as error:
            self.output.note(str(error))
        else:
            self.output.detail(f"released {lease.name!r}")

    def _explain_conflict(self, client: Client) -> None:
        from holdfast import EngineUnavailable

        try:
            info = client.inspect(self.request.name)
        except EngineUnavailable:
            info = None
        by = f" by {describe_holder(info)}" if info else ""
        waited = f" after {self.request.timeout:g} s" if self.request.timeout else ""
        self.output.note(
            f"{self.request.name!r} is still held{by}; gave up{waited}, nothing was run"
        )
